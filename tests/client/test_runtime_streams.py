"""Actions and events that are followed, also across connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from glovebox.client.connection.events import EventParser, Other, ServerSentEvent, decode_event
from glovebox.client.connection.streaming import ActionStream
from glovebox.client.runtime import Runtime
from glovebox.errors import BadAnswer, UnsupportedAction
from glovebox.protocol.actions import CmdRunAction, FileReadAction, IPythonRunCellAction
from glovebox.protocol.events import (
    ActionFinished,
    ActionOutput,
    ActionStarted,
    CommandFinished,
    Display,
    Event,
    Gap,
    Missed,
    Output,
    Reset,
    Started,
)
from glovebox.protocol.notebook import CellInfo
from glovebox.protocol.observations import (
    CmdOutputObservation,
    FileReadObservation,
    IPythonRunCellObservation,
)
from glovebox.protocol.terminal import CommandInfo
from tests.client.support import Cut, Cutter, connected, cutter, runtime, runtime_at, served
from tests.support.running import RunningBox, wait_until
from tests.support.waiting import LIMIT, until

__all__ = ["runtime"]


def text_of(items: Iterable[object]) -> str:
    """All output, which must be without gaps and repetitions."""
    outputs = [item for item in items if isinstance(item, Output)]
    position = 0
    for output in outputs:
        assert output.offset == position, (output.offset, position)
        position = output.end
    assert not [item for item in items if isinstance(item, Gap)]
    return "".join(output.text for output in outputs).replace("\r\n", "\n")


async def all_of(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


def numbers(count: int) -> str:
    return "".join(f"{number}\n" for number in range(1, count + 1))


async def test_a_command_is_told_as_it_happens(runtime: Runtime, tmp_path: Path) -> None:
    stream = runtime.stream(
        CmdRunAction(command="echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")
    )
    seen: list[object] = []
    async for item in stream:
        seen.append(item)
        if isinstance(item, Output) and "one" in item.text:
            (tmp_path / "go").touch()
    assert isinstance(seen[0], Started)
    assert stream.id == seen[0].id
    assert text_of(seen) == "one\ntwo\n"
    assert any(isinstance(item, CommandInfo) and item.state == "ended" for item in seen)
    assert isinstance(seen[-1], CmdOutputObservation)
    assert stream.observation is seen[-1]
    assert seen[-1].content == "one\ntwo"


async def test_other_actions_and_failures_are_told_too(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    seen = await all_of(runtime.stream(FileReadAction(path="a.txt")))
    assert [type(item) for item in seen] == [Started, FileReadObservation]
    with pytest.raises(UnsupportedAction):
        await all_of(runtime.stream(IPythonRunCellAction(code="1")))


async def test_leaving_early_frees_the_connection_and_stops_nothing(box: RunningBox, tmp_path: Path) -> None:
    async with cutter(box.url) as proxy, runtime_at(proxy.url) as runtime:
        command = CmdRunAction(command="echo one; while [ ! -e go ]; do sleep 0.02; done; touch ended")
        async with runtime.stream(command) as stream:
            async for item in stream:
                if isinstance(item, Output):
                    break
        assert await runtime.alive()
        await asyncio.to_thread(wait_until, lambda: proxy.open == 1, 10, "the end of the stream's connection")
        (tmp_path / "go").touch()
        await until((tmp_path / "ended").exists)


@pytest.mark.parametrize("from_box", [0, 150, 700, 3_000, 70_000])
async def test_a_stream_that_is_cut_goes_on_without_a_byte_missing_or_doubled(
    box: RunningBox, from_box: int
) -> None:
    async with cutter(box.url, Cut(from_box=from_box)) as proxy, connected(proxy.url) as connection:
        command = "for i in $(seq 1 30); do seq $((i*1000-999)) $((i*1000)); sleep 0.01; done"
        seen = await all_of(ActionStream(connection, CmdRunAction(command=command), 30))
        assert text_of(seen) == numbers(30_000)
        assert len([item for item in seen if isinstance(item, Started)]) == 1
        assert isinstance(seen[-1], CmdOutputObservation)
        assert proxy.cuts == []


@pytest.mark.parametrize("from_box", [3_000, 70_000, 300_000])
async def test_much_output_is_cut_into_other_pieces_when_it_is_told_again(
    box: RunningBox, tmp_path: Path, from_box: int
) -> None:
    async with cutter(box.url, Cut(from_box=from_box)) as proxy, connected(proxy.url) as connection:
        command = "seq 1 60000; while [ ! -e go ]; do sleep 0.02; done; echo 60001"
        seen: list[object] = []
        async for item in ActionStream(connection, CmdRunAction(command=command), 30):
            seen.append(item)
            if isinstance(item, Output) and item.text.rstrip().endswith("60000"):
                (tmp_path / "go").touch()
        assert text_of(seen) == numbers(60_001)
        assert proxy.cuts == []


async def test_a_stream_that_is_cut_and_comes_back_after_the_end_tells_what_was_missed(
    box: RunningBox, tmp_path: Path
) -> None:
    async with cutter(box.url) as proxy, runtime_at(proxy.url) as runtime:
        command = "echo one; touch begun; while [ ! -e go ]; do sleep 0.02; done; seq 1 50000; touch ended"
        seen: list[object] = []
        async for item in runtime.stream(CmdRunAction(command=command)):
            seen.append(item)
            if isinstance(item, Output) and item.text.startswith("one"):
                proxy.cut()
                (tmp_path / "go").touch()
                await until((tmp_path / "ended").exists)
        assert text_of(seen) == "one\n" + numbers(50_000)


async def test_a_stream_outlives_a_box_that_is_killed_and_restarted(tmp_path: Path) -> None:
    with served(tmp_path / "box", "--state-dir", str(tmp_path / "state")) as box:
        async with runtime_at(box.url) as runtime:
            command = "seq 1 5000; while [ ! -e go ]; do sleep 0.02; done; seq 5001 9000"
            seen: list[object] = []
            async for item in runtime.stream(CmdRunAction(command=command)):
                seen.append(item)
                if box.process is not None and text_of(seen).endswith("\n5000\n"):
                    await asyncio.to_thread(box.kill)
                    (box.workspace / "go").touch()
                    await asyncio.to_thread(box.start)
            assert text_of(seen) == numbers(9000)
            assert isinstance(seen[-1], CmdOutputObservation)


async def once_told_again(proxy: Cutter, go: Path) -> None:
    """Let a cell go on when what it has shown was told once more, or its end."""

    def told() -> bool:
        return b"event: display" in proxy.heard or b"event: observation" in proxy.heard

    await asyncio.to_thread(wait_until, told, 20, "the display")
    await asyncio.to_thread(go.touch)


async def test_cells_are_told_and_go_on_after_a_cut(full_box: RunningBox, tmp_path: Path) -> None:
    go, ended = tmp_path / "go", tmp_path / "ended"
    code = f"""
