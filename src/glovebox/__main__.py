"""`python -m glovebox`."""

import sys

from glovebox.cli import first

first.stay_behind()

from glovebox.cli.main import main  # noqa: E402 - the first process loads nothing

sys.exit(main())
