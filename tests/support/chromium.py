"""The Chromium that a box finds, for tests that drive one themselves."""

from __future__ import annotations

import os

from glovebox.box.browser.chromium_path import find_chromium
from glovebox.box.browser.worker.flags import flags

#: None is Playwright's own.
CHROMIUM = find_chromium("", os.environ["PATH"]) or None
FLAGS = flags(())
