"""What a runtime does with more than one action, as its methods."""

from __future__ import annotations

from pathlib import Path

import pytest

from glovebox import Runtime, SyncRuntime
from glovebox.client.draft_editor import ChatMessage
from glovebox.protocol.actions import FileEditAction, TaskTrackingAction
from glovebox.protocol.observations import FileEditObservation, TaskTrackingObservation
from tests.support.running import RunningBox


async def answers(asked: list[ChatMessage]) -> str:
    assert "one" in asked[-1]["content"]
    return "<updated_code>\ntwo\n</updated_code>"


async def test_an_edit_in_words_is_drafted_by_the_given_model(box: RunningBox, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one\n")
    action = FileEditAction(path=str(file), content="two", impl_source="llm_based_edit")
    async with Runtime(box.url, key=box.key, draft=answers) as runtime:
        assert isinstance(await runtime.run_action(action), FileEditObservation)
    assert file.read_text() == "two\n"


async def test_tasks_are_kept_where_the_runtime_was_told(box: RunningBox, tmp_path: Path) -> None:
    plan = TaskTrackingAction(command="plan", task_list=[{"title": "Look", "status": "done", "notes": "all"}])
    async with Runtime(box.url, key=box.key, tasks=tmp_path / "tasks") as runtime:
        assert isinstance(await runtime.run_action(plan), TaskTrackingObservation)
        seen = await runtime.run_action(TaskTrackingAction(command="view"))
    assert seen.content == (tmp_path / "tasks/TASKS.md").read_text()
    assert "1. ✅ Look" in seen.content


def test_files_go_to_and_fro_without_async(box: RunningBox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("hello")
    there = tmp_path / "there"
    with SyncRuntime(box.url, key=box.key) as runtime:
        runtime.copy_to(source, str(there), recursive=True)
        assert runtime.list_files(str(there)) == ["source/"]
        runtime.download_to(str(there / "source"), tmp_path / "back")
        runtime.add_env_vars({"greeting": "it's $me"})
        assert runtime.run("echo $GREETING").content == "it's $me"
        with pytest.raises(FileNotFoundError):
            runtime.copy_to(tmp_path / "missing", str(there))
    assert [path.read_text() for path in (tmp_path / "back").rglob("a.txt")] == ["hello"]
