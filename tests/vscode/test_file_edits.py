"""Files that an agent reads and changes in a VS Code window, and their editors."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from glovebox import Box, SyncRuntime
from glovebox.errors import NoSuchFile, PermissionDenied
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.base import Action
from glovebox.protocol.files import (
    DeleteAction,
    GlobAction,
    GlobObservation,
    GrepAction,
    GrepObservation,
    MoveAction,
)
from glovebox.protocol.observations import ErrorObservation, FileReadObservation
from tests.client.support import OneBox
from tests.support.running import wait_until
from tests.support.waiting import LIMIT
from tests.vscode.harness.workstation import Window, Workstation

CHANGES: dict[str, Callable[[str], Action[Any]]] = {
    "str_replace": lambda path: FileEditAction(path=path, command="str_replace", old_str="two", new_str="2"),
    "insert": lambda path: FileEditAction(path=path, command="insert", insert_line=1, new_str="x"),
    "write": lambda path: FileWriteAction(path=path, content="all new"),
    "delete": lambda path: DeleteAction(path=path),
    "move": lambda path: MoveAction(source=path, destination=f"{path}.moved"),
}


def make(window: Window, name: str, content: str | bytes = "one\ntwo\nthree\n") -> Path:
    """Create a file in the folder of the window."""
    file = window.folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def replace(agent: SyncRuntime, file: Path, old: str, new: str) -> str:
    """Have an agent replace a text; return `done` or the code of the error."""
    answer = agent.edit(str(file), command="str_replace", old_str=old, new_str=new)
    return answer.error_id if isinstance(answer, ErrorObservation) else "done"


def close_editors(window: Window) -> None:
    """Close all editors without saving."""
    if any(tab.endswith("*") for tab in window.tabs()):
        window.command("File: Revert File")
        wait_until(lambda: not any(tab.endswith("*") for tab in window.tabs()), what="reverted files")
    if window.tabs():
        window.command("View: Close All Editors")
        wait_until(lambda: not window.tabs(), what="closed editors")


@pytest.fixture(autouse=True)
def _closed_editors(window: Window) -> Iterator[None]:
    """Begin without the editors of other tests, and leave none."""
    close_editors(window)
    yield
    close_editors(window)


def test_a_file_that_an_agent_writes_is_on_the_disk_and_shown(agent: SyncRuntime, window: Window) -> None:
    agent.write("made/by agent.py", "print('made')")
    assert (window.folder / "made/by agent.py").read_text() == "print('made')\n"
    wait_until(lambda: window.tabs() == ["by agent.py"], what="an editor of the file")
    wait_until(lambda: "print('made')" in window.editor_text(), what="its text")
    read = agent.read("made/by agent.py")
    assert isinstance(read, FileReadObservation)
    assert read.content == "print('made')\n"


def test_an_editor_without_unsaved_changes_shows_edits_of_the_agent(
    agent: SyncRuntime, window: Window
) -> None:
    file = make(window, "clean.txt")
    window.open_file("clean.txt")
    assert replace(agent, file, "two", "2") == "done"
    assert file.read_text() == "one\n2\nthree\n"
    wait_until(lambda: "one\n2\nthree" in window.editor_text(), what="the edit in the editor")
    assert window.tabs() == ["clean.txt"]
    agent.write(str(file), "all new")
    wait_until(lambda: window.editor_text().startswith("all new"), what="the new text in the editor")
    assert file.read_text() == "all new\n"
    assert window.tabs() == ["clean.txt"]


def test_the_user_can_undo_an_edit_of_an_agent_in_the_editor(agent: SyncRuntime, window: Window) -> None:
    file = make(window, "undone.txt")
    window.open_file("undone.txt")
    assert replace(agent, file, "two", "2") == "done"
    wait_until(lambda: "\n2\n" in window.editor_text(), what="the edit in the editor")
    window.press("Control+z")
    wait_until(lambda: "\ntwo\n" in window.editor_text(), what="the text from before")


@pytest.mark.parametrize("how", CHANGES)
def test_changes_that_the_user_has_not_saved_are_never_touched(
    agent: SyncRuntime, window: Window, how: str
) -> None:
    file = make(window, f"dirty-{how}.txt")
    window.open_file(file.name)
    window.type("mine ")
    wait_until(lambda: window.tabs() == [f"{file.name}*"], what="unsaved changes")
    answer = agent.execute(CHANGES[how](str(file)))
    assert isinstance(answer, ErrorObservation), answer
    assert answer.error_id == "unsaved_changes"
    assert "save" in answer.content
    assert file.read_text() == "one\ntwo\nthree\n"
    assert window.editor_text().startswith("mine one\ntwo\nthree")
    assert window.tabs() == [f"{file.name}*"]


@pytest.mark.parametrize("how", CHANGES)
def test_changes_that_the_extension_has_not_received_yet_are_never_touched(
    agent: SyncRuntime, window: Window, how: str
) -> None:
    file = make(window, f"typed-{how}.txt")
    window.open_file(file.name)
    with ThreadPoolExecutor(1) as threads:
        with window.held_messages():
            window.type("mine ")
            wait_until(lambda: window.tabs() == [f"{file.name}*"], what="unsaved changes")
            changing = threads.submit(agent.execute, CHANGES[how](str(file)))
            wait_until(lambda: "working" in window.status(), what="an agent that is working")
        answer = changing.result(LIMIT)
    assert isinstance(answer, ErrorObservation), answer
    assert answer.error_id == "unsaved_changes"
    assert file.read_text() == "one\ntwo\nthree\n"
    assert window.editor_text().startswith("mine one\ntwo\nthree")


def test_an_agent_reads_what_the_user_sees_not_what_was_saved(agent: SyncRuntime, window: Window) -> None:
    file = make(window, "read.txt")
    window.open_file("read.txt")
    window.type("mine ")
    wait_until(lambda: window.tabs() == ["read.txt*"], what="unsaved changes")
    assert agent.read(str(file)).content == "mine one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"\xef\xbb\xbfone\r\ntwo\r\n", b"\xef\xbb\xbfone\r\n2\r\n"), (b"one\ntwo", b"one\n2")],
    ids=["byte order mark and carriage returns", "no newline at the end"],
)
def test_bytes_outside_of_an_edit_are_unchanged(
    agent: SyncRuntime, window: Window, content: bytes, expected: bytes
) -> None:
    file = make(window, f"bytes-{len(content)}.txt", content)
    window.open_file(file.name)
    assert replace(agent, file, "two", "2") == "done"
    assert file.read_bytes() == expected
    assert window.tabs() == [file.name]


def test_the_editor_commands_of_the_contract_work(agent: SyncRuntime, window: Window) -> None:
    file = make(window, "contract.txt")
    shown = agent.read(FileReadAction(path=str(file), impl_source="oh_aci", view_range=[2, 3]))
    assert "     2\ttwo\n     3\tthree" in shown.content
    agent.edit(str(file), command="insert", insert_line=1, new_str="between")
    assert file.read_text() == "one\nbetween\ntwo\nthree\n"
    agent.edit(str(file), command="undo_edit")
    assert file.read_text() == "one\ntwo\nthree\n"
    missing = agent.edit(str(file), command="str_replace", old_str="absent", new_str="x")
    assert "did not appear verbatim" in missing.content
    made = window.folder / "created.txt"
    agent.edit(str(made), command="create", file_text="fresh\n")
    assert made.read_text() == "fresh\n"


@pytest.mark.parametrize("way", ["link", "parent", "neighbour"])
def test_nothing_outside_of_the_folder_is_read_or_written(
    agent: SyncRuntime, window: Window, way: str
) -> None:
    outside = window.folder.parent / f"{window.folder.name}-other"
    outside.mkdir(exist_ok=True)
    secret = outside / "secret.txt"
    secret.write_text("secret\n")
    if way == "link" and not (window.folder / "link").is_symlink():
        (window.folder / "link").symlink_to(outside)
    path = {
        "link": window.folder / "link/secret.txt",
        "parent": f"{window.folder}/../{outside.name}/secret.txt",
        "neighbour": secret,
    }[way]
    for answer in (agent.read(str(path)), agent.write(str(path), "changed")):
        assert isinstance(answer, ErrorObservation), answer
        assert answer.error_id == "outside_workspace"
        assert "secret\n" not in answer.content
    assert secret.read_text() == "secret\n"


def test_a_link_that_stays_in_the_folder_is_followed(agent: SyncRuntime, window: Window) -> None:
    make(window, "target.txt", "there\n")
    (window.folder / "inner").symlink_to(window.folder / "target.txt")
    assert agent.read("inner").content == "there\n"


def test_files_are_listed_found_and_searched(agent: SyncRuntime, window: Window) -> None:
    (window.folder / "tree/deep").mkdir(parents=True)
    make(window, "tree/deep/needle.py", "x = 1\nneedle = 2\n")
    make(window, "tree/hay.txt", "hay\n")
    assert agent.list_files(str(window.folder / "tree")) == ["deep/", "hay.txt"]
    found = agent.execute(GlobAction(pattern="**/*.py", path=str(window.folder / "tree")))
    assert "needle.py" in found.content
    lines = agent.execute(GrepAction(pattern="needle =", path=str(window.folder / "tree")))
    assert "needle = 2" in lines.content


def test_directories_go_in_and_come_out(agent: SyncRuntime, window: Window, tmp_path: Path) -> None:
    (tmp_path / "parcel/inner").mkdir(parents=True)
    (tmp_path / "parcel/inner/data.bin").write_bytes(bytes(range(256)) * 8192)  # in several pieces
    agent.copy_to(str(tmp_path / "parcel"), str(window.folder), recursive=True)
    assert (window.folder / "parcel/inner/data.bin").read_bytes() == bytes(range(256)) * 8192
    archive = agent.copy_from(str(window.folder / "parcel"))
    with zipfile.ZipFile(archive) as opened:
        assert opened.read("inner/data.bin") == bytes(range(256)) * 8192


def test_the_last_edit_is_shown_beside_the_text_from_before(agent: SyncRuntime, window: Window) -> None:
    file = make(window, "compared.txt")
    assert replace(agent, file, "two", "2") == "done"
    window.command("Glovebox: Show Last Edit")
    wait_until(
        lambda: (
            "two" in (shown := window.text_of(".diff-editor-container, .monaco-diff-editor")) and "2" in shown
        ),
        what="both texts",
    )


# Settings: unsaved changes are saved, and edits are not shown.


@pytest.fixture(scope="module")
def saving(workstation: Workstation) -> Iterator[Window]:
    """A window with these settings."""
    settings = '{"glovebox.unsavedChanges": "save", "glovebox.showEdits": "off"}'
    with workstation.window(workstation.folder("saving", {".vscode/settings.json": settings})) as window:
        window.connect()
        yield window


def test_unsaved_changes_are_saved_before_an_edit_if_the_user_has_set_so(saving: Window) -> None:
    file = saving.folder / "notes.txt"
    saving.bring_to_front()
    saving.open_file("notes.txt")
    saving.type("mine ")
    wait_until(lambda: saving.tabs() == ["notes.txt*"], what="unsaved changes")
    with saving.agent() as agent:
        assert replace(agent, file, "two", "2") == "done"
    assert file.read_text() == "mine one\n2\nthree\n"
    wait_until(lambda: saving.editor_text().startswith("mine one\n2\nthree"), what="both in the editor")
    assert saving.tabs() == ["notes.txt"]


def test_edits_open_nothing_if_the_user_has_set_so(saving: Window) -> None:
    with saving.agent() as agent:
        agent.write("quiet.txt", "quiet")
    assert (saving.folder / "quiet.txt").read_text() == "quiet\n"
    assert "quiet.txt" not in saving.tabs()


# Settings of editors and searches.

SETTINGS = """{
    "editor.formatOnSave": true,
    "files.insertFinalNewline": true,
    "files.trimTrailingWhitespace": true,
    "files.exclude": {"**/built": true},
    "search.exclude": {"**/vendor": true},
    "glovebox.showEdits": "off"
}"""


@pytest.fixture(scope="module")
def configured(workstation: Workstation) -> Iterator[Window]:
    """A window of a user who has settings."""
    files = {
        ".vscode/settings.json": SETTINGS,
        "built/needle.py": "needle\n",
        "vendor/needle.py": "needle\n",
        "src/needle.py": "needle\n",
    }
    with workstation.window(workstation.folder("configured", files)) as window:
        window.connect()
        yield window


@pytest.mark.parametrize("name", ["open.txt", "closed.txt"])
def test_an_edit_is_saved_as_the_settings_of_editors_want_and_the_agent_is_told(
    configured: Window, name: str
) -> None:
    file = make(configured, name)
    configured.bring_to_front()
    if name == "open.txt":
        configured.open_file(name)
    with configured.agent() as agent:
        answer = agent.edit(str(file), command="str_replace", old_str="three\n", new_str="3   \nend")
        assert file.read_text() == "one\ntwo\n3\nend\n"
        assert answer.content.endswith("which has this now:\none\ntwo\n3\nend\n")
        plain = agent.edit(str(file), command="str_replace", old_str="3\nend", new_str="4")
        assert "which has this now" not in plain.content
        assert file.read_text() == "one\ntwo\n4\n"


def test_a_new_file_is_saved_as_the_settings_want_too(configured: Window) -> None:
    with configured.agent() as agent:
        answer = agent.edit(str(configured.folder / "new.txt"), command="create", file_text="a  \nb")
        assert (configured.folder / "new.txt").read_text() == "a\nb\n"
        assert answer.content.endswith("which has this now:\na\nb\n")
        assert agent.read(str(configured.folder / "new.txt")).content == "a\nb\n"


def test_a_formatter_of_the_user_formats_what_an_agent_saves(configured: Window) -> None:
    file = make(configured, "data.json", '{"a": 1}\n')
    configured.bring_to_front()
    configured.open_file("data.json")
    with configured.agent() as agent:

        def is_formatted() -> bool:  # the extension with the formatter may start late
            file.write_text('{"a": 1}\n')
            answer = replace(agent, file, '"a": 1', '"a":   1,"b":2')
            return answer == "done" and file.read_text() == '{\n    "a": 1,\n    "b": 2\n}\n'

        wait_until(is_formatted, 3 * LIMIT, what="a formatted file")


def test_searches_leave_out_what_the_user_excludes_unless_ignored_files_are_asked_for(
    configured: Window,
) -> None:
    folder = str(configured.folder)
    with configured.agent() as agent:
        for respect, paths in ((True, ["src"]), (False, ["built", "src", "vendor"])):
            found = agent.execute(GlobAction(pattern="**/needle.py", path=folder, respect_gitignore=respect))
            assert isinstance(found, GlobObservation)
            assert sorted(found.matches) == [f"{folder}/{path}/needle.py" for path in paths]
            lines = agent.execute(GrepAction(pattern="needle", path=folder, respect_gitignore=respect))
            assert isinstance(lines, GrepObservation)
            assert lines.files == len(paths)
        inside = agent.execute(GrepAction(pattern="needle", path=f"{folder}/vendor"))
        assert isinstance(inside, GrepObservation)
        assert inside.files == 1
        assert "built/" in agent.list_files(folder)


def test_a_file_that_the_user_saved_between_reading_and_editing_is_edited_as_it_is_now(
    agent: SyncRuntime, window: Window
) -> None:
    file = make(window, "between.txt")
    window.open_file(file.name)
    assert agent.read(str(file)).content == "one\ntwo\nthree\n"
    window.press("Control+a")
    window.type("mine")
    window.press("Control+s")
    wait_until(lambda: file.read_text() == "mine", what="the user's change on the disk")
    missing = agent.edit(str(file), command="str_replace", old_str="two", new_str="2")
    assert "did not appear verbatim" in missing.content
    assert replace(agent, file, "mine", "ours") == "done"
    assert file.read_text() == "ours"


# Watching.


def watched(window: Window, agent: SyncRuntime) -> Box:
    """The window, as a box whose files are watched."""
    return Box(backend=OneBox(agent.url, window.hub.key, str(window.folder)))


def test_changes_by_the_user_and_by_other_programs_are_seen_and_those_of_the_agent_are_not(
    agent: SyncRuntime, window: Window
) -> None:
    saved = make(window, "watched.txt")
    window.open_file(saved.name)
    with watched(window, agent) as box, box.files.watch(str(window.folder)) as changes:
        agent.write(str(window.folder / "own.txt"), "of the agent")
        assert replace(agent, saved, "two", "2") == "done"
        wait_until(lambda: "\n2\n" in window.editor_text(), what="the edit in the editor")
        make(window, "other.txt", "of another program")
        seen = [next(changes)]
        assert (Path(seen[0].path).name, seen[0].change) == ("other.txt", "created")
        window.command("View: Focus Active Editor Group")
        window.type("mine ")
        window.press("Control+s")
        assert next(one.change for one in changes if one.path == str(saved)) == "modified"
        (window.folder / "other.txt").unlink()
        assert next(one.change for one in changes if one.path.endswith("other.txt")) == "deleted"
        assert "working" not in window.status()


def test_what_cannot_be_watched_is_an_error(agent: SyncRuntime, window: Window) -> None:
    with watched(window, agent) as box:
        with pytest.raises(NoSuchFile), box.files.watch(str(window.folder / "missing")):
            pass
        with pytest.raises(PermissionDenied), box.files.watch("/etc"):
            pass
