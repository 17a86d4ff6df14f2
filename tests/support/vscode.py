"""The VS Code server that tests use, installed once as users install it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

#: Beside what else tests have installed.
PLACE = Path(sys.prefix) / "vscode"
#: It is some hundred megabytes to get.
_INSTALL_LIMIT = 600


def install_server() -> Path:
    """Install the server unless it is there; tests that run side by side install it once."""
    with open(PLACE.parent / ".vscode-lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(
            [sys.executable, "-m", "glovebox", "vscode", "install", "--to", str(PLACE)],
            check=True,
            timeout=_INSTALL_LIMIT,
        )
    return PLACE


@pytest.fixture(scope="session")
def vscode_server() -> Path:
    """The directory of a VS Code server: `node out/server-main.js` in it serves."""
    return install_server()
