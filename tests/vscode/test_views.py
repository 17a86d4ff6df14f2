"""The views of Glovebox in a VS Code window: the agent's actions, and what it has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from glovebox import SyncRuntime
from glovebox.protocol.files import DeleteAction, MoveAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from tests.support.running import wait_until
from tests.support.waiting import LIMIT
from tests.vscode.harness.workstation import Window, Workstation
from tests.vscode.test_file_edits import close_editors
from tests.vscode.test_guide import screenshot

FILES = {
    "src/app.py": "import sys\n\n\ndef main():\n    print('one')\n    return 1\n",
    "old.txt": "old\n",
    "named.txt": "named\n",
}
#: A changed line in an editor.
MARK = '.view-overlays [class*="TextEditorDecorationType"]'


@pytest.fixture(scope="module")
def viewed(workstation: Workstation) -> Iterator[Window]:
    """A connected window that shows the views."""
    with workstation.window(workstation.folder("viewed", FILES)) as window:
        window.connect()
        window.show_view()
        yield window


@pytest.fixture
def tidy(viewed: Window) -> Iterator[Window]:
    """The window without changes of earlier tests."""
    viewed.bring_to_front()
    viewed.tidy()
    yield viewed
    close_editors(viewed)
    if viewed.rows("Changes"):
        viewed.command("Glovebox: Keep All Changes")
        wait_until(lambda: viewed.rows("Changes") == [], what="no changes")


@pytest.fixture(scope="module")
def worker(viewed: Window) -> Iterator[SyncRuntime]:
    with viewed.agent() as agent:
        yield agent


def wait_for_row(window: Window, view: str, *texts: str, seconds: float = LIMIT) -> None:
    def is_there() -> bool:
        return any(all(text in row for text in texts) for row in window.rows(view))

    wait_until(is_there, seconds=seconds, what=f"a row with {texts}")


def edit(agent: SyncRuntime, file: Path, old: str, new: str) -> None:
    agent.edit(str(file), command="str_replace", old_str=old, new_str=new)


def test_an_action_is_shown_with_its_state_its_exit_and_its_output(worker: SyncRuntime, tidy: Window) -> None:
    worker.run("echo shown; false")
    wait_for_row(tidy, "Agent", "run echo shown; false", "failed", "exit 1")
    worker.run("echo fine")
    wait_for_row(tidy, "Agent", "run echo fine", "succeeded", "exit 0")
    wait_until(lambda: tidy.rows("Agent")[0] == "An agent: connected", what="the state of the agent")
    assert "echo fine" in tidy.rows("Agent")[1]
    tidy.click_row("Agent", "echo shown; false")
    wait_until(lambda: "exit 1" in tidy.editor_text(), what="the output of the action")
    assert tidy.editor_text().startswith("$ echo shown; false\n\nshown\n")


def test_a_running_action_can_be_stopped(worker: SyncRuntime, tidy: Window) -> None:
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(worker.run, "sleep 1000", timeout=2 * LIMIT)
        wait_for_row(tidy, "Agent", "run sleep 1000", "running")
        wait_until(lambda: "sleep 1000" in tidy.terminal_text(), what="a command that runs")
        tidy.press_in_title("Agent", "Stop")
        ended = running.result(2 * LIMIT)
    assert isinstance(ended, CmdOutputObservation)
    assert ended.metadata.exit_code == 130
    wait_for_row(tidy, "Agent", "run sleep 1000", "failed", "exit 130")


def test_a_request_is_allowed_in_the_view_and_stopped(workstation: Workstation) -> None:
    workstation.server.write_settings({"glovebox.approval": "commands"})
    try:
        with workstation.window(workstation.folder("deciding")) as window, ThreadPoolExecutor(1) as threads:
            window.connect()
            window.show_view()
            with window.agent() as agent:
                decide(window, agent, threads)
    finally:
        workstation.server.write_settings({})


def decide(window: Window, agent: SyncRuntime, threads: ThreadPoolExecutor) -> None:
    running = threads.submit(agent.run, "touch allowed.txt")
    wait_for_row(window, "Agent", "touch allowed.txt waits for your approval")
    assert not (window.folder / "allowed.txt").exists()
    window.press_in_row("Agent", "allow?", "Allow")
    assert not isinstance(running.result(2 * LIMIT), ErrorObservation)
    assert (window.folder / "allowed.txt").exists()
    wait_for_row(window, "Agent", "run touch allowed.txt", "succeeded", "exit 0")
    running = threads.submit(agent.run, "touch stopped.txt")
    wait_for_row(window, "Agent", "touch stopped.txt waits for your approval")
    window.press_in_title("Agent", "Stop")
    assert isinstance(running.result(2 * LIMIT), ErrorObservation)
    wait_for_row(window, "Agent", "run touch stopped.txt", "failed")
    assert not (window.folder / "stopped.txt").exists()


def test_a_change_is_listed_compared_marked_and_undone(worker: SyncRuntime, tidy: Window) -> None:
    file = tidy.folder / "src/app.py"
    before = file.read_text()
    edit(worker, file, "'one'", "'two'")
    edit(worker, file, "return 1", "return 2")
    wait_for_row(tidy, "Changes", "app.py", "modified by the agent")
    tidy.click_row("Changes", "app.py")
    wait_until(lambda: "app.py (modified by the agent)" in tidy.text_of(".tab.active"), what="a comparison")
    wait_until(lambda: "print('one')" in tidy.text_of(".monaco-diff-editor"), what="the text from before")
    tidy.press_in_row("Changes", "app.py", "Undo Change")
    wait_until(lambda: tidy.rows("Changes") == [], what="no changes")
    assert file.read_text() == before


def test_a_change_that_is_kept_is_not_listed_any_more(worker: SyncRuntime, tidy: Window) -> None:
    worker.write("kept.txt", "kept")
    wait_for_row(tidy, "Changes", "kept.txt", "created by the agent")
    wait_until(lambda: tidy.has(MARK), what="marks at the new lines")
    tidy.press_in_row("Changes", "kept.txt", "Keep Change")
    wait_until(lambda: tidy.rows("Changes") == [], what="no changes")
    assert (tidy.folder / "kept.txt").read_text() == "kept\n"
    wait_until(lambda: not tidy.has(MARK), what="no marks")


def test_a_users_own_edit_is_not_lost_by_undo(worker: SyncRuntime, tidy: Window) -> None:
    file = tidy.folder / "notes.txt"
    edit(worker, file, "two", "2")
    wait_for_row(tidy, "Changes", "notes.txt")
    tidy.open_file("notes.txt")
    wait_until(lambda: tidy.has(MARK), what="a mark at the changed line")
    tidy.type("mine ")
    wait_until(lambda: "notes.txt*" in tidy.tabs(), what="unsaved changes")
    tidy.press_in_row("Changes", "notes.txt", "Undo Change")
    wait_until(lambda: any("not saved" in text for text in tidy.notifications()), what="a refusal")
    tidy.tidy()
    tidy.open_file("notes.txt")
    tidy.press("Control+s")
    wait_until(lambda: file.read_text().startswith("mine "), what="a saved file")
    tidy.press_in_row("Changes", "notes.txt", "Undo Change")
    wait_until(lambda: any("has changed since" in text for text in tidy.notifications()), what="a refusal")
    assert file.read_text() == "mine one\n2\nthree\n"
    tidy.open_file("notes.txt")
    assert tidy.has(MARK)
    tidy.press("ArrowDown")
    tidy.type("x")
    wait_until(lambda: not tidy.has(MARK), what="no mark at a line that the user has edited")
    tidy.press("Control+s")
    wait_until(lambda: "notes.txt*" not in tidy.tabs(), what="a saved file")


def test_created_deleted_and_moved_files_are_undone_together(worker: SyncRuntime, tidy: Window) -> None:
    worker.write("made.txt", "made")
    worker.execute(DeleteAction(path=str(tidy.folder / "old.txt")))
    target = tidy.folder / "renamed.txt"
    worker.execute(MoveAction(source=str(tidy.folder / "named.txt"), destination=str(target)))
    wait_for_row(tidy, "Changes", "made.txt, created")
    wait_for_row(tidy, "Changes", "old.txt, deleted")
    wait_for_row(tidy, "Changes", "renamed.txt, moved", "from named.txt")
    tidy.command("Glovebox: Undo All Changes")
    tidy.press_in_dialog("Undo All")
    wait_until(lambda: tidy.rows("Changes") == [], what="no changes")
    assert (tidy.folder / "old.txt").read_text() == "old\n"
    assert (tidy.folder / "named.txt").read_text() == "named\n"
    assert not target.exists()
    assert not (tidy.folder / "made.txt").exists()


def test_changes_are_stepped_through_over_files(worker: SyncRuntime, tidy: Window) -> None:
    edit(worker, tidy.folder / "named.txt", "named", "stepped")
    edit(worker, tidy.folder / "src/app.py", "import sys", "import os")
    wait_for_row(tidy, "Changes", "app.py")
    close_editors(tidy)
    tidy.command("Glovebox: Next Change")
    wait_until(lambda: "stepped" in tidy.editor_text(), what="the first change")
    tidy.command("Glovebox: Next Change")
    wait_until(lambda: "import os" in tidy.editor_text(), what="the change of the next file")
    tidy.command("Glovebox: Previous Change")
    wait_until(lambda: "stepped" in tidy.editor_text(), what="the first change again")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_views_are_readable_in_every_theme(
    worker: SyncRuntime, tidy: Window, tmp_path: Path, theme: str
) -> None:
    settings = tidy.folder / ".vscode/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"workbench.colorTheme": f"Default {theme} Modern"}))
    wanted = ".monaco-workbench.vs-dark" if theme == "Dark" else ".monaco-workbench.vs"
    wait_until(lambda: tidy.has(wanted), what=f"a {theme} theme")
    worker.run("python3 src/app.py && echo done")
    worker.run("ls missing")
    edit(worker, tidy.folder / "src/app.py", "    return", f"    print('{theme}')\n    return")
    worker.write(f"{theme}.md", "# A new file")
    wait_for_row(tidy, "Changes", f"{theme}.md, created")
    wait_until(lambda: f"{theme}.md" in tidy.tabs(), what="the new file in an editor")
    tidy.open_file("src/app.py")
    tidy.tidy()
    wait_until(lambda: tidy.has(MARK), what="marks")
    screenshot(tidy, f"vscode_view_{theme.lower()}.png", tmp_path)
    tidy.click_row("Changes", "app.py")
    wait_until(lambda: tidy.has(".monaco-diff-editor"), what="a comparison")
    screenshot(tidy, f"vscode_diff_{theme.lower()}.png", tmp_path)
