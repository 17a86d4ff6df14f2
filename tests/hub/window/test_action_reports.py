"""What a window is told of an agent's actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glovebox.box.events import EventLog
from glovebox.box.executor import Executor, Outcome
from glovebox.errors import BadSession
from glovebox.hub.window.action_reports import (
    LONGEST_OUTPUT,
    LONGEST_SUMMARY,
    ActionReporter,
    one_line,
    summary,
)
from glovebox.protocol.actions import (
    AgentThinkAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.files import GrepAction, MoveAction
from glovebox.protocol.observations import IPythonRunCellObservation
from glovebox.protocol.terminal import CommandAction
from tests.hub.window.window_box import DirectoryHands, acting


async def test_actions_are_reported_with_their_orders(tmp_path: Path) -> None:
    async with acting(tmp_path) as box:
        await box.do(FileWriteAction(path=str(tmp_path / "a.txt"), content="text"))
        await box.run("false")
        begun, written, ran, failed = box.hands.shown
        assert (begun.state, begun.kind, begun.summary) == ("started", "write", str(tmp_path / "a.txt"))
        assert (written.id, written.state, written.exit_code) == (begun.id, "succeeded", None)
        assert (ran.state, ran.kind, ran.summary) == ("started", "run", "false")
        assert (failed.id, failed.state, failed.exit_code) == (ran.id, "failed", 1)
        assert failed.seconds > 0
        assert set(box.hands.actions) == {begun.id, ran.id}


async def test_a_report_has_the_reason_of_a_failure_and_the_name_of_the_agent(tmp_path: Path) -> None:
    async with acting(tmp_path) as box:
        box.hands.agent = "OpenHands"
        await box.refused(FileReadAction(path=str(tmp_path / "missing")))
        assert box.hands.shown[-1].state == "failed"
        assert "missing" in box.hands.shown[-1].message
        with pytest.raises(BadSession):
            await box.box.executor.execute(CommandAction(command="true", session="no/name"))
        assert box.hands.shown[-1].message
        assert {one.agent for one in box.hands.shown} == {"OpenHands"}


async def test_a_command_that_runs_on_has_no_exit_code(tmp_path: Path) -> None:
    async with acting(tmp_path) as box:
        await box.run("sleep 30")
        last = box.hands.shown[-1]
        assert (last.state, last.exit_code, last.message) == ("succeeded", None, "The command runs on.")


async def test_the_end_of_what_the_companion_box_answers_is_shown() -> None:
    hands = DirectoryHands()
    reporter = ActionReporter(hands)
    call = Executor([], EventLog()).call("c")
    answer = IPythonRunCellObservation(content="x" * 2 * LONGEST_OUTPUT + "end", code="cell")
    reporter.finished(Outcome(IPythonRunCellAction(code="cell"), call, answer, None, 1.0))
    (shown,) = hands.shown
    assert (shown.state, shown.summary) == ("succeeded", "cell")
    assert shown.output.endswith("end")
    assert len(shown.output) == LONGEST_OUTPUT


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        (CmdRunAction(command="  make\nmake test"), "make …"),
        (CommandAction(command="ls"), "ls"),
        (IPythonRunCellAction(code="import os\nos.getcwd()"), "import os …"),
        (MCPAction(name="fetch"), "fetch"),
        (GrepAction(pattern="a\nb", path="/w"), "a … in /w"),
        (MoveAction(source="/a", destination="/b"), "/a to /b"),
        (FileEditAction(path="/a"), "/a"),
        (AgentThinkAction(thought="hm"), None),
    ],
)
def test_a_summary_is_one_line(action: Action[Any], shown: str | None) -> None:
    assert summary(action) == shown


@pytest.mark.attack
def test_a_summary_is_short_and_cannot_disguise_what_is_run() -> None:
    assert one_line("rm \x1b[2K\u202e-rf\r\nls", 50) == "rm  [2K -rf …"
    assert len(one_line("a" * 10_000, LONGEST_SUMMARY)) == LONGEST_SUMMARY + 2
