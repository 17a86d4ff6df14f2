"""What `make test` has installed from npm."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

MODULES = Path(sys.prefix) / "npm" / "node_modules"

needs_npm = pytest.mark.skipif(
    not MODULES.exists(), reason="there was no npm when `make test` installed what it needs"
)


def node() -> str:
    """The newest node there is."""
    found = [*map(str, MODULES.glob("node-linux-*/bin/node")), shutil.which("node")]
    assert found[0] is not None, "there is no node"
    return found[0]
