"""What a server was given in confidence is told to nobody, whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.box.mcp.conftest import Remote
from tests.box.mcp.mcp_client import call, connected, names, put, ready, scripted, wait_for
from tests.support.running import KEY, RunningBox, running_box

SECRETS = {
    "env": "env-4711-secret",
    "failing": "failing-4711-secret",
    "noisy": "noisy-4711-secret",
    "header": "header-4711-secret",
    "password": "password-4711-secret",
    "query": "query-4711-secret",
    "key": "key-4711-secret",
    "argument": "argument-4711-secret",
}


def servers(remote: Remote) -> dict[str, dict[str, Any]]:
    authority = f"someone:{SECRETS['password']}@127.0.0.1"
    query = f"?token={SECRETS['query']}"
    refusing = f"http://{authority}:{remote.port}"
    entries: dict[str, dict[str, Any]] = {
        "good": scripted("good", CAUSE=SECRETS["env"]),
        "failing": scripted("failing", "die", CAUSE=SECRETS["failing"]),
        "noisy": scripted("noisy", "noisy", CAUSE=SECRETS["noisy"]),
        "argued": {"command": "no-such-program-4711", "args": ["--key", SECRETS["argument"]]},
        "refused": {"url": f"{remote.url}/mcp/{query}", "api_key": SECRETS["key"]},
        "refused-sse": {"url": f"{remote.url}/sse{query}", "api_key": SECRETS["key"]},
        "far": {
            "url": f"{remote.url}/mcp/{query}",
            "headers": {"Authorization": f"Bearer {remote.key}", "X-More": SECRETS["header"]},
        },
        "shut": {"url": f"{refusing}/mcp/{query}"},
        "shut-sse": {"url": f"{refusing}/sse{query}"},
        "away": {"url": f"http://{authority}:9/mcp{query}"},
        "away-sse": {"url": f"http://{authority}:9/sse{query}"},
    }
    return {name: {key: entry[key] for key in entry if key != "name"} for name, entry in entries.items()}


async def shown(box: RunningBox, remote: Remote) -> str:
    """Everything that can be asked for about the servers."""
    text = box.client.get("/mcp/servers").text + box.client.get("/plugins").text
    for name in servers(remote):
        text += box.client.get(f"/mcp/servers/{name}").text + box.client.get(f"/mcp/servers/{name}/log").text
        observed = await asyncio.to_thread(call, box, f"{name}_echo", text="x")
        text += json.dumps(observed)
    async with connected(box, "sse") as client:
        for name in ("failing", "away", "refused"):
            text += (await client.call_tool(f"{name}_echo", {"text": "x"})).model_dump_json()
        text += json.dumps(await names(client))
    return text


async def test_secrets_are_in_no_answer_and_in_no_line_of_the_log(
    tmp_path: Path, remote: Remote, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ("--no-enable-browser", "--log-level", "DEBUG", "--state-dir", str(tmp_path / "state"))
    with running_box(tmp_path / "ws", *flags) as box:
        entries = servers(remote)
        put(box, **entries)
        ready(box, "good", "noisy", "far")
        for name in entries.keys() - {"good", "noisy", "far"}:
            wait_for(box, name, lambda info: info["state"] == "waiting")
        text = await shown(box, remote)
        seen = json.loads(json.loads(call(box, "far_headers")["content"])["content"][0]["text"])
        assert seen["x-more"] == SECRETS["header"]  # it does arrive
        assert seen["query"] == f"token={SECRETS['query']}"
        kept = tmp_path / "state" / "mcp-servers"
        assert kept.stat().st_mode & 0o777 == 0o600
    printed = capfd.readouterr().err
    assert "MCP server failing: It has ended. Its exit status was 1. It printed: dying of ***" in printed
    assert '"text":"dying of ***' in text
    for name, secret in {**SECRETS, "remote": remote.key, "box": KEY}.items():
        assert secret not in text, name
        assert secret not in printed, [line for line in printed.splitlines() if secret in line][:3]


def test_the_key_of_the_box_is_not_in_the_environment_of_a_server(box: RunningBox) -> None:
    put(box, one={key: value for key, value in scripted("one", OWN="given").items() if key != "name"})
    told = json.loads(json.loads(call(box, "environment")["content"])["content"][0]["text"])
    assert told["variables"]["OWN"] == "given"
    assert KEY not in json.dumps(told)
    assert Path(told["cwd"]) == box.workspace
