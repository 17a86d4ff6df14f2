from __future__ import annotations

import asyncio
from typing import Any

import pytest

from glovebox.box.events import EventLog
from glovebox.box.executor import Call, Executor
from glovebox.errors import ActionError, UnsupportedAction
from glovebox.protocol.actions import AgentThinkAction, FileReadAction, FileWriteAction
from glovebox.protocol.events import ActionFinished, ActionOutput, ActionStarted
from glovebox.protocol.observations import (
    ErrorObservation,
    FileReadObservation,
    FileWriteObservation,
)


async def read(action: FileReadAction, call: Call) -> FileReadObservation | ErrorObservation:
    call.output("he")
    call.output("llo")
    return FileReadObservation(content="hello", path=action.path)


async def broken_read(action: FileReadAction, call: Call) -> FileReadObservation:
    raise LookupError("a defect")


async def refused_read(action: FileReadAction, call: Call) -> FileReadObservation:
    raise PermissionError(13, "Permission denied", action.path)


def executor(*handlers: Any) -> Executor:
    return Executor(handlers, EventLog())


async def test_an_action_is_answered_by_the_handler_that_declares_it() -> None:
    answer = await executor(read).execute(FileReadAction(path="/a"))
    assert answer == FileReadObservation(content="hello", path="/a")


async def test_what_happens_is_logged_in_order_with_offsets() -> None:
    box = executor(read)
    await box.execute(FileReadAction(path="/a"), box.call("id-1"))
    started, first, second, finished = box.events.since(0)
    assert isinstance(started, ActionStarted)
    assert isinstance(first, ActionOutput)
    assert isinstance(second, ActionOutput)
    assert isinstance(finished, ActionFinished)
    assert [event.seq for event in box.events.since(0)] == [1, 2, 3, 4]
    assert {event.action_id for event in box.events.since(0)} == {"id-1"}
    assert (first.offset, first.end, first.text) == (0, 2, "he")
    assert (second.offset, second.end, second.text) == (2, 5, "llo")
    assert (finished.observation, finished.error) == ("read", None)


async def test_a_defect_in_a_handler_becomes_an_error_and_the_executor_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    box = executor(broken_read)
    for _ in range(2):
        with pytest.raises(ActionError, match="a defect"):
            await box.execute(FileReadAction(path="/a"))
    last = box.events.since(0)[-1]
    assert isinstance(last, ActionFinished)
    assert last.error == "action_failed"
    assert "LookupError" in caplog.text


async def test_what_the_machine_refuses_is_told_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ActionError, match=r"\[Errno 13\] Permission denied: '/a'"):
        await executor(refused_read).execute(FileReadAction(path="/a"))
    assert not caplog.text


async def test_an_action_without_a_handler_is_unsupported() -> None:
    with pytest.raises(UnsupportedAction, match="no attribute 'think'"):
        await executor(read).execute(AgentThinkAction())


async def test_a_slow_action_does_not_delay_another() -> None:
    release = asyncio.Event()

    async def slow(action: FileWriteAction, call: Call) -> FileWriteObservation:
        await release.wait()
        return FileWriteObservation(path=action.path)

    box = executor(read, slow)
    waiting = asyncio.create_task(box.execute(FileWriteAction(path="/b", content="")))
    await box.execute(FileReadAction(path="/a"))
    assert not waiting.done()
    release.set()
    assert isinstance(await waiting, FileWriteObservation)


def test_two_handlers_for_one_action_are_refused_when_the_table_is_built() -> None:
    with pytest.raises(TypeError, match="already has a handler"):
        executor(read, broken_read)


def test_a_handler_with_the_wrong_answer_type_is_refused_when_the_table_is_built() -> None:
    async def wrong(action: FileReadAction, call: Call) -> FileWriteObservation:
        return FileWriteObservation(path=action.path)

    with pytest.raises(TypeError, match="FileReadAction is answered with"):
        executor(wrong)


def test_a_handler_that_names_no_action_is_refused_when_the_table_is_built() -> None:
    async def wrong(action: str, call: Call) -> FileWriteObservation:
        return FileWriteObservation(path=action)

    with pytest.raises(TypeError, match="must be annotated with an action"):
        executor(wrong)
