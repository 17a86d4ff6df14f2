"""The same server behind HTTP, at `/mcp/box`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.box.mcp_own.connecting import Connected, Heard, text_of
from tests.support.running import RunningBox

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@contextlib.contextmanager
def over_http(box: RunningBox, mode: str) -> Iterator[Connected]:
    headers = {"Authorization": f"Bearer {box.key}"}  # all that some clients can be told
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(httpx2.AsyncClient(headers=headers, timeout=60)) as http,
        portal.wrap_async_context_manager(
            Client(streamable_http_client(f"{box.url}/mcp/box", http_client=http), mode=mode)
        ) as client,
    ):
        yield Connected(portal, client, box.workspace)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_tools_resources_and_live_output(box: RunningBox, tmp_path: Path, mode: str) -> None:
    (box.workspace / "note.txt").write_text("a note")
    with over_http(box, mode) as client:
        names = [tool.name for tool in client.do(client.client.list_tools).tools]
        assert names[:4] == ["run", "read", "write", "edit"]
        uri = f"file://{box.workspace}/note.txt"
        assert client.do(client.client.read_resource, uri).contents[0].text == "a note"
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        heard = Heard()
        calling = client.begin("run", heard, command=f"echo begun && cat '{gate}'")
        heard.wait_for("begun")
        gate.write_text("released\n")
        assert "released" in text_of(calling.result(60))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Authorization": "Bearer wrong"}, 403),
        ({"X-Session-API-Key": "wrong", "Authorization": "Bearer {key}"}, 403),
        ({"Authorization": "Basic {key}"}, 403),
        ({"X-Session-API-Key": "{key}"}, 200),
        ({"Authorization": "Bearer {key}"}, 200),
    ],
)
def test_either_way_to_show_the_key_will_do(
    shared_box: RunningBox, headers: dict[str, str], status: int
) -> None:
    shown = {name: value.format(key=shared_box.key) for name, value in headers.items()}
    answer = httpx.post(f"{shared_box.url}/mcp/box", json=INITIALIZE, headers={**ACCEPT, **shown})
    assert answer.status_code == status, answer.text
