"""The agent's list of tasks, kept in a file of the host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from glovebox.protocol.actions import TaskTrackingAction
from glovebox.protocol.observations import ErrorObservation, TaskTrackingObservation

FILE = "TASKS.md"
_ICONS = {"todo": "⏳", "in_progress": "🔄", "done": "✅"}


async def task_tracking(
    action: TaskTrackingAction, directory: Path
) -> TaskTrackingObservation | ErrorObservation:
    """Replace or show the list in a directory, which belongs to one conversation."""
    path = directory / FILE
    if action.command == "plan":
        return await asyncio.to_thread(_plan, action, path)
    if action.command == "view":
        return await asyncio.to_thread(_view, path)
    return ErrorObservation(content=f"Unknown command: {action.command}")


def _plan(action: TaskTrackingAction, path: Path) -> TaskTrackingObservation | ErrorObservation:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rendered(action.task_list), encoding="utf-8")
    except (OSError, UnicodeError) as error:
        return ErrorObservation(content=f"Failed to write task list to session directory {path}: {error}")
    count = len(action.task_list)
    return TaskTrackingObservation(
        content=f"Task list has been updated with {count} items. Stored in session directory: {path}",
        command="plan",
        task_list=action.task_list,
    )


def _view(path: Path) -> TaskTrackingObservation:
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        content = 'No task list found. Use the "plan" command to create one.'
    except (OSError, UnicodeError) as error:
        content = f"Failed to read the task list from session directory {path}. Error: {error}"
    return TaskTrackingObservation(content=content, command="view", task_list=[])


def rendered(tasks: list[dict[str, Any]]) -> str:
    """The file of such a list."""
    lines = [
        f"{number}. {_ICONS.get(str(task.get('status')), _ICONS['todo'])} {task.get('title', '')}\n"
        f"{task.get('notes', '')}\n"
        for number, task in enumerate(tasks, 1)
    ]
    return "# Task List\n\n" + "".join(lines)
