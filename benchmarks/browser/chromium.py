"""The Chromium that all use."""

from __future__ import annotations

import os

from benchmarks.competitors import Unavailable
from glovebox.box.browser.finding import find_chromium
from glovebox.errors import BrowserError


def chromium() -> str:
    """The one a box would choose.

    Raises:
        Unavailable: there is none.
    """
    try:
        found = find_chromium(os.environ.get("GLOVEBOX_CHROMIUM", ""), os.environ.get("PATH", os.defpath))
    except BrowserError as error:
        raise Unavailable(str(error)) from error
    if not found:
        raise Unavailable("no Chromium on the path")
    return found
