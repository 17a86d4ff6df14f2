"""The Chromium that a box finds, for tests that drive one themselves."""

from __future__ import annotations

import os

from glovebox.box.browser.chromium import find_chromium, flags

#: None is Playwright's own.
CHROMIUM = find_chromium("", os.environ["PATH"]) or None
FLAGS = flags(())
