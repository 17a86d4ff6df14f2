from __future__ import annotations

from pathlib import Path

from glovebox.client.tasks import task_tracking
from glovebox.protocol.actions import TaskTrackingAction
from glovebox.protocol.observations import ErrorObservation, TaskTrackingObservation

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
