"""A box as the MCP inspector sees it: another implementation, in another language."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.box.mcp_own.connecting import command, environment

PACKAGE = Path(__file__).parent / "npm" / "package.json"
LAUNCHER = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@pytest.fixture(scope="session")
def modules() -> Path:
    """What npm installs, once for each version."""
    version = hashlib.sha256(PACKAGE.read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glovebox-tests"
    place = cache / f"inspector-{version}"
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as building:
            shutil.copy(PACKAGE, building)
            quiet = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(["npm", "install", *quiet], cwd=building, check=True, timeout=300)
            os.rename(building, place)
            os.mkdir(building)  # to be removed
    return place / "node_modules"


class Inspector:
    def __init__(self, modules: Path, workspace: Path, era: str) -> None:
        nodes = [*modules.glob("node-linux-*/bin/node"), shutil.which("node")]
        self._command = [str(nodes[0]), str(modules / LAUNCHER), "--cli", "--format", "json", "--quiet"]
        self._workspace = workspace
        self._era = era

    def __call__(self, method: str, *options: str) -> dict[str, Any]:
        """The result of one request; a box starts and ends with it."""
        done = subprocess.run(
            [*self._command, "--method", method, "--protocol-era", self._era, *options, "--",
             *command(self._workspace)],
            capture_output=True, text=True, timeout=60, env=environment(self._workspace),
        )  # fmt: skip
        assert done.returncode == 0, done
        result: dict[str, Any] = json.loads(done.stdout)["result"]
        return result


@pytest.mark.timeout(400)
def test_the_inspector_lists_calls_and_reads(modules: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "hello.txt").write_text("hello, inspector\n")
    modern = Inspector(modules, workspace, "modern")
    legacy = Inspector(modules, workspace, "legacy")
    # With this option it fails if a model somewhere would refuse a schema.
    listed = modern("tools/list", "--strict")["tools"]
    assert {"run", "read", "edit", "grep"} <= {tool["name"] for tool in listed}
    called = legacy("tools/call", "--tool-name", "run", "--tool-arg", "command=cat hello.txt")
    assert "hello, inspector" in called["content"][0]["text"]
    (resource,) = legacy("resources/list")["resources"]
    assert resource["uri"] == f"file://{workspace}/hello.txt"
    read = modern("resources/read", "--uri", resource["uri"])
    assert read["contents"][0]["text"] == "hello, inspector\n"
