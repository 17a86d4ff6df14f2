"""The configuration file: servers by name, and profiles of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.box.mcp.mcp_client import call, post, ready, scripted
from tests.support.running import RunningBox, running_box


def named(**env: str) -> dict[str, Any]:
    return {key: value for key, value in scripted("x", **env).items() if key != "name"}


def listed(box: RunningBox) -> list[tuple[str, str]]:
    return [(one["name"], one["source"]) for one in box.client.get("/mcp/servers").json()["servers"]]


def colour(box: RunningBox, tool: str) -> str:
    told = json.loads(json.loads(call(box, tool)["content"])["content"][0]["text"])
    found: str = told["variables"]["COLOUR"]
    return found


def test_profiles_are_switched_and_posted_servers_stay(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    servers = {name: named(COLOUR=f"{name} of the file") for name in ("a", "b", "c")}
    profiles = {"few": ["a"], "more": ["a", "b"]}
    file.write_text(json.dumps({"mcpServers": servers, "profiles": profiles, "profile": "few"}))
    options = ("--no-enable-browser", "--plugin-options", f"mcp.config={file}")
    with running_box(tmp_path / "ws", *options) as box:
        assert listed(box) == [("a", "file")]
        report = box.client.get("/mcp/servers").json()
        assert (report["profile"], report["profiles"]) == ("few", profiles)
        pid = ready(box, "a")[0]["pid"]

        switched = box.client.put("/mcp/profiles/more")
        assert switched.status_code == 200
        assert listed(box) == [("a", "file"), ("b", "file")]
        assert ready(box, "a")[0]["pid"] == pid
        assert colour(box, "b_environment") == "b of the file"

        post(box, scripted("b", COLOUR="posted"))
        assert listed(box) == [("a", "file"), ("b", "posted")]
        assert colour(box, "b_environment") == "posted"

        assert box.client.delete("/mcp/profiles").json()["profile"] == ""
        assert listed(box) == [("a", "file"), ("c", "file"), ("b", "posted")]
        post(box)
        assert listed(box) == [("a", "file"), ("b", "file"), ("c", "file")]

        unknown = box.client.put("/mcp/profiles/none")
        assert unknown.status_code == 404
        assert unknown.json() == {"detail": "There is no profile 'none'. Profiles: few, more."}
        assert unknown.headers["X-Glovebox-Error"] == "no_such_mcp_profile"


def test_the_file_may_be_toml_and_the_profile_an_option(tmp_path: Path) -> None:
    file = tmp_path / "mcp.toml"
    args = json.dumps(named()["args"])
    file.write_text(
        f'[mcpServers.a]\ncommand = "{sys.executable}"\nargs = {args}\n'
        '[mcpServers.far]\nurl = "http://127.0.0.1:9/sse"\n[profiles]\nfar = ["far"]\n'
    )
    environment = {"GLOVEBOX_PLUGIN_MCP_CONFIG": str(file), "GLOVEBOX_PLUGIN_MCP_PROFILE": "far"}
    with running_box(tmp_path / "ws", "--no-enable-browser", environment=environment) as box:
        assert listed(box) == [("far", "file")]
        assert box.client.get("/mcp/servers/far").json()["transport"] == "sse"


@pytest.mark.parametrize(
    ("content", "options", "text"),
    [
        (None, (), "mcp.json cannot be read: No such file or directory"),
        ("{", (), "mcp.json is not JSON: "),
        ("[]", (), "mcp.json: the configuration must be an object with mcpServers"),
        ('{"servers": {}}', (), "mcp.json: unknown: servers. Known are mcpServers, profiles, profile"),
        ('{"mcpServers": {"a": {"command": "b c"}}}', (), "mcp.json: a: Command should be a single"),
        ('{"mcpServers": {"a": {"url": "x"}}}', (), "mcp.json: a: URL must include a scheme"),
        ('{"mcpServers": {}, "profiles": {"p": ["a"]}}', (), "profile 'p' names servers that are not"),
        ("{}", ("mcp.profile=none",), "There is no profile 'none' of MCP servers. Profiles: none."),
    ],
)  # fmt: skip
def test_a_box_does_not_start_with_a_configuration_that_breaks_a_rule(
    tmp_path: Path, content: str | None, options: tuple[str, ...], text: str
) -> None:
    file = tmp_path / "mcp.json"
    if content is not None:
        file.write_text(content)
    command = [
        sys.executable, "-m", "glovebox", "serve", "0", "--no-enable-browser",
        "--working-dir", str(tmp_path / "ws"), "--plugin-options", f"mcp.config={file}", *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert text in done.stderr
    assert "Traceback" not in done.stderr
