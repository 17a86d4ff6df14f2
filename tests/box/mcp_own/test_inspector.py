"""A box as the MCP inspector sees it: another implementation, in another language."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.box.mcp_own.connecting import command, environment
from tests.support.node import MODULES, needs_npm, node

LAUNCHER = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

pytestmark = needs_npm


class Inspector:
    def __init__(self, workspace: Path, era: str) -> None:
        self._command = [node(), str(MODULES / LAUNCHER), "--cli", "--format", "json", "--quiet"]
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
def test_the_inspector_lists_calls_and_reads(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "hello.txt").write_text("hello, inspector\n")
    modern = Inspector(workspace, "modern")
    legacy = Inspector(workspace, "legacy")
    # With this option it fails if a model somewhere would refuse a schema.
    listed = modern("tools/list", "--strict")["tools"]
    assert {"run", "read", "edit", "grep"} <= {tool["name"] for tool in listed}
    called = legacy("tools/call", "--tool-name", "run", "--tool-arg", "command=cat hello.txt")
    assert "hello, inspector" in called["content"][0]["text"]
    (resource,) = legacy("resources/list")["resources"]
    assert resource["uri"] == f"file://{workspace}/hello.txt"
    read = modern("resources/read", "--uri", resource["uri"])
    assert read["contents"][0]["text"] == "hello, inspector\n"
