"""The paths in a bundle."""

from __future__ import annotations

import sys
from pathlib import Path

#: Where a bundle is unpacked or mounted.
ROOT = "/opt/glovebox"
#: The libraries, the loader among them.
LIBRARIES = "lib"
#: What an image may lack. It comes last on the PATH, and only if it is needed.
TOOLS = "tools"
PYTHON = "bin/python3"
COMMAND = "bin/glovebox"
#: A static program, which the interpreter finds beside itself.
RIPGREP = "bin/rg"
#: What a bundle says of itself: its first member.
MANIFEST = "bundle.json"


def standard_library(stage: Path) -> Path:
    """The directory of the standard library in a bundle that is being made."""
    return stage / LIBRARIES / f"python{sys.version_info.major}.{sys.version_info.minor}"


def site_packages(stage: Path) -> Path:
    """The directory of installed packages in a bundle that is being made."""
    return standard_library(stage) / "site-packages"
