"""Commands that wait for the approval of a window's user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from glovebox.errors import CommandDenied
from glovebox.hub.window_client import OrderRefused
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import ActionState
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import CommandAction
from tests.hub.window.window_box import Acting, acting
from tests.support.waiting import LIMIT, until

QUESTION = "The agent wants to run make"


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Acting]:
    async with acting(tmp_path) as box:
        box.hands.question = QUESTION
        yield box


def begin(box: Acting, command: str, **fields: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(box.box.executor.execute(CmdRunAction(command=command, **fields)))


async def waiting(box: Acting) -> dict[str, Any]:
    """The command that waits, once it does."""

    async def found() -> bool:
        listed = (await box.client.get("/commands")).json()
        return bool(listed) and listed[0]["state"] == "waiting_for_approval"

    await until(found, "a command that waits")
    command: dict[str, Any] = (await box.client.get("/commands")).json()[0]
    return command


async def test_a_command_that_waits_says_for_what_and_runs_once_it_is_allowed(box: Acting) -> None:
    running = begin(box, "echo done")
    command = await waiting(box)
    assert command["prompt"] == QUESTION
    assert (await box.client.get(f"/commands/{command['id']}")).json()["state"] == "waiting_for_approval"
    box.hands.decision.set_result(None)
    answer = await asyncio.wait_for(running, LIMIT)
    assert (answer.content, answer.metadata.exit_code) == ("done", 0)
    states = [one.command for one in box.box.executor.events.since(0) if isinstance(one, ActionState)]
    assert [(one.state, one.prompt) for one in states] == [
        ("waiting_for_approval", QUESTION),
        ("running", ""),
    ]


async def test_silence_is_counted_from_the_decision_on(box: Acting) -> None:
    running = begin(box, "sleep 60")
    await waiting(box)
    await asyncio.sleep(1.5)  # longer than a silent command may take
    assert not running.done()
    box.hands.decision.set_result(None)
    answer = await asyncio.wait_for(running, LIMIT)
    assert "no new output after 1 seconds" in answer.metadata.suffix
    await box.run("C-c", is_input=True)


async def test_a_caller_whose_time_is_over_is_told_that_the_command_has_not_started(box: Acting) -> None:
    answer = await asyncio.wait_for(begin(box, "echo done", timeout=0.5), LIMIT)
    assert isinstance(answer, CmdOutputObservation)
    assert (answer.content, answer.metadata.exit_code) == ("", -1)
    assert "The command has not started: the user has not decided yet" in answer.metadata.suffix
    assert QUESTION in answer.metadata.suffix
    other = await box.run("ls")
    assert 'Your command "ls" is NOT executed.' in other.metadata.suffix
    assert "has not started" in other.metadata.suffix
    box.hands.decision.set_result(None)
    assert (await box.run("")).content == "done"


async def test_a_denial_has_the_words_of_the_user(box: Acting) -> None:
    running = begin(box, "make")
    await waiting(box)
    box.hands.decision.set_exception(OrderRefused("denied", "The user has denied this: use ninja"))
    answer = await asyncio.wait_for(running, LIMIT)
    assert isinstance(answer, ErrorObservation)
    assert (answer.error_id, answer.content) == ("denied", "The user has denied this: use ninja")
    box.hands.question = ""
    assert await box.output("echo next") == "next"


async def test_a_denial_of_a_command_outside_the_contract_has_its_code(box: Acting) -> None:
    running = asyncio.create_task(box.box.executor.execute(CommandAction(command="make", timeout=60)))
    await waiting(box)
    box.hands.decision.set_exception(OrderRefused("denied", "no"))
    with pytest.raises(CommandDenied, match=r"^no$"):
        await asyncio.wait_for(running, LIMIT)


async def test_interrupting_a_command_that_waits_withdraws_it(box: Acting) -> None:
    await asyncio.wait_for(begin(box, "make", timeout=0.5), LIMIT)
    early = await box.refused(CmdRunAction(command="yes", is_input=True))
    assert (early.error_id, "has not started" in early.content) == ("undecided", True)
    withdrawn = await box.refused(CmdRunAction(command="C-c", is_input=True))
    assert (withdrawn.error_id, "did not run" in withdrawn.content) == ("withdrawn", True)
    assert box.hands.kinds() == ["Run"]
    box.hands.question = ""
    assert await box.output("echo next") == "next"
