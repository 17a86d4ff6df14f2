"""The extension as VS Code installs it."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vscode.harness.vscode_server import ROOT, package_extension

BUILD_LIMIT = 600


@pytest.mark.skipif(
    not (ROOT / "extension/node_modules").exists(),
    reason="there was no npm when `make test` installed what it needs",
)
@pytest.mark.timeout(BUILD_LIMIT)
def test_the_package_has_everything_that_it_refers_to_and_no_warnings(tmp_path: Path) -> None:
    with zipfile.ZipFile(package_extension(tmp_path / "glovebox.vsix", BUILD_LIMIT)) as package:
        names = set(package.namelist())
        manifest = json.loads(package.read("extension/package.json"))
        readme = package.read("extension/readme.md").decode()
    assert {"extension/LICENSE.txt", "extension/changelog.md", "extension/dist/extension.js"} <= names
    files = {text for text in texts(manifest) if re.fullmatch(r"[\w/]+\.(png|svg)", text)}
    assert "icon.png" in files
    assert {f"extension/{file}" for file in files} <= names
    assert "![" not in readme, "a picture without a public address would be shown broken"


def texts(value: Any) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)
