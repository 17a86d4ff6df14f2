from __future__ import annotations

from pathlib import Path

from glovebox.integrations.openhands.draft_editor import ChatMessage
from glovebox.integrations.openhands.tasks import run_action, task_tracking
from glovebox.protocol.actions import CmdRunAction, FileEditAction, TaskTrackingAction
from glovebox.protocol.observations import (
    ErrorObservation,
    FileEditObservation,
    TaskTrackingObservation,
)
from tests.client.asked import connected
from tests.support.running import RunningBox

TASKS = [
    {"title": "Look", "status": "done", "notes": "twice"},
    {"title": "Think", "status": "in_progress"},
    {"title": "Do", "status": "todo", "notes": ""},
    {"title": "Rest", "status": "someday"},
]


async def test_a_plan_is_written_and_shown(tmp_path: Path) -> None:
    there = tmp_path / "conversation"
    empty = await task_tracking(TaskTrackingAction(), there)
    assert empty.content == 'No task list found. Use the "plan" command to create one.'
    planned = await task_tracking(TaskTrackingAction(command="plan", task_list=TASKS), there)
    assert isinstance(planned, TaskTrackingObservation)
    assert planned.content == (
        f"Task list has been updated with 4 items. Stored in session directory: {there}/TASKS.md"
    )
    assert (planned.command, planned.task_list) == ("plan", TASKS)
    shown = await task_tracking(TaskTrackingAction(), there)
    assert shown.content == ("# Task List\n\n1. ✅ Look\ntwice\n2. 🔄 Think\n\n3. ⏳ Do\n\n4. ⏳ Rest\n\n")


async def test_what_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "TASKS.md").mkdir()
    planned = await task_tracking(TaskTrackingAction(command="plan"), tmp_path)
    assert isinstance(planned, ErrorObservation)
    path = tmp_path / "TASKS.md"
    assert planned.content.startswith(f"Failed to write task list to session directory {path}: ")
    shown = await task_tracking(TaskTrackingAction(), tmp_path)
    assert shown.content.startswith(f"Failed to read the task list from session directory {path}. Error: ")
    other = await task_tracking(TaskTrackingAction(command="burn"), tmp_path)
    assert other.content == "Unknown command: burn"


async def answers(asked: list[ChatMessage]) -> str:
    assert "one" in asked[-1]["content"]
    return "<updated_code>\ntwo\n</updated_code>"


async def test_an_edit_in_words_is_drafted_by_the_given_model(box: RunningBox, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one\n")
    action = FileEditAction(path=str(file), content="two", impl_source="llm_based_edit")
    async with connected(box) as runtime:
        assert isinstance(await run_action(runtime, action, draft=answers), FileEditObservation)
    assert file.read_text() == "two\n"


async def test_tasks_are_kept_in_the_given_directory(box: RunningBox, tmp_path: Path) -> None:
    plan = TaskTrackingAction(command="plan", task_list=[{"title": "Look", "status": "done", "notes": "all"}])
    async with connected(box) as runtime:
        assert isinstance(await run_action(runtime, plan, tasks=tmp_path / "tasks"), TaskTrackingObservation)
        seen = await run_action(runtime, TaskTrackingAction(command="view"), tasks=tmp_path / "tasks")
        assert (await run_action(runtime, CmdRunAction(command="echo other"))).content == "other"
    assert seen.content == (tmp_path / "tasks/TASKS.md").read_text()
    assert "1. ✅ Look" in seen.content
