"""Which node there is, and whether it is new enough for a VS Code server. Everything blocks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from glovebox.box.vscode.places import LEAST_NODE

_VERSION = re.compile(r"v(\d+)\.(\d+)\.\d+")
_SECONDS = 10.0


def version_of(node: str | Path) -> str:
    """The version that a node tells, as `v24.1.0`; empty if it does not run."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def is_new_enough(version: str) -> bool:
    """Whether a node of that version runs the servers that are installed."""
    found = _VERSION.fullmatch(version)
    return found is not None and (int(found[1]), int(found[2])) >= LEAST_NODE


def node_on(path: str) -> str | None:
    """A node of the machine that is new enough."""
    found = shutil.which("node", path=path)
    return found if found and is_new_enough(version_of(found)) else None
