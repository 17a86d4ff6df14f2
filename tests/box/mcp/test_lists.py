"""The newest list is the one in force, at once and for everybody, and servers that stay notice nothing."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from mcp.shared.subscriptions import ToolsListChanged

from tests.box.mcp.mcp_client import (
    SCRIPT,
    TRANSPORTS,
    Transport,
    call,
    connected,
    names,
    post,
    put,
    ready,
    running,
    scripted,
    told,
    until,
    words,
)
from tests.support.running import RunningBox, wait_until
from tests.support.waiting import LIMIT

CHANGED = "notifications/tools/list_changed"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_one_server_keeps_its_names_and_several_are_told_apart(
    box: RunningBox, transport: Transport
) -> None:
    post(box, scripted("one"))
    async with connected(box, transport) as client:
        assert (await names(client))[:2] == ["echo", "number"]
        post(box, scripted("one"), scripted("two"))
        listed = await names(client)
        assert [name for name in listed if "echo" in name] == ["one_echo", "two_echo"]
        assert words(await client.call_tool("two_echo", {"text": "to the second"})) == "to the second"
        post(box, scripted("two"))
        assert (await names(client))[:2] == ["echo", "number"]
        assert words(await client.call_tool("echo", {"text": "alone again"})) == "alone again"


async def test_names_from_before_a_change_still_find_their_tool(box: RunningBox) -> None:
    post(box, scripted("one"), scripted("two"))
    async with connected(box, "http") as client:
        both = await client.call_tool("echo", {"text": "?"})
        assert both.is_error
        assert words(both) == "Unknown tool: echo. Did you mean two_echo?"
        post(box, scripted("two"))
        assert words(await client.call_tool("two_echo", {"text": "as before"})) == "as before"


@pytest.mark.parametrize("transport", ["sse", "http"])
async def test_connected_clients_are_told_of_a_new_list(box: RunningBox, transport: Transport) -> None:
    post(box, scripted("one"))
    ready(box, "one")
    heard: list[str] = []
    async with connected(box, transport, heard) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        assert "echo" in await names(client)
        assert CHANGED not in heard
        post(box, scripted("one"), scripted("two"))
        await until(lambda: CHANGED in heard, "being told")
        assert "two_echo" in await names(client)


async def test_clients_of_the_newest_version_are_told_on_the_stream_they_opened(box: RunningBox) -> None:
    post(box, scripted("one"))
    async with connected(box, "new") as client, client.listen(tools_list_changed=True) as events:
        post(box, scripted("one"), scripted("two"))
        async with asyncio.timeout(LIMIT):
            assert await anext(aiter(events)) == ToolsListChanged()
        assert "two_echo" in await names(client)


@pytest.mark.parametrize("transport", ["sse", "http"])
async def test_a_server_that_has_new_tools_is_heard(box: RunningBox, transport: Transport) -> None:
    post(box, scripted("one"))
    ready(box, "one")
    heard: list[str] = []
    async with connected(box, transport, heard) as client:
        assert "extra" not in await names(client)
        assert CHANGED not in heard
        assert words(await client.call_tool("grow", {"name": "extra"})) == "grown"
        await until(lambda: CHANGED in heard, "being told")
        assert "extra" in await names(client)
        assert words(await client.call_tool("extra")) == "extra was called"
    assert "extra" in told(box, "one")["tools"]


async def test_calls_of_servers_that_stay_go_on_and_those_of_others_end(
    box: RunningBox, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    post(box, scripted("stays"), scripted("goes"))
    pid = ready(box, "stays", "goes")[0]["pid"]
    async with connected(box, "sse") as client:
        staying = asyncio.create_task(client.call_tool("stays_block", {"until": str(gate)}))
        going = asyncio.create_task(client.call_tool("goes_silent"))
        await asyncio.to_thread(running, box, "stays")
        await asyncio.to_thread(running, box, "goes")
        post(box, scripted("stays"), scripted("third"))
        ended = await asyncio.wait_for(going, LIMIT)
        assert ended.is_error
        assert "goes" in words(ended)
        assert words(await client.call_tool("third_echo", {"text": "new"})) == "new"
        assert not staying.done()
        gate.touch()
        assert words(await asyncio.wait_for(staying, LIMIT)) == "unblocked"
    assert (told(box, "stays")["pid"], told(box, "stays")["restarts"]) == (pid, 0)


def test_a_server_whose_entry_changed_is_started_anew(box: RunningBox) -> None:
    post(box, scripted("one", COLOUR="red"))
    before = ready(box, "one")[0]["pid"]
    post(box, scripted("one", COLOUR="blue"))
    assert ready(box, "one")[0]["pid"] != before
    assert '\\"COLOUR\\": \\"blue\\"' in call(box, "environment")["content"]
    wait_until(lambda: not psutil.pid_exists(before), what="the end of the old process")


def test_lists_that_come_at_the_same_time_leave_one_of_them_in_force(box: RunningBox) -> None:
    lists = [[scripted(f"s{number}-{one}") for one in range(3)] for number in range(6)]
    with ThreadPoolExecutor(len(lists)) as threads:
        list(threads.map(lambda entries: post(box, *entries), lists))
    listed = [info["name"] for info in box.client.get("/mcp/servers").json()["servers"]]
    assert listed in [[entry["name"] for entry in entries] for entries in lists]
    pids = {info["pid"] for info in ready(box, *listed)}
    wait_until(lambda: scripted_processes(box) == pids, what="the end of all other servers")


def test_an_empty_list_ends_every_server_and_the_mount(box: RunningBox) -> None:
    post(box, scripted("one"))
    pid = ready(box, "one")[0]["pid"]
    post(box)
    assert box.client.get("/mcp/sse").status_code == 404
    assert box.client.post("/mcp", json={}).status_code == 404
    assert box.client.get("/mcp/servers").json()["servers"] == []
    assert box.client.get("/mcp/servers/one").status_code == 404
    wait_until(lambda: not psutil.pid_exists(pid), what="its end")


@pytest.mark.parametrize(
    ("body", "status"),
    [(b'{"a": 1}', 400), (b"", 500), (b"[1]", 500), (b'[{"name": "a b", "command": "c"}]', 500),
     (b'[{"name": "a", "command": "b", "url": "http://x"}]', 500)],
)  # fmt: skip
def test_a_list_that_breaks_a_rule_changes_nothing(box: RunningBox, body: bytes, status: int) -> None:
    post(box, scripted("one"))
    pid = ready(box, "one")[0]["pid"]
    assert box.client.post("/update_mcp_server", content=body).status_code == status
    assert told(box, "one")["pid"] == pid


def test_the_last_of_two_servers_with_the_same_name_is_meant(box: RunningBox) -> None:
    post(box, scripted("one", COLOUR="red"), scripted("one", COLOUR="blue"))
    assert '\\"COLOUR\\": \\"blue\\"' in call(box, "environment")["content"]


def test_what_is_put_replaces_what_was_posted(box: RunningBox) -> None:
    post(box, scripted("posted"))
    entry = scripted("x")
    del entry["name"]
    put(box, given=entry)
    listed = box.client.get("/mcp/servers").json()["servers"]
    assert [(one["name"], one["source"]) for one in listed] == [("given", "posted")]
    refused = box.client.put("/mcp/servers", json={"mcpServers": {"given": {"url": "ftp://example.org"}}})
    assert refused.status_code == 422
    assert refused.json() == {"detail": "given: URL scheme must be http, https, ws, or wss"}
    assert refused.headers["X-Glovebox-Error"] == "bad_mcp_config"


def test_status_gauges_and_health_tell_of_servers(box: RunningBox) -> None:
    post(box, scripted("one", A="x", B="y"), {"name": "none", "command": "no-such-program-4711"})
    info = ready(box, "one")[0]
    wait_until(lambda: told(box, "none")["state"] == "waiting", what="its failure")
    assert info["server"] == "scripted 1"
    assert info["transport"] == "stdio"
    assert info["env"] == ["A", "B"]
    assert psutil.Process(info["pid"]).is_running()
    metrics = box.client.get("/metrics").text
    assert "glovebox_mcp_servers 2.0" in metrics
    assert "glovebox_mcp_servers_ready 1.0" in metrics
    health = box.client.get("/plugins/mcp").json()
    assert health["health"]["servers"] == {"one": "ready", "none": "waiting"}


def test_servers_that_are_gone_before_they_have_started_leave_no_process(box: RunningBox) -> None:
    shell = box.run("echo $$")
    for number in range(40):
        post(box, scripted(f"brief-{number}"), scripted("again", NUMBER=str(number)))
        for _ in range(number % 10):  # so that each is ended at another moment of its start
            told(box, "again")
        post(box)
    wait_until(lambda: not scripted_processes(box), what="the end of all of them")
    assert box.run("echo $$") == shell


def scripted_processes(box: RunningBox) -> set[int]:
    found = set()
    for child in psutil.Process(box.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.is_running() and str(SCRIPT) in " ".join(child.cmdline()):
                found.add(child.pid)
    return found
