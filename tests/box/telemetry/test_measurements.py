"""What is counted, by running actions through a real executor."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from glovebox.box.events import EventLog
from glovebox.box.executor import Call, Executor, Outcome
from glovebox.box.telemetry.measurements import BUCKETS, Measurements, input_bytes
from glovebox.errors import ActionError, SessionTaken
from glovebox.protocol.actions import CmdRunAction, FileReadAction, FileWriteAction
from glovebox.protocol.observations import (
    CmdOutputObservation,
    ErrorObservation,
    FileReadObservation,
    FileWriteObservation,
)
from glovebox.protocol.terminal import CommandInfo, StateName


class Hands:
    """Handlers that do what the action's text says."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def read(self, action: FileReadAction, call: Call) -> FileReadObservation | ErrorObservation:
        if action.path == "missing":
            return ErrorObservation(content="no")
        if action.path == "taken":
            raise SessionTaken("somebody")
        if action.path == "broken":
            raise LookupError("a defect")
        if action.path == "slow":
            await self.may_end.wait()
        return FileReadObservation(content="äb", path=action.path)

    async def run(self, action: CmdRunAction, call: Call) -> CmdOutputObservation | ErrorObservation:
        name, size, state = action.command.split()
        kind: StateName = "ended" if state == "ended" else "running"
        call.command = CommandInfo(
            id=name, session="main", command="", by="agent", state=kind, started=0.0, output_bytes=int(size)
        )
        return CmdOutputObservation(content="some of it", command=action.command)

    async def write(self, action: FileWriteAction, call: Call) -> FileWriteObservation | ErrorObservation:
        return FileWriteObservation(path=action.path)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def measurements() -> Measurements:
    return Measurements()


@pytest.fixture
def executor(hands: Hands, measurements: Measurements) -> Executor:
    return Executor([hands.read, hands.run, hands.write], EventLog(), [measurements])


async def test_actions_are_counted_by_kind_and_by_what_they_came_to(
    executor: Executor, measurements: Measurements
) -> None:
    for path in ("a", "b", "missing", "taken", "broken"):
        with contextlib.suppress(ActionError, SessionTaken):
            await executor.execute(FileReadAction(path=path))
    await executor.execute(FileWriteAction(path="a", content=""))
    assert {kind: figures.results for kind, figures in measurements.figures().items()} == {
        "read": {"read": 2, "error": 1, "session_taken": 1, "action_failed": 1},
        "write": {"write": 1},
    }


async def test_an_action_runs_until_it_ends_or_is_cancelled(
    executor: Executor, hands: Hands, measurements: Measurements
) -> None:
    first, second = (asyncio.create_task(executor.execute(FileReadAction(path="slow"))) for _ in range(2))
    await asyncio.sleep(0)
    assert measurements.running == 2
    first.cancel()
    await asyncio.wait([first])
    assert measurements.running == 1
    hands.may_end.set()
    await second
    assert measurements.running == 0
    assert measurements.figures()["read"].results == {"cancelled": 1, "read": 1}


def test_a_duration_is_in_the_first_range_that_does_not_end_before_it(measurements: Measurements) -> None:
    call = Call("id", EventLog())
    action, answer = FileReadAction(path="a"), FileReadObservation(path="a")
    for seconds in (0.0, 0.0005, 0.00051, 600.0, 601.0):
        measurements.started(action, call)
        measurements.finished(Outcome(action, call, answer, None, seconds))
    figures = measurements.figures()["read"]
    assert figures.durations == [2, 1, *[0] * (len(BUCKETS) - 3), 1, 1]
    assert figures.seconds == pytest.approx(1201.00101)


async def test_what_a_command_prints_is_counted_once_however_often_it_is_asked_for(
    executor: Executor, measurements: Measurements
) -> None:
    for told in ("a 10 running", "a 25 running", "b 3 ended", "a 25 running", "a 30 ended"):
        await executor.execute(CmdRunAction(command=told))
    assert measurements.figures()["run"].output_bytes == 33


async def test_commands_that_are_never_asked_for_again_do_not_add_up(
    executor: Executor, measurements: Measurements
) -> None:
    for number in range(1500):
        await executor.execute(CmdRunAction(command=f"c{number} 1 running"))
    await executor.execute(CmdRunAction(command="c1499 1 running"))
    assert measurements.figures()["run"].output_bytes == 1500
    await executor.execute(CmdRunAction(command="c0 1 running"))  # forgotten by now
    assert measurements.figures()["run"].output_bytes == 1501


async def test_sizes_are_those_on_the_wire(executor: Executor, measurements: Measurements) -> None:
    await executor.execute(FileReadAction(path="ü"))
    await executor.execute(FileWriteAction(path="p", content="\udcff€"))
    figures = measurements.figures()
    assert (figures["read"].input_bytes, figures["read"].output_bytes) == (2, 3)
    assert (figures["write"].input_bytes, figures["write"].output_bytes) == (5, 0)


def test_arguments_that_were_left_out_have_no_size() -> None:
    assert input_bytes(CmdRunAction(command="true")) == 4


async def test_figures_that_were_handed_out_do_not_change(
    executor: Executor, measurements: Measurements
) -> None:
    await executor.execute(FileReadAction(path="a"))
    before = measurements.figures()
    await executor.execute(FileReadAction(path="a"))
    assert before["read"].results == {"read": 1}
    assert sum(before["read"].durations) == 1
