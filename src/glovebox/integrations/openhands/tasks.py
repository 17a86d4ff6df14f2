"""Actions that OpenHands handles outside the box: the agent's list of tasks, and edits drafted by a model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from glovebox.client.runtime import Runtime
from glovebox.integrations.openhands.draft_editor import LLM_BASED_EDIT, Draft, edit_with_draft
from glovebox.integrations.openhands.lint import Lint
from glovebox.protocol.actions import FileEditAction, TaskTrackingAction
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.observations import ErrorObservation, TaskTrackingObservation

FILE = "TASKS.md"
_ICONS = {"todo": "⏳", "in_progress": "🔄", "done": "✅"}


async def run_action(
    runtime: Runtime,
    action: Action[Any],
    *,
    tasks: Path | None = None,
    draft: Draft | None = None,
    lint: Lint | None = None,
) -> Observation:
    """Like `Runtime.run_action`, with a list of tasks in the directory `tasks` and edits drafted by `draft`.

    Raises:
        GloveboxError: the action could not be executed.
    """
    if isinstance(action, TaskTrackingAction) and tasks is not None:
        return await task_tracking(action, tasks)
    if isinstance(action, FileEditAction) and action.impl_source == LLM_BASED_EDIT and draft is not None:
        return await edit_with_draft(runtime, action, draft, lint=lint)
    return await runtime.run_action(action)


async def task_tracking(
    action: TaskTrackingAction, directory: Path
) -> TaskTrackingObservation | ErrorObservation:
    """Replace or show the list of tasks in a directory of the host, which belongs to one conversation."""
    path = directory / FILE
    if action.command == "plan":
        return await asyncio.to_thread(_plan, action, path)
    if action.command == "view":
        return await asyncio.to_thread(_view, path)
    return ErrorObservation(content=f"Unknown command: {action.command}")


def _plan(action: TaskTrackingAction, path: Path) -> TaskTrackingObservation | ErrorObservation:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_render(action.task_list), encoding="utf-8")
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


def _render(tasks: list[dict[str, Any]]) -> str:
    lines = [
        f"{number}. {_ICONS.get(str(task.get('status')), _ICONS['todo'])} {task.get('title', '')}\n"
        f"{task.get('notes', '')}\n"
        for number, task in enumerate(tasks, 1)
    ]
    return "# Task List\n\n" + "".join(lines)
