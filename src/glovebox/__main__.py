"""`python -m glovebox`."""

import sys

from glovebox.cli import pid1

pid1.stay_behind()

from glovebox.cli.main import main  # noqa: E402 - the first process loads nothing

sys.exit(main())
