"""What an agent wants to do in a VS Code window, and what its user decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from glovebox import SyncRuntime
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.files import DeleteAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from tests.support.running import wait_until
from tests.support.waiting import LIMIT
from tests.vscode.harness.workstation import Window, Workstation
from tests.vscode.test_guide import screenshot

DIFF = ".editor-group-container .monaco-diff-editor"


@pytest.fixture(scope="module")
def asking(workstation: Workstation) -> Iterator[Window]:
    """A connected window whose user is asked; the settings of its own folder would allow everything."""
    settings = json.dumps({"glovebox.approval": "allow", "glovebox.allowedCommands": ["touch *"]})
    folder = workstation.folder("asking", {".vscode/settings.json": settings})
    workstation.server.write_settings({"glovebox.approval": "commands"})
    try:
        with workstation.window(folder) as window:
            window.connect()
            yield window
    finally:
        workstation.server.write_settings({})


@pytest.fixture
def user(asking: Window) -> Window:
    """The window without notifications of earlier tests."""
    asking.bring_to_front()
    asking.tidy()
    return asking


@pytest.fixture(scope="module")
def worker(asking: Window) -> Iterator[SyncRuntime]:
    with asking.agent() as agent:
        yield agent


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def run(threads: ThreadPoolExecutor, agent: SyncRuntime, command: str) -> Future[Any]:
    """Run a command in another thread, since it waits for the user."""
    return threads.submit(agent.execute, CmdRunAction(command=command, timeout=3 * LIMIT))


def newest(window: Window) -> dict[str, Any]:
    """The newest command, as the hub tells of it."""
    path = f"/vscode/windows/{window.hub.window_id(window.folder)}/commands"
    found: dict[str, Any] = next(iter(window.hub.request("GET", path).json()), {"state": "none"})
    return found


def test_a_harmless_command_runs_without_a_question(worker: SyncRuntime, user: Window) -> None:
    ran = worker.run("ls | head -n 5; git status 2>&1 >/dev/null || echo none")
    assert "notes.txt" in ran.content
    assert not any("wants to" in message for message in user.notifications())


def test_a_command_waits_says_so_and_runs_when_it_is_allowed(
    worker: SyncRuntime, user: Window, threads: ThreadPoolExecutor
) -> None:
    running = run(threads, worker, "touch allowed && echo made")
    wait_until(lambda: newest(user)["state"] == "waiting_for_approval", what="a command that waits")
    assert newest(user)["prompt"] == "The agent wants to run touch allowed && echo made"
    wait_until(lambda: "The agent waits for you" in user.text_of(".statusbar"), what="the status bar")
    assert not (user.folder / "allowed").exists()
    user.press_button("wants to run touch allowed", "Allow")
    answer = running.result(LIMIT)
    assert isinstance(answer, CmdOutputObservation), answer
    assert (answer.content, answer.metadata.exit_code) == ("made", 0)
    assert (user.folder / "allowed").exists()
    wait_until(lambda: "The agent waits for you" not in user.text_of(".statusbar"), what="the status bar")


def test_a_denial_reaches_the_agent_with_a_word(
    worker: SyncRuntime, user: Window, threads: ThreadPoolExecutor
) -> None:
    running = run(threads, worker, "touch denied")
    user.press_button("wants to run touch denied", "Deny…")
    user.answer("ask me first")
    answer = running.result(LIMIT)
    assert isinstance(answer, ErrorObservation), answer
    assert answer.error_id == "denied"
    assert answer.content.endswith("denied this: ask me first")
    assert not (user.folder / "denied").exists()


def test_a_command_that_is_always_allowed_is_not_asked_for_again(
    worker: SyncRuntime, user: Window, threads: ThreadPoolExecutor
) -> None:
    running = run(threads, worker, "mkdir -p a")
    user.press_button("wants to run mkdir -p a", "Always Allow…")
    wait_until(lambda: "mkdir *" in user.text_of(".quick-input-list"), what="the patterns")
    user.answer("mkdir *")
    assert running.result(LIMIT).metadata.exit_code == 0
    assert worker.run("mkdir -p b && ls").content.split()[:3] == ["a", "allowed", "b"]


def test_deletions_wait_and_commands_of_the_palette_decide(
    worker: SyncRuntime, user: Window, threads: ThreadPoolExecutor
) -> None:
    (user.folder / "gone.txt").write_text("x")
    deleting = threads.submit(worker.execute, DeleteAction(path=f"{user.folder}/gone.txt"))
    wait_until(
        lambda: any("wants to delete" in message for message in user.notifications()), what="the question"
    )
    assert (user.folder / "gone.txt").exists()
    user.command("Glovebox: Allow")
    deleting.result(LIMIT)
    assert not (user.folder / "gone.txt").exists()


@pytest.mark.attack
def test_an_agent_cannot_allow_itself_more_by_an_edit(
    worker: SyncRuntime, user: Window, threads: ThreadPoolExecutor
) -> None:
    plain = worker.write(f"{user.folder}/plain.txt", "unasked")
    assert not isinstance(plain, ErrorObservation), plain
    writing = threads.submit(worker.write, f"{user.folder}/.vscode/settings.json", "{}")
    user.press_button("settings.json", "Deny…")
    user.answer("")
    answer = writing.result(LIMIT)
    assert isinstance(answer, ErrorObservation)
    assert answer.error_id == "denied"
    assert "allow" in (user.folder / ".vscode/settings.json").read_text()


def test_an_edit_is_compared_before_it_is_applied(
    worker: SyncRuntime, user: Window, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    user.command("View: Close All Editors")
    user.command("Glovebox: Set Approval Mode")
    wait_until(lambda: "Ask for edits" in user.text_of(".quick-input-list"), what="the modes")
    user.answer("Ask for edits")
    file = user.folder / "notes.txt"
    editing = threads.submit(worker.edit, str(file), command="str_replace", old_str="two", new_str="2")
    wait_until(
        lambda: "notes.txt (proposed by the agent)" in user.text_of(".tabs-container"), what="a comparison"
    )
    wait_until(lambda: "2" in user.text_of(f"{DIFF} .view-lines"), what="the proposed text")
    assert file.read_text() == "one\ntwo\nthree\n"
    screenshot(user, "vscode_approval.png", tmp_path)
    user.press_button("wants to edit", "Allow")
    editing.result(LIMIT)
    assert file.read_text() == "one\n2\nthree\n"
    wait_until(lambda: "proposed" not in user.text_of(".tabs-container"), what="a closed comparison")


def test_a_pause_withdraws_the_request(
    worker: SyncRuntime, user: Window, threads: ThreadPoolExecutor
) -> None:
    running = run(threads, worker, "touch paused")
    wait_until(lambda: "The agent waits for you" in user.text_of(".statusbar"), what="the question")
    user.command("Glovebox: Pause Agent")
    wait_until(lambda: "The agent waits for you" not in user.text_of(".statusbar"), what="no question")
    assert running.exception(LIMIT) is not None or isinstance(running.result(), ErrorObservation)
    user.command("Glovebox: Resume Agent")
    user.hub.wait_for(user.folder, "connected")
    assert not (user.folder / "paused").exists()
