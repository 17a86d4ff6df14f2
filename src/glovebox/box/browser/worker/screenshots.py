"""Screenshots as files in the workspace, as the contract has them."""

from __future__ import annotations

import datetime
import os

_DIRECTORY = ".browser_screenshots"


def save(png: bytes, workspace: str) -> str | None:
    """Keep a screenshot: where it is. A full disk costs the file, not the answer. Blocks."""
    directory = os.path.join(workspace, _DIRECTORY)
    path = os.path.join(directory, f"screenshot_{datetime.datetime.now():%Y%m%d_%H%M%S_%f}.png")
    try:
        os.makedirs(directory, exist_ok=True)
        with open(path, "xb") as file:
            file.write(png)
    except OSError:
        return None
    return path
