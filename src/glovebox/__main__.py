"""`python -m glovebox`."""

import sys

from glovebox.cli.main import main

sys.exit(main())
