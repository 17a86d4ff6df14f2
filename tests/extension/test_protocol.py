"""The extension speaks the protocol that the hub speaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import glovebox

EXTENSION = Path(__file__).parents[2] / "extension"


def test_the_extension_has_the_protocol_as_it_is() -> None:
    checked = subprocess.run(
        [sys.executable, str(EXTENSION / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stderr


def test_the_extension_has_the_version_of_the_project() -> None:
    package = json.loads((EXTENSION / "package.json").read_text())
    assert package["version"] == glovebox.__version__


def test_the_readme_of_the_extension_knows_its_commands_and_settings() -> None:
    contributes = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    text = (EXTENSION / "README.md").read_text()
    missing = [command["title"] for command in contributes["commands"] if command["title"] not in text]
    for name, setting in contributes["configuration"]["properties"].items():
        default = setting["default"]
        shown = json.dumps(default) if not isinstance(default, str) else default or "empty"
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), "")
        if shown not in row:
            missing.append(name)
    assert missing == []
