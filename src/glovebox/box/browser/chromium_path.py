"""Finds a Chromium on the machine."""

from __future__ import annotations

import os
import shutil
import sys

from glovebox.errors import BrowserError

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: A snap has its own idea of directories and cannot be driven through pipes; its starter is a script.
_SNAP = b"/snap/bin/"
_STARTER = 64 << 10


def find_chromium(chosen: str, path: str) -> str:
    """The Chromium to use: the one that was chosen, or the system's; empty means Playwright's. Blocks.

    Raises:
        BrowserError: there is none where one was said to be.
    """
    if chosen:
        found = shutil.which(chosen, path=path)
        if found is None:
            raise BrowserError(
                f"GLOVEBOX_CHROMIUM is {chosen!r}, and there is no program there. "
                + how_to_get(sys.executable)
            )
        return os.path.abspath(found)
    for name in _NAMES:
        found = shutil.which(name, path=path)
        if found is not None and not _is_snap(found):
            return found
    return ""


def how_to_get(python: str) -> str:
    """What to do for a Chromium."""
    return (
        f"Install Chromium: `apt-get install chromium` on Debian, `{python} -m playwright install --with-deps"
        " chromium` elsewhere. Or say where one is: GLOVEBOX_CHROMIUM=/path/to/chromium."
    )


def _is_snap(program: str) -> bool:
    if os.path.realpath(program).startswith("/snap/"):
        return True
    with open(program, "rb") as file:
        return file.read(2) == b"#!" and _SNAP in file.read(_STARTER)
