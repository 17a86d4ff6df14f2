"""A server that hangs, dies, or prints rubbish costs its own calls and nobody else's."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.box.mcp.mcp_client import (
    TRANSPORTS,
    Transport,
    call,
    connected,
    names,
    post,
    ready,
    running,
    scripted,
    told,
    until,
    wait_for,
    words,
)
from tests.support.running import RunningBox, running_box, wait_until

LIMIT = 2
#: What a message may have, and more.
TOO_LONG = (64 << 20) + (1 << 20)


@pytest.fixture(scope="module")
def hasty_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box that gives up early on servers that do not start."""
    options = (f"mcp.start_limit={LIMIT}", "mcp.longest_pause=30", "mcp.health_interval=0.2")
    flags = ("--no-enable-browser", "--plugin-options", *options)
    with running_box(tmp_path_factory.mktemp("hasty") / "workspace", *flags) as box:
        yield box


def is_waiting(info: dict[str, Any]) -> bool:
    return bool(info["state"] == "waiting")


def result(observation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(observation["content"])
    return found


def text_of(observation: dict[str, Any]) -> str:
    text: str = result(observation)["content"][0]["text"]
    return text


async def test_calls_of_others_do_not_wait_for_a_server_that_is_not_there_yet(
    box: RunningBox, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    post(box, scripted("good"), scripted("late", "--gate", str(gate)))
    assert text_of(call(box, "good_echo", text="at once")) == "at once"
    assert told(box, "late")["state"] == "starting"
    async with connected(box, "http") as client:
        waiting = asyncio.create_task(asyncio.to_thread(call, box, "late_echo", text="later"))
        listing = asyncio.create_task(names(client))
        assert text_of(await asyncio.to_thread(call, box, "good_echo", text="meanwhile")) == "meanwhile"
        assert not waiting.done()
        assert not listing.done()
        gate.touch()
        assert text_of(await waiting) == "later"
        assert "late_echo" in await listing


async def test_a_list_of_tools_waits_for_a_hanging_server_only_so_long(hasty_box: RunningBox) -> None:
    post(hasty_box, scripted("good"))
    ready(hasty_box, "good")
    post(hasty_box, scripted("good"), scripted("bad", "hang"))
    async with connected(hasty_box, "sse") as client:
        listed = await asyncio.wait_for(names(client), 20)
        assert {name.partition("_")[0] for name in listed} == {"good"}
        info = wait_for(hasty_box, "bad", is_waiting)
        assert info["error"].startswith(f"It did not tell its tools within {LIMIT} s.")
        failed = await client.call_tool("bad_echo", {"text": "x"})
        assert failed.is_error
        assert "The MCP server 'bad' is not available: It did not tell its tools" in words(failed)


def test_an_idle_server_is_asked_whether_it_is_there_and_started_again_if_it_does_not_say(
    hasty_box: RunningBox,
) -> None:
    post(hasty_box, scripted("good"), scripted("bad", "mute"))
    good, bad = ready(hasty_box, "good", "bad")
    again = wait_for(hasty_box, "bad", lambda info: info["restarts"] > 0)
    assert again["error"] is None or again["error"].startswith("It does not answer any more.")
    wait_for(hasty_box, "bad", lambda info: info["pid"] not in (None, bad["pid"]))
    asked = wait_for(hasty_box, "good", lambda info: info["ping"] is not None)
    assert (asked["pid"], asked["restarts"]) == (good["pid"], 0)


def test_a_tool_that_nobody_has_is_told_apart_from_one_whose_server_is_down(box: RunningBox) -> None:
    post(box, scripted("bad", "die"))
    wait_for(box, "bad", is_waiting)
    unknown, down = (
        box.client.post("/tools/call", json={"name": name, "arguments": {}}).json()["content"][0]["text"]
        for name in ("rnu", "bad_echo")
    )
    assert unknown.startswith("Unknown tool: rnu. Did you mean run?")
    assert "The MCP server 'bad' is not available" in unknown
    assert "The MCP server 'bad' is not available" in down
    assert "Unknown tool" not in down


def test_a_start_that_takes_its_time_is_given_up_when_asked_to_start_anew(box: RunningBox) -> None:
    post(box, scripted("slow", "hang"))  # it has 20 seconds
    begun = wait_for(box, "slow", lambda info: info["pid"] is not None)
    assert box.client.post("/mcp/servers/slow/restart").status_code == 200
    again = wait_for(box, "slow", lambda info: info["pid"] not in (None, begun["pid"]))
    assert (again["state"], again["restarts"]) == ("starting", 1)
    assert again["error"].startswith("It was started anew.")


async def test_no_list_waits_for_a_server_that_is_started_again(hasty_box: RunningBox) -> None:
    post(hasty_box, scripted("good"))
    ready(hasty_box, "good")
    post(hasty_box, scripted("good"), scripted("bad", "hang"))
    async with connected(hasty_box, "sse") as client:
        await names(client)
        begun = wait_for(hasty_box, "bad", lambda info: info["restarts"] > 0 and info["state"] == "starting")
        assert {name.partition("_")[0] for name in await names(client)} == {"good"}
        now = told(hasty_box, "bad")
        assert (now["state"], now["restarts"]) == ("starting", begun["restarts"])


async def test_what_a_server_has_stays_on_the_list_while_it_is_started_again(box: RunningBox) -> None:
    post(box, scripted("one"))
    [info] = ready(box, "one")
    async with connected(box, "sse") as client:
        before = await names(client)
        os.kill(info["pid"], signal.SIGKILL)
        wait_for(box, "one", lambda now: now["pid"] != info["pid"])
        assert await names(client) == before
        ready(box, "one")
        assert words(await client.call_tool("echo", {"text": "back"})) == "back"


async def test_a_call_that_is_never_answered_costs_only_that_call(box: RunningBox) -> None:
    post(box, scripted("one"))
    async with connected(box, "sse") as client:
        silent = asyncio.create_task(client.call_tool("silent"))
        await asyncio.to_thread(running, box, "one")
        assert words(await client.call_tool("echo", {"text": "beside it"})) == "beside it"
        assert words(await client.call_tool("block", {"until": "/"})) == "unblocked"
        assert not silent.done()
        silent.cancel()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_that_gives_up_cancels_the_call_at_its_server(
    box: RunningBox, tmp_path: Path, transport: Transport
) -> None:
    received = tmp_path / "received"
    post(box, scripted("one", "--received", str(received)))
    async with connected(box, transport) as client:
        silent = asyncio.create_task(client.call_tool("silent"))
        await asyncio.to_thread(running, box, "one")
        silent.cancel()
        await until(lambda: "notifications/cancelled" in received.read_text(), "the cancellation")
        messages = [json.loads(line) for line in received.read_text().splitlines()]
        asked = next(one for one in messages if one["method"] == "tools/call")
        cancelled = next(one for one in messages if one["method"] == "notifications/cancelled")
        assert cancelled["params"]["requestId"] == asked["id"]
        await asyncio.to_thread(running, box, "one", 0)


async def test_rubbish_among_messages_is_passed_over(box: RunningBox) -> None:
    post(box, scripted("one", "noisy"))
    async with connected(box, "http") as client:
        for number in range(5):
            assert words(await client.call_tool("echo", {"text": str(number)})) == str(number)
    assert told(box, "one")["restarts"] == 0


def test_a_line_without_an_end_is_the_end_of_its_server(box: RunningBox) -> None:
    post(box, scripted("one"))
    before = ready(box, "one")[0]["pid"]
    failed = result(call(box, "flood", size=TOO_LONG))
    assert failed == {"isError": True, "error": "The MCP server 'one' ended during the call.", "content": []}
    info = wait_for(box, "one", lambda info: info["state"] == "ready" and info["restarts"] == 1)
    assert info["pid"] != before
    assert text_of(call(box, "echo", text="back")) == "back"


def test_a_large_message_comes_whole(box: RunningBox) -> None:
    post(box, scripted("one"))
    text = "large " * 1_000_000
    assert text_of(call(box, "echo", text=text)) == text


def test_a_program_that_is_not_there_is_named(box: RunningBox) -> None:
    post(box, {"name": "one", "command": "no-such-program-4711"})
    info = wait_for(box, "one", is_waiting)
    assert "no-such-program-4711" in info["error"]
    assert "Its exit status was 127." in info["error"]
    assert info["pid"] is None
    failed = result(call(box, "echo", text="x"))
    assert "no-such-program-4711" in failed["error"]


def test_a_server_that_dies_again_and_again_is_started_later_each_time(box: RunningBox) -> None:
    post(box, scripted("one", "die", CAUSE="a secret cause"))
    info = wait_for(box, "one", lambda info: is_waiting(info) and info["restarts"] >= 2)
    assert info["retry"] > time.time()
    assert info["retry"] - info["since"] > 1.0  # twice doubled from half a second, give or take a fifth
    assert "Its exit status was 1. It printed: dying of ***" in info["error"]
    assert info["tools"] == []


def test_a_server_that_waits_is_started_at_once_when_asked_to(hasty_box: RunningBox) -> None:
    post(hasty_box, scripted("one", "hang"))
    wait_for(hasty_box, "one", is_waiting)
    answer = hasty_box.client.post("/mcp/servers/one/restart")
    assert answer.status_code == 200
    wait_for(hasty_box, "one", lambda info: info["state"] == "starting", "the next start")


async def test_a_restart_ends_what_runs_and_starts_anew(box: RunningBox) -> None:
    post(box, scripted("one"))
    before = ready(box, "one")[0]["pid"]
    async with connected(box, "sse") as client:
        silent = asyncio.create_task(client.call_tool("silent"))
        await asyncio.to_thread(running, box, "one")
        assert box.client.post("/mcp/servers/one/restart").status_code == 200
        ended = await asyncio.wait_for(silent, 20)
        assert ended.is_error
        assert words(ended) == "Error calling tool 'silent': The MCP server 'one' ended during the call."
        assert words(await client.call_tool("echo", {"text": "back"})) == "back"
    info = told(box, "one")
    assert (info["restarts"], info["failures"]) == (1, 1)
    assert info["pid"] != before
    wait_until(lambda: not psutil.pid_exists(before), what="the end of the old process")


def test_a_restart_does_not_wait_for_a_server_that_tells_its_tools_no_more(box: RunningBox) -> None:
    post(box, scripted("one", "list-once"))
    before = ready(box, "one")[0]["pid"]
    call(box, "grow", name="extra")
    assert text_of(call(box, "echo", text="still there")) == "still there"
    box.client.post("/mcp/servers/one/restart")
    wait_for(box, "one", lambda info: info["state"] == "ready" and info["pid"] != before, "a new process")


def test_a_server_that_ends_during_a_call_is_started_again(box: RunningBox) -> None:
    post(box, scripted("one"))
    failed = result(call(box, "end", status=7))
    assert failed["error"] == "The MCP server 'one' ended during the call."
    wait_for(box, "one", lambda info: info["restarts"] == 1 and info["state"] == "ready", "its next start")
    assert text_of(call(box, "echo", text="back")) == "back"


@pytest.mark.parametrize("code", [-32000, -32601, -32602, -32603, 1])
def test_an_error_of_a_server_is_told_and_the_server_stays(box: RunningBox, code: int) -> None:
    post(box, scripted("one"))
    before = ready(box, "one")[0]["pid"]
    failed = result(call(box, "refuse", code=code))
    assert failed == {"isError": True, "error": "it cannot be done", "content": []}
    assert text_of(call(box, "echo", text="there")) == "there"
    assert told(box, "one")["pid"] == before


def test_a_server_that_asks_for_something_is_answered(box: RunningBox, tmp_path: Path) -> None:
    received = tmp_path / "received"
    post(box, scripted("one", "--received", str(received)))
    call(box, "ask")
    wait_until(lambda: '"id":"q1"' in received.read_text(), what="the answer")


def test_only_the_end_of_a_flood_is_kept_for_people(box: RunningBox) -> None:
    post(box, scripted("one"))
    call(box, "spill", text="0123456789" * 10 + "\n", times=20_000)
    wait_until(lambda: "the end of it" in log(box, "one"), what="its last words")
    text = log(box, "one")
    assert text.rstrip().endswith("the end of it")
    assert len(text) <= 64 << 10


def log(box: RunningBox, name: str) -> str:
    answer = box.client.get(f"/mcp/servers/{name}/log")
    assert answer.json()["name"] == name
    text: str = answer.json()["text"]
    return text


@pytest.mark.parametrize("path", ["/mcp/servers/none", "/mcp/servers/none/log"])
def test_a_server_that_is_not_there_is_not_found(box: RunningBox, path: str) -> None:
    answer = box.client.get(path)
    assert (answer.status_code, answer.json()) == (404, {"detail": "There is no MCP server 'none'."})
    assert answer.headers["X-Glovebox-Error"] == "no_such_mcp_server"
