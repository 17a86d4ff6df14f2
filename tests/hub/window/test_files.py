"""Files of a window: read, written and edited with the answers of any box."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.errors import WindowUnresponsive
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.window import Order, Read, Write
from tests.hub.window.window_box import Acting, acting, failing
from tests.support.waiting import until


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Acting]:
    async with acting(tmp_path) as box:
        yield box


async def edit(box: Acting, path: Path, command: str, **fields: object) -> str:
    action = FileEditAction(path=str(path), command=command, **fields)  # type: ignore[arg-type]
    return (await box.do(action)).content


async def test_lines_are_read_by_absolute_and_relative_paths(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.txt").write_bytes(b"one\r\ntwo\nthree\n")
    found = await box.do(FileReadAction(path="sub/a.txt"))
    assert (found.content, found.path) == ("one\ntwo\nthree\n", str(tmp_path / "sub/a.txt"))
    await box.output("cd sub")
    assert (await box.do(FileReadAction(path="a.txt", start=1, end=2))).content == "two\n"
    assert (await box.do(FileReadAction(path=str(tmp_path / "sub/a.txt"), start=2))).content == "three\n"


async def test_what_cannot_be_read_is_said_in_the_contracts_words(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "latin").write_bytes(b"caf\xe9 au lait")
    missing = await box.refused(FileReadAction(path="no.txt"))
    assert missing.content == (
        f"File not found: {tmp_path}/no.txt. Your current working directory is {tmp_path}."
    )
    directory = await box.refused(FileReadAction(path=str(tmp_path)))
    assert directory.content == f"Path is a directory: {tmp_path}. You can only read files"
    assert (await box.refused(FileReadAction(path=str(tmp_path / "bin")))).content == "ERROR_BINARY_FILE"
    assert (await box.refused(FileReadAction(path="x.pyc"))).content == "ERROR_BINARY_FILE"
    assert "utf-8" in (await box.refused(FileReadAction(path="latin"))).content
    outside = await box.refused(FileReadAction(path="/etc/hostname"))
    assert (outside.error_id, "workspace" in outside.content) == ("outside_workspace", True)


async def test_a_picture_is_a_data_url_and_a_large_file_comes_in_pieces(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 1))
    shown = await box.do(FileReadAction(path="dot.png"))
    assert shown.content.startswith("data:image/png;base64,iVBOR")
    text = "".join(f"line {number}\n" for number in range(200_000))
    (tmp_path / "large").write_text(text)
    assert (await box.do(FileReadAction(path="large"))).content == text
    assert box.hands.kinds().count("Read") == 1 + -(-len(text) // (1 << 20))


async def test_a_file_that_changes_while_it_is_read_is_read_again(box: Acting, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"a" * (3 << 20))

    def grow(order: Order) -> None:
        if isinstance(order, Read) and order.offset == 1 << 20:
            path.write_bytes(b"b" * (2 << 20) + b"!")
            box.hands.before = lambda order: None

    box.hands.before = grow
    assert (await box.do(FileReadAction(path="large"))).content == "b" * (2 << 20) + "!"


async def test_what_an_editor_shows_unsaved_is_read_and_not_written_over(box: Acting, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("disk\n")
    box.hands.acting.unsaved[str(path)] = b"editor\n"
    assert (await box.do(FileReadAction(path="a.txt"))).content == "editor\n"
    written = await box.refused(FileWriteAction(path="a.txt", content="x"))
    replaced = FileEditAction(path=str(path), command="str_replace", old_str="editor", new_str="x")
    assert (written.error_id, (await box.refused(replaced)).error_id) == ("unsaved_changes",) * 2
    assert path.read_text() == "disk\n"


async def test_lines_are_written_and_missing_directories_made(box: Acting, tmp_path: Path) -> None:
    assert (await box.do(FileWriteAction(path="new/deep/a.txt", content="one\ntwo"))).path == str(
        tmp_path / "new/deep/a.txt"
    )
    assert (tmp_path / "new/deep/a.txt").read_text() == "one\ntwo\n"
    (tmp_path / "b.txt").write_bytes(b"1\r\n2\r\n3\r\n")
    await box.do(FileWriteAction(path="b.txt", content="x", start=1, end=2))
    assert (tmp_path / "b.txt").read_bytes() == b"1\r\nx\r\n3\r\n"
    refused = await box.refused(FileWriteAction(path="new", content="x"))
    assert refused.content == f"Path is a directory: {tmp_path}/new. You can only write to files"
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00")
    assert "utf-8" in (await box.refused(FileWriteAction(path="bin", content="x"))).content


async def test_a_change_in_between_is_noticed_and_the_write_made_on_top(box: Acting, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n3\n")

    def meddle(order: Order) -> None:
        if isinstance(order, Write):
            path.write_text("1\n2\nthree\n")
            box.hands.before = lambda order: None

    box.hands.before = meddle
    await box.do(FileWriteAction(path="a.txt", content="two", start=1, end=2))
    assert path.read_text() == "1\ntwo\nthree\n"
    box.hands.before = meddle
    assert "has been edited" in await edit(box, path, "str_replace", old_str="1", new_str="one")
    assert path.read_text() == "one\n2\nthree\n"


async def test_a_file_that_never_stands_still_is_refused(box: Acting, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0\n")

    def meddle(order: Order) -> None:
        if isinstance(order, Write):
            path.write_text(path.read_text() + "more\n")

    box.hands.before = meddle
    action = FileEditAction(path=str(path), command="insert", insert_line=0, new_str="x")
    assert (await box.refused(action)).error_id == "changed_meanwhile"
    assert (await box.refused(FileWriteAction(path="a.txt", content="x"))).error_id == "changed_meanwhile"
    assert "x" not in path.read_text()


async def test_two_edits_of_a_file_at_once_are_both_made(box: Acting, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a b c d\n")
    await asyncio.gather(*(
        edit(box, path, "str_replace", old_str=letter, new_str=letter.upper()) for letter in "abcd"
    ))  # fmt: skip
    assert path.read_text() == "A B C D\n"


async def test_the_editor_creates_replaces_inserts_and_undoes(box: Acting, tmp_path: Path) -> None:
    path = tmp_path / "deep/a.py"
    assert await edit(box, path, "create", file_text="x = 1\n") == f"File created successfully at: {path}"
    assert "Cannot overwrite files using command `create`" in await edit(box, path, "create", file_text="y")
    action = FileEditAction(path=str(path), command="str_replace", old_str="x = 1", new_str="x = 2")
    replaced = await box.do(action)
    assert replaced.diff == f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-x = 1\n+x = 2"
    assert replaced.content.startswith(f"The file {path} has been edited. Here's the result of running")
    assert "     1\tx = 2" in replaced.content
    assert "y = 3" in await edit(box, path, "insert", insert_line=1, new_str="y = 3")
    assert path.read_text() == "x = 2\ny = 3\n"
    for expected in ("x = 2\n", "x = 1\n", "x = 1\n"):
        undone = await edit(box, path, "undo_edit")
        assert undone.startswith(f"Last edit to {path} undone successfully.")
        assert path.read_text() == expected
    assert await edit(box, path, "undo_edit") == f"ERROR:\nNo edit history found for {path}."


async def test_mistakes_are_told_as_the_editor_tells_them(box: Acting, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\na\n")
    assert "did not appear verbatim" in await edit(box, path, "str_replace", old_str="b", new_str="c")
    assert "Multiple occurrences" in await edit(box, path, "str_replace", old_str="a", new_str="c")
    assert "must be different" in await edit(box, path, "str_replace", old_str="a", new_str="a")
    assert "`old_str` is required" in await edit(box, path, "str_replace")
    assert "allowed values: [0, 2]" in await edit(box, path, "insert", insert_line=9, new_str="x")
    assert "Expected an integer" in await edit(box, path, "insert", insert_line="x", new_str="x")
    assert "Unrecognized command" in await edit(box, path, "explode")
    assert "does not exist" in await edit(box, tmp_path / "no", "str_replace", old_str="a", new_str="b")
    assert "only the `view` command" in await edit(box, tmp_path, "str_replace", old_str="a", new_str="b")
    relative = await edit(box, Path("a.txt"), "view")
    assert f"Maybe you meant {path}?" in relative
    (tmp_path / "huge").write_bytes(b"a" * (11 << 20))
    assert "File is too large (11.0MB)" in await edit(box, tmp_path / "huge", "view")


async def test_line_ends_and_encodings_survive_an_edit(box: Acting, tmp_path: Path) -> None:
    windows = tmp_path / "crlf.txt"
    windows.write_bytes("\ufeffone\r\ntwo\r\n".encode())
    await edit(box, windows, "str_replace", old_str="two", new_str="2\n3")
    assert windows.read_bytes() == "\ufeffone\r\n2\r\n3\r\n".encode()
    wide = tmp_path / "wide.txt"
    wide.write_bytes("\ufeffgrün\n".encode("utf-16-le"))
    await edit(box, wide, "str_replace", old_str="grün", new_str="blau")
    assert wide.read_bytes() == "\ufeffblau\n".encode("utf-16-le")


async def test_files_and_directories_are_viewed(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "src/inner").mkdir(parents=True)
    (tmp_path / "src/a.py").write_text("one\ntwo\n")
    (tmp_path / "src/inner/deep.py").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "out").symlink_to("/etc")
    tree = await edit(box, tmp_path, "view")
    lines = tree.splitlines()[1:]
    assert lines[: lines.index("")] == [
        f"{tmp_path}/", f"{tmp_path}/out/", f"{tmp_path}/src/", f"{tmp_path}/src/a.py",
        f"{tmp_path}/src/inner/",
    ]  # fmt: skip
    assert "1 hidden files/directories in this directory are excluded." in tree
    view = FileReadAction(path=str(tmp_path / "src/a.py"), impl_source="oh_aci", view_range=[2, 2])
    assert (await box.do(view)).content == (
        f"Here's the result of running `cat -n` on {tmp_path}/src/a.py:\n     2\ttwo\n"
    )
    missing = await box.do(FileReadAction(path=str(tmp_path / "no"), impl_source="oh_aci"))
    assert missing.content.startswith("ERROR:\nInvalid `path` parameter")


async def test_a_file_that_a_command_is_making_is_waited_for(box: Acting, tmp_path: Path) -> None:
    await box.run("true")
    making = asyncio.create_task(box.run("until [ -e asked ]; do sleep 0.02; done; echo made > late.txt"))
    asked = tmp_path / "asked"

    def touch(order: Order) -> None:
        if isinstance(order, Read):
            asked.touch()

    box.hands.before = touch
    await until(lambda: "Run" in box.hands.kinds()[1:], "the command")
    assert (await box.do(FileReadAction(path="late.txt"))).content == "made\n"
    await making


async def test_a_window_that_cannot_be_asked_fails_the_action(box: Acting) -> None:
    box.hands.before = failing(WindowUnresponsive("It does not answer."), Read)
    with pytest.raises(WindowUnresponsive):
        await box.do(FileReadAction(path="a.txt"))
