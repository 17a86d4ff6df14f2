"""One contract for the files of every machine: those on a disk, and those of a VS Code window."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from glovebox.box.events import EventLog
from glovebox.box.executor import Executor
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.machine import Files
from glovebox.box.threads import Threads
from glovebox.hub.window.files import WindowFiles
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.base import Action
from glovebox.protocol.files import DeleteAction, MkdirAction, MoveAction, StatAction
from glovebox.protocol.observations import ErrorObservation
from tests.box.files.acting import QuietShell, tree
from tests.hub.window.window_box import DirectoryHands

#: So much is read at once.
MOST = 100_000


class Machine:
    """File actions over the files of a machine."""

    def __init__(self, files: Files, workspace: Path) -> None:
        self.shell = QuietShell(str(workspace))
        self.content = FileActions(
            files, shell=self.shell, workspace=lambda: str(workspace), max_read_bytes=MOST
        )
        paths = PathActions(files, shell=self.shell)
        self._executor = Executor([*self.content.handlers(), *paths.handlers()], EventLog())

    async def do(self, action: Action[Any]) -> Any:
        """The observation of an action that works."""
        answer = await self._executor.execute(action)
        assert not isinstance(answer, ErrorObservation), answer
        return answer

    async def refused(self, action: Action[Any]) -> tuple[str, str]:
        """The error of an action: its id and its text."""
        answer = await self._executor.execute(action)
        assert isinstance(answer, ErrorObservation), answer
        return answer.error_id, answer.content

    async def edit(self, path: Path | str, command: str, **fields: Any) -> str:
        action = FileEditAction(path=str(path), command=command, **fields)
        content: str = (await self.do(action)).content
        return content


@pytest.fixture(params=["disk", "memory", "window"])
async def machine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Machine]:
    threads = Threads("test", 4)
    hands = DirectoryHands(tmp_path)
    files: Files = WindowFiles(hands, threads)
    if request.param != "window":
        files = LocalFiles(threads, reads_memory=request.param == "memory")
    machine = Machine(files, tmp_path)
    try:
        yield machine
        await machine.content.close()
    finally:
        await hands.acting.terminals.close()
        threads.close()


async def test_lines_are_read(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\rthree\nfour")
    read = await machine.do(FileReadAction(path="a.txt"))
    assert (read.content, read.path) == ("one\ntwo\nthree\nfour", f"{tmp_path}/a.txt")
    assert (await machine.do(FileReadAction(path="./a.txt", start=1, end=3))).content == "two\nthree\n"
    assert (await machine.do(FileReadAction(path=f"{tmp_path}/a.txt", start=9))).content == ""


async def test_what_cannot_be_read_is_an_error(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "latin").write_bytes(b"caf\xe9 au lait")
    errors = {
        "no": f"File not found: {tmp_path}/no. Your current working directory is {tmp_path}.",
        ".": f"Path is a directory: {tmp_path}. You can only read files",
        f"{tmp_path}/binary": "ERROR_BINARY_FILE",
        "latin": f"File could not be decoded as utf-8: {tmp_path}/latin.",
    }
    for path, content in errors.items():
        assert await machine.refused(FileReadAction(path=path)) == ("", content)
    assert machine.shell.asked == 1


async def test_no_answer_has_more_than_is_read_at_once(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "large").write_text(("x" * 99 + "\n") * 2000)
    (tmp_path / "large.png").write_bytes(b"x" * 90_000)
    for action in (
        FileReadAction(path="large"),
        FileReadAction(path="large", start=1),
        FileReadAction(path="large", start=0, end=1500),
        FileReadAction(path="large.png"),
    ):
        code, content = await machine.refused(action)
        assert (code, "at most 100,000 are read at once" in content) == ("too_large", True)
    read = await machine.do(FileReadAction(path="large", start=1990, end=1992))
    assert read.content == ("x" * 99 + "\n") * 2
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    assert (await machine.do(FileReadAction(path="dot.png"))).content == "data:image/png;base64,iVBORw=="


async def test_lines_are_written(machine: Machine, tmp_path: Path) -> None:
    written = await machine.do(FileWriteAction(path="new/deep/a.txt", content="1\n2\n3"))
    assert written.path == f"{tmp_path}/new/deep/a.txt"
    await machine.do(FileWriteAction(path="new/deep/a.txt", content="two", start=1, end=2))
    assert (tmp_path / "new/deep/a.txt").read_text() == "1\ntwo\n3\n"
    (tmp_path / "b.txt").write_bytes(b"1\r\n2\r\n" * 20_000)
    await machine.do(FileWriteAction(path="b.txt", content="x", start=1, end=-1))
    assert (tmp_path / "b.txt").read_bytes() == b"1\r\nx\r\n"
    directory = f"Path is a directory: {tmp_path}/new. You can only write to files"
    assert await machine.refused(FileWriteAction(path="new", content="x")) == ("", directory)
    (tmp_path / "latin").write_bytes(b"caf\xe9 au lait")
    latin = f"File could not be decoded as utf-8: {tmp_path}/latin"
    assert await machine.refused(FileWriteAction(path="latin", content="x", start=1)) == ("", latin)


async def test_the_editor_creates_changes_and_undoes(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    assert await machine.edit(path, "create", file_text="x = 1\n") == f"File created successfully at: {path}"
    replaced = await machine.do(
        FileEditAction(path=str(path), command="str_replace", old_str="x = 1", new_str="x = 2")
    )
    assert replaced.diff == f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-x = 1\n+x = 2"
    assert replaced.content == (
        f"The file {path} has been edited. Here's the result of running `cat -n` on a snippet of {path}:\n"
        "     1\tx = 2\n     2\t\n"
        "Review the changes and make sure they are as expected. Edit the file again if necessary."
    )
    assert "     2\ty = 3\n" in await machine.edit(path, "insert", insert_line=1, new_str="y = 3")
    assert path.read_text() == "x = 2\ny = 3\n"
    for expected in ("x = 2\n", "x = 1\n", "x = 1\n"):
        undone = await machine.edit(path, "undo_edit")
        assert undone.startswith(f"Last edit to {path} undone successfully.")
        assert path.read_text() == expected
    assert await machine.edit(path, "undo_edit") == f"ERROR:\nNo edit history found for {path}."


async def test_errors_of_the_editor_come_in_the_contracts_order(machine: Machine, tmp_path: Path) -> None:
    path, missing = tmp_path / "a.txt", tmp_path / "no.txt"
    path.write_text("a\na\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "a.docx").touch()
    (tmp_path / "huge").write_bytes(b"a" * (11 << 20))
    cases: list[tuple[Path | str, str, dict[str, Any], str]] = [
        (missing, "str_replace", {}, f"The path {missing} does not exist. Please provide a valid path."),
        (missing, "explode", {}, f"The path {missing} does not exist. Please provide a valid path."),
        (missing, "insert", {"insert_line": 0, "new_str": "x"}, f"The path {missing} does not exist."),
        (tmp_path, "explode", {}, "is a directory and only the `view` command can be used on directories."),
        (tmp_path, "undo_edit", {}, "is a directory and only the `view` command can be used on directories."),
        (tmp_path / "a.docx", "explode", {}, "points to a binary file (.docx) and only the `view` command"),
        (tmp_path / "no.docx", "create", {}, "points to a binary file (.docx) and only the `view` command"),
        (tmp_path / "a.docx", "create", {}, "File already exists at:"),
        (path, "explode", {}, "Unrecognized command explode. The allowed commands for the oh_editor tool"),
        (path, "create", {}, "Cannot overwrite files using command `create`."),
        (path, "create", {"file_text": "\ud800"}, "Cannot overwrite files using command `create`."),
        (missing, "create", {}, "Parameter `file_text` is required for command: create."),
        (missing, "create", {"file_text": "\ud800"}, "surrogates not allowed while trying to write to /"),
        (tmp_path, "create", {"file_text": "x"}, "File already exists at:"),
        (tmp_path / "binary", "str_replace", {}, "Parameter `old_str` is required for command: str_replace."),
        (tmp_path / "huge", "insert", {}, "Parameter `insert_line` is required for command: insert."),
        (tmp_path / "huge", "undo_edit", {}, "File is too large (11.0MB). Maximum allowed size is 10MB."),
        (tmp_path / "binary", "undo_edit", {}, "File appears to be binary and this file type cannot be read"),
        (path, "insert", {"insert_line": 0}, "Parameter `new_str` is required for command: insert."),
        (path, "insert", {"insert_line": 3, "new_str": ""}, "within the range of allowed values: [0, 2]"),
        (path, "str_replace", {"old_str": "a", "new_str": "a"}, "`new_str` and `old_str` must be different."),
        (path, "str_replace", {"old_str": "b"}, f"old_str `b` did not appear verbatim in {path}."),
        (path, "str_replace", {"old_str": "a"}, "Multiple occurrences of old_str `a` in lines [1, 2]."),
        ("a.txt", "undo_edit", {}, f"starting with `/`. Maybe you meant {path}?"),
        ("no.txt", "view", {}, "The path should be an absolute path, starting with `/`."),
    ]  # fmt: skip
    for place, command, fields, expected in cases:
        answer = await machine.edit(place, command, **fields)
        assert answer.startswith("ERROR:\n")
        assert expected in answer, (place, command)
    assert path.read_text() == "a\na\n"
    assert not missing.exists()


async def test_line_ends_and_guessed_encodings_survive_edits(machine: Machine, tmp_path: Path) -> None:
    windows, japanese = tmp_path / "crlf.txt", tmp_path / "japanese.txt"
    windows.write_bytes("\ufeffone\r\ntwo\r\n".encode())
    await machine.edit(windows, "str_replace", old_str="two", new_str="2\n3")
    assert windows.read_bytes() == "\ufeffone\r\n2\r\n3\r\n".encode()
    text = "日本語のテキストです。これはテストです。\n"
    japanese.write_bytes(text.encode("shift_jis"))
    for _ in range(3):
        await machine.edit(japanese, "insert", insert_line=0, new_str="ア")
    assert japanese.read_bytes() == ("ア\n" * 3 + text).encode("shift_jis")
    for left in (2, 1, 0):
        await machine.edit(japanese, "undo_edit")
        assert japanese.read_bytes() == ("ア\n" * left + text).encode("shift_jis")


async def test_files_directories_and_documents_are_viewed(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "src/inner").mkdir(parents=True)
    (tmp_path / "src/inner/deep").touch()
    (tmp_path / "src/a.py").write_text("one\ntwo\n")
    (tmp_path / ".hidden").touch()
    (tmp_path / "link").symlink_to("src")
    assert await machine.edit(tmp_path, "view") == (
        f"Here's the files and directories up to 2 levels deep in {tmp_path}, excluding hidden items:\n"
        + "\n".join(f"{tmp_path}/{name}" for name in (
            "", "link/", "link/a.py", "link/inner/", "src/", "src/a.py", "src/inner/",
        ))
        + "\n\n1 hidden files/directories in this directory are excluded. "
        f"You can use 'ls -la {tmp_path}' to see them."
    )  # fmt: skip
    view = FileReadAction(path=str(tmp_path), impl_source="oh_aci", view_range=[1, 2])
    assert "not allowed when `path` points to a directory" in (await machine.do(view)).content
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as file:
        file.writestr("xl/workbook.xml", '<workbook><sheets><sheet name="Data" id="r1"/></sheets></workbook>')
        relation = '<Relationships><Relationship Id="r1" Target="s.xml"/></Relationships>'
        file.writestr("xl/_rels/workbook.xml.rels", relation)
        file.writestr("xl/s.xml", '<worksheet><row><c r="A1"><v>7</v></c></row></worksheet>')
    assert "## Data\n| 7 |" in await machine.edit(tmp_path / "a.xlsx", "view")
    (tmp_path / "no.xlsx").write_text("text")
    assert "File is not a zip file. Please use Python" in await machine.edit(tmp_path / "no.xlsx", "view")


async def test_changes_of_one_file_at_once_are_all_made(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a b c d\n")
    edits = [machine.edit(path, "str_replace", old_str=one, new_str=one.upper()) for one in "abcd"]
    writes = [machine.do(FileWriteAction(path="a.txt", content="x", start=1, end=1)) for _ in range(4)]
    await asyncio.gather(*edits, *writes)
    assert path.read_text() == "A B C D\n" + "x\n" * 4


async def test_paths_are_described(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345")
    (tmp_path / "link").symlink_to("a.txt")
    (tmp_path / "nowhere").symlink_to("no")
    found = await machine.do(StatAction(path="x/../a.txt"))
    assert (found.type, found.size, found.path) == ("file", 5, f"{tmp_path}/a.txt")
    assert found.content.startswith(f"{tmp_path}/a.txt: file, 5 bytes, ")
    assert (await machine.do(StatAction(path="link"))).type == "file"
    for name in ("link", "nowhere"):
        assert (await machine.do(StatAction(path=name, follow_symlinks=False))).type == "symlink"
    assert (await machine.do(StatAction(path="""."""))).type == "directory"
    missing = f"{tmp_path}/no does not exist. Check the path, or find it with glob."
    assert await machine.refused(StatAction(path="no")) == ("not_found", missing)
    for path, word in (("", "empty"), ("a\0b", "NUL"), ("a\ud800", "surrogate")):
        code, content = await machine.refused(StatAction(path=path))
        assert (code, word in content) == ("invalid_argument", True)


async def test_paths_are_moved(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    for name in ("a", "b", "full/x"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("no")
    (tmp_path / "dir/full").mkdir(parents=True)
    (tmp_path / "dir/full/x").touch()
    where = {
        ("no", "x", False): ("not_found", f"{tmp_path}/no does not exist. Check the path, or find it"),
        ("a", "x/", False): ("not_found", f"The directory {tmp_path}/x does not exist. Make it with mkdir"),
        ("a", "no/x", False): ("not_found", f"The directory {tmp_path}/no does not exist. Make it"),
        ("a", "a", False): ("invalid_argument", f"{tmp_path}/a and the destination are the same."),
        ("dir", "dir/in", False): ("invalid_argument", f"{tmp_path}/dir cannot be moved into itself."),
        ("a", "b", False): ("already_exists", f"{tmp_path}/b already exists. Set overwrite to replace it"),
        ("full", "dir", True): ("not_empty", f"{tmp_path}/dir/full is a directory that is not empty. Delete"),
        ("full", "b", True): ("not_a_directory", f"{tmp_path}/b is a file, which a directory cannot"),
    }  # fmt: skip
    for (source, destination, overwrite), (code, content) in where.items():
        action = MoveAction(source=source, destination=destination, overwrite=overwrite)
        refused = await machine.refused(action)
        assert (refused[0], refused[1].startswith(content)) == (code, True), (action, refused)
    moved = await machine.do(MoveAction(source="a", destination="b", overwrite=True))
    assert moved.content == f"Moved {tmp_path}/a to {tmp_path}/b."
    assert (await machine.do(MoveAction(source="b", destination="dir"))).destination == f"{tmp_path}/dir/b"
    await machine.do(MoveAction(source="link", destination="dir/"))
    assert tree(tmp_path / "dir") == {"b": "a", "full": "/", "full/x": "", "link": "-> no"}


async def test_paths_are_deleted_and_directories_made(machine: Machine, tmp_path: Path) -> None:
    assert (await machine.do(MkdirAction(path="a/b/c"))).content == f"Made the directory {tmp_path}/a/b/c."
    there = await machine.do(MkdirAction(path="a/b"))
    assert (there.created, there.content) == (False, f"The directory {tmp_path}/a/b was there already.")
    (tmp_path / "file").touch()
    no_parent = f"{tmp_path}/x does not exist. Make it first, or set parents to true."
    assert await machine.refused(MkdirAction(path="x/y", parents=False)) == ("not_found", no_parent)
    occupied = f"{tmp_path}/file exists and is not a directory. Choose another path."
    assert await machine.refused(MkdirAction(path="file")) == ("already_exists", occupied)
    full = f"{tmp_path}/a is a directory that is not empty. Set recursive to delete what is in it."
    assert await machine.refused(DeleteAction(path="a")) == ("not_empty", full)
    machine.shell.cwd = f"{tmp_path}/a/b"
    needed = f"The shell is in {tmp_path}/a. Change to another directory first, or delete what is in it."
    assert await machine.refused(DeleteAction(path="..", recursive=True)) == ("protected_path", needed)
    machine.shell.cwd = str(tmp_path)
    await machine.do(DeleteAction(path="a", recursive=True))
    assert (await machine.do(DeleteAction(path="file"))).content == f"Deleted {tmp_path}/file."
    assert (await machine.refused(DeleteAction(path="file")))[0] == "not_found"
    gone = await machine.do(DeleteAction(path="file", missing_ok=True))
    assert (gone.removed, gone.content) == (
        0, f"{tmp_path}/file does not exist, so there was nothing to delete.",
    )  # fmt: skip
    assert tree(tmp_path) == {}