import pathlib, time
from IPython.display import display, HTML
print("grün")
display(HTML("<b>first</b>"))
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.02)
print("blue", flush=True)
display(HTML("<b>second</b>"))
"""
    async with cutter(full_box.url) as proxy, runtime_at(proxy.url) as runtime:
        for wait_for_end in (False, True):
            go.unlink(missing_ok=True)
            ended.unlink(missing_ok=True)
            seen: list[object] = []
            cuts: list[asyncio.Task[None]] = []
            after = f"\npathlib.Path({str(ended)!r}).touch()"
            async for item in runtime.stream(IPythonRunCellAction(code=code + after)):
                seen.append(item)
                if isinstance(item, Display) and not cuts:
                    proxy.heard.clear()
                    proxy.cut()
                    cuts.append(asyncio.create_task(once_told_again(proxy, go)))
                    if wait_for_end:
                        go.touch()
                        await until(ended.exists)
            await asyncio.gather(*cuts)
            outputs = [item for item in seen if isinstance(item, Output)]
            text = "".join(output.text for output in outputs)
            assert text.startswith("grün\n")
            assert (text.count("grün"), text.count("blue")) == (1, 1)
            shown = [item.data["text/html"] for item in seen if isinstance(item, Display)]
            assert shown == ["<b>first</b>", "<b>second</b>"]
            assert isinstance(seen[-1], IPythonRunCellObservation)
            assert any(isinstance(item, CellInfo) for item in seen)


async def test_events_are_told_and_go_on_after_a_cut(box: RunningBox) -> None:
    async with cutter(box.url) as proxy, runtime_at(proxy.url) as runtime:
        events = runtime.events(kinds=("started", "output", "finished", "command_ended"))
        await runtime.run("echo marker-1")
        first = await _until_output(events, "marker-1")
        proxy.cut()
        await runtime.run("echo marker-2")
        second = await _until_output(events, "marker-2")
        numbers = [event.seq for event in (*first, *second) if isinstance(event, Event)]
        assert numbers == sorted(set(numbers))
        assert {type(event) for event in (*first, *second)} >= {
            ActionStarted, ActionOutput, ActionFinished, CommandFinished,
        }  # fmt: skip
        await events.aclose()
        await runtime.run("echo marker-3")
        async with runtime.events(after=events.last_id, kinds=["output"]) as later:
            third = await _until_output(later, "marker-3")
        assert not [event for event in third if isinstance(event, ActionOutput) and "marker-2" in event.text]


async def test_events_of_a_restarted_box_begin_anew(tmp_path: Path) -> None:
    with served(tmp_path / "box") as box:
        async with runtime_at(box.url) as runtime, runtime.events() as events:
            await runtime.run("echo before")
            await _until_output(events, "before")
            await asyncio.to_thread(box.kill)
            await asyncio.to_thread(box.start)
            await runtime.run("echo after")
            assert any(isinstance(event, Reset) for event in await _until_output(events, "after"))


async def _until_output(events: AsyncIterator[object], text: str) -> list[object]:
    seen: list[object] = []
    async with asyncio.timeout(LIMIT):
        async for event in events:
            seen.append(event)
            if isinstance(event, ActionOutput) and text in event.text:
                return seen
    raise AssertionError(f"no {text!r} among {seen}")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_server_sent_events_are_taken_apart_however_they_are_cut(size: int) -> None:
    data = (
        b": comment\n\nid: a-1\nevent: output\ndata: {}\n\n"
        b"event: two\r\ndata: 1\r\ndata:2\r\n\r\nevent: without data\n\ndata: last\n\nevent: not whole\nda"
    )
    parser = EventParser(1000)
    told = [one for at in range(0, len(data), size) for one in parser.feed(data[at : at + size])]
    assert told == [
        ServerSentEvent("output", b"{}", "a-1"),
        ServerSentEvent("two", b"1\n2"),
        ServerSentEvent("message", b"last"),
    ]


def test_an_event_without_end_is_not_held_for_ever() -> None:
    parser = EventParser(1000)
    line = b"data: " + b"x" * 400 + b"\n"
    assert list(parser.feed(line)) == list(parser.feed(line)) == []
    with pytest.raises(BadAnswer, match="is not taken"):
        list(parser.feed(line))


def test_events_of_other_versions_are_passed_on_and_nonsense_is_not() -> None:
    assert decode_event(ServerSentEvent("later", b'{"a":1}')) == Other(kind="later", data={"a": 1})
    assert decode_event(ServerSentEvent("gap", b'{"missed":3}')) == Missed(missed=3)
    for told in (
        ServerSentEvent("output", b"{}"),
        ServerSentEvent("state", b"[]"),
        ServerSentEvent("later", b"1"),
        ServerSentEvent("output", b"\xff"),
    ):
        with pytest.raises(BadAnswer):
            decode_event(told)
