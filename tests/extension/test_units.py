"""The parts of the extension that need no VS Code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    not (ROOT / "extension/node_modules").exists(),
    reason="there was no npm when `make test` installed what it needs",
)
def test_the_parts_of_the_extension_do_what_they_say() -> None:
    ran = subprocess.run(
        [str(ROOT / "scripts/extension.sh"), "test"], capture_output=True, text=True, timeout=110
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
