from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.files.editor.editor import Editor, EditorCommand
from glovebox.box.files.editor.messages import TEXT_NOTICE, EditorError
from glovebox.box.files.machine import complete
from glovebox.errors import ActionError
from glovebox.protocol.observations import FileEditObservation, FileReadObservation
from tests.box.files.editing import Files, data_of, files_in, leftovers, put, text_of

FIVE = "line 1\nline 2\nline 3\nline 4\nline 5\n"
REPLACED = "Review the changes and make sure they are as expected. Edit the file again if necessary."
INSERTED = (
    "Review the changes and make sure they are as expected (correct indentation, no duplicate lines, etc). "
    "Edit the file again if necessary."
)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    async with files_in(tmp_path) as files:
        yield files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(FIVE)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# View


async def test_a_file_is_shown_with_line_numbers(files: Files, path: Path) -> None:
    shown = (
        f"Here's the result of running `cat -n` on {path}:\n"
        "     1\tline 1\n     2\tline 2\n     3\tline 3\n     4\tline 4\n     5\tline 5\n     6\t\n"
    )
    assert await files.read(path, impl_source="oh_aci", start=2, end=3) == FileReadObservation(
        content=shown, path=str(path), impl_source="oh_aci"
    )
    assert await files.edit(path, "view") == FileEditObservation(content=shown, path=str(path), diff="")


async def test_a_range_is_shown(files: Files, path: Path) -> None:
    heading = f"Here's the result of running `cat -n` on {path}:\n"
    assert (await files.view(path, [4, -1])).content == f"{heading}     4\tline 4\n     5\tline 5\n"
    assert (await files.view(path, [6, 7])).content == (
        "ERROR:\nInvalid `view_range` parameter: [6, 7]. "
        "Its first element `6` should be within the range of lines of the file: [1, 5]."
    )


async def test_line_ends_do_not_show(files: Files, path: Path) -> None:
    put(path, b"a\r\nb\rc\n")
    assert (await files.view(path)).content.endswith(":\n     1\ta\n     2\tb\n     3\tc\n     4\t\n")


async def test_a_directory_is_shown_as_a_tree_and_has_no_range(files: Files, path: Path) -> None:
    directory = path.parent
    assert (await files.view(directory)).content == (
        f"Here's the files and directories up to 2 levels deep in {directory}, excluding hidden items:\n"
        f"{directory}/\n{directory}/a.txt"
    )
    assert (await files.view(directory, [1, 2])).content == (
        "ERROR:\nInvalid `view_range` parameter: [1, 2]. "
        "The `view_range` parameter is not allowed when `path` points to a directory."
    )


async def test_a_long_file_is_clipped(files: Files, path: Path) -> None:
    put(path, "m" * 20_000)
    content = (await files.view(path)).content
    assert (
        content == f"Here's the result of running `cat -n` on {path}:\n     1\t{'m' * 16_000}{TEXT_NOTICE}\n"
    )


async def test_a_document_is_converted_or_the_reason_is_told(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    put(path, "no document\n")
    assert (await files.edit(path, "view")).content == (
        "ERROR:\nError in converting file to Markdown: File is not a zip file. "
        f"Please use Python code to read {path}"
    )


async def test_a_binary_file_is_refused(files: Files, tmp_path: Path) -> None:
    for name in ("b.bin", "x.pyc"):
        path = tmp_path / name
        put(path, bytes(range(256)))
        for command in ("view", "undo_edit"):
            assert (await files.edit(path, command)).content == (
                f"ERROR:\nFile validation failed for {path}: "
                "File appears to be binary and this file type cannot be read or edited by this tool."
            )


async def test_a_huge_file_is_refused(files: Files, path: Path) -> None:
    put(path, b"a" * 10_500_000)
    for observation in (await files.edit(path, "view"), await files.view(path)):
        assert observation.content == (
            f"ERROR:\nFile validation failed for {path}: "
            "File is too large (10.0MB). Maximum allowed size is 10MB."
        )


async def test_a_pipe_is_refused_at_once(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refusal = f"File validation failed for {tmp_path}/pipe: It is not a regular file"
    assert refusal in (await files.view(tmp_path / "pipe")).content
    assert refusal in (await files.edit(tmp_path / "pipe", "insert", insert_line=0, new_str="x")).content


async def test_text_in_no_known_encoding_is_explained(files: Files, path: Path) -> None:
    put(path, b"\xe9\xe8\xfb\n" * 4)
    assert (await files.view(path)).content == (
        "ERROR:\nRan into 'utf-8' codec can't decode byte 0xe9 in position 0: invalid continuation byte "
        f"while trying to read {path}"
    )


# Paths and parameters


@pytest.mark.parametrize("command", ["view", "str_replace", "insert", "undo_edit", "frob"])
async def test_a_missing_path_is_told_before_anything_else(
    files: Files, tmp_path: Path, command: str
) -> None:
    for name in ("none.txt", "none.pdf", "a\0b"):
        path = tmp_path / name
        assert (await files.edit(path, command)).content == (
            f"ERROR:\nInvalid `path` parameter: {path}. "
            f"The path {path} does not exist. Please provide a valid path."
        )


async def test_a_relative_path_is_refused_with_a_suggestion(files: Files, path: Path) -> None:
    hint = "The path should be an absolute path, starting with `/`."
    start = "ERROR:\nInvalid `path` parameter: "
    suggestion = f"{start}a.txt. {hint} Maybe you meant {path}?"
    assert (await files.view("a.txt")).content == suggestion
    assert (await files.edit("./a.txt", "view")).content == suggestion
    assert (await files.edit("none.txt", "create")).content == f"{start}none.txt. {hint}"
    assert (await files.edit("", "view")).content == f"{start}.. {hint} Maybe you meant {path.parent}?"


async def test_only_view_takes_directories_and_documents(files: Files, tmp_path: Path) -> None:
    pdf = tmp_path / "a.PDF"
    pdf.touch()
    assert (await files.edit(tmp_path, "insert")).content == (
        f"ERROR:\nInvalid `path` parameter: {tmp_path}. "
        f"The path {tmp_path} is a directory and only the `view` command can be used on directories."
    )
    for path, command in ((pdf, "str_replace"), (tmp_path / "new.PDF", "create")):
        assert (await files.edit(path, command)).content == (
            f"ERROR:\nInvalid `path` parameter: {path}. The path {path} points to a binary file (.PDF) "
            "and only the `view` command can be used on supported binary files."
        )


async def test_an_unknown_command_is_refused(files: Files, path: Path) -> None:
    for command in ("frob", ""):
        assert (await files.edit(path, command)).content == (
            f"ERROR:\nUnrecognized command {command}. "
            "The allowed commands for the oh_editor tool are: view, create, str_replace, insert, undo_edit"
        )


@pytest.mark.parametrize(
    ("command", "args", "parameter"),
    [
        ("str_replace", {"new_str": "x"}, "old_str"),
        ("insert", {"new_str": "x"}, "insert_line"),
        ("insert", {}, "insert_line"),
        ("insert", {"insert_line": 1}, "new_str"),
    ],
)
async def test_a_missing_parameter_is_named(
    files: Files, path: Path, command: str, args: dict[str, object], parameter: str
) -> None:
    assert (await files.edit(path, command, **args)).content == (
        f"ERROR:\nParameter `{parameter}` is required for command: {command}."
    )


async def test_a_mistake_is_told_in_an_edit_observation_that_echoes_the_strings(
    files: Files, path: Path
) -> None:
    observation = await files.edit(path, "str_replace", old_str="same", new_str="same")
    assert observation == FileEditObservation(
        content="ERROR:\nInvalid `new_str` parameter: same. "
        "No replacement was performed. `new_str` and `old_str` must be different.",
        path=str(path),
        prev_exist=False,
        old_content="same",
        new_content="same",
        impl_source="oh_aci",
        diff="",
        diff_cache=None,
    )


async def test_other_sources_of_edits_fail_without_words(files: Files, path: Path) -> None:
    for source in ("llm_based_edit", "x", None):
        with pytest.raises(ActionError, match=r"^$"):
            await files.edit(path, "view", impl_source=source)


# Create


async def test_a_file_is_created_as_given(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    assert await files.edit(path, "create", file_text="one\r\ntwo\n") == FileEditObservation(
        content=f"File created successfully at: {path}",
        path=str(path),
        diff=f"--- {path}\n+++ {path}\n@@ -0,0 +1,2 @@\n+one\n+two",
    )
    assert data_of(path) == b"one\r\ntwo\n"
    (tmp_path / "usual").touch()
    assert mode(path) == mode(tmp_path / "usual")


async def test_an_empty_file_is_created(files: Files, tmp_path: Path) -> None:
    observation = await files.edit(tmp_path / "e.txt", "create", file_text="")
    assert observation.diff == ""
    assert (tmp_path / "e.txt").read_bytes() == b""


async def test_the_diff_of_a_file_without_line_end_is_that_of_an_empty_line(
    files: Files, tmp_path: Path
) -> None:
    path = tmp_path / "nonl.txt"
    observation = await files.edit(path, "create", file_text="a\nb")
    assert observation.diff == f"--- {path}\n+++ {path}\n@@ -1 +1,2 @@\n-\n+a\n+b"


async def test_nothing_that_exists_is_created(files: Files, path: Path) -> None:
    for existing in (path, path.parent):
        assert (await files.edit(existing, "create", file_text="x")).content == (
            f"ERROR:\nInvalid `path` parameter: {existing}. "
            f"File already exists at: {existing}. Cannot overwrite files using command `create`."
        )
    assert text_of(path) == FIVE


async def test_a_file_that_cannot_be_created_is_explained(files: Files, path: Path) -> None:
    (path.parent / "loop").symlink_to("loop")
    for bad, reason in (
        (path.parent / "no/such/f.txt", "[Errno 2] No such file or directory: '{}'"),
        (path / "x", "[Errno 20] Not a directory: '{}'"),
        (path.parent / "loop", "[Errno 40] Too many levels of symbolic links: '{}'"),
        (path.parent / "a\0b", "embedded null byte"),
    ):
        told = f"ERROR:\nRan into {reason.format(bad)} while trying to write to {bad}"
        assert (await files.edit(bad, "create", file_text="x")).content == told


async def test_text_that_cannot_be_encoded_creates_nothing(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    assert (await files.edit(path, "create", file_text="\ud800")).content.startswith(
        "ERROR:\nRan into 'utf-8'"
    )
    assert (await files.edit(path, "create")).content == (
        "ERROR:\nParameter `file_text` is required for command: create."
    )
    assert os.listdir(tmp_path) == []


async def test_a_dangling_link_is_created_through(files: Files, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    await files.edit(tmp_path / "link", "create", file_text="x")
    assert (tmp_path / "target").read_text() == "x"
    assert (tmp_path / "link").is_symlink()


@AS_ROOT
async def test_a_created_file_belongs_to_the_sandbox_user(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)
    async with files_in(tmp_path, user_id=4321) as files:
        await files.edit(tmp_path / "c.txt", "create", file_text="x")
    assert (tmp_path / "c.txt").stat().st_uid == 4321


# str_replace


async def test_a_replacement_shows_the_lines_around_it(files: Files, path: Path) -> None:
    put(path, "".join(f"row {number}\n" for number in range(1, 21)))
    os.chmod(path, 0o754)
    assert await files.edit(path, "str_replace", old_str="row 10\n", new_str="new\nlines\n") == (
        FileEditObservation(
            content=f"The file {path} has been edited. "
            f"Here's the result of running `cat -n` on a snippet of {path}:\n"
            "     7\trow 7\n     8\trow 8\n     9\trow 9\n    10\tnew\n    11\tlines\n    12\trow 11\n"
            f"    13\trow 12\n    14\trow 13\n    15\trow 14\n    16\trow 15\n    17\t\n{REPLACED}",
            path=str(path),
            old_content="row 10\n",
            new_content="new\nlines\n",
            diff=f"--- {path}\n+++ {path}\n@@ -10 +10,2 @@\n-row 10\n+new\n+lines",
        )
    )
    assert text_of(path).splitlines()[9:11] == ["new", "lines"]
    assert mode(path) == 0o754


async def test_no_new_string_deletes(files: Files, path: Path) -> None:
    observation = await files.edit(path, "str_replace", old_str="line 2\n")
    assert text_of(path) == "line 1\nline 3\nline 4\nline 5\n"
    assert observation.new_content is None
    assert observation.diff == f"--- {path}\n+++ {path}\n@@ -2 +1,0 @@\n-line 2"


async def test_an_ambiguous_replacement_changes_nothing(files: Files, path: Path) -> None:
    assert (await files.edit(path, "str_replace", old_str="line", new_str="x")).content == (
        "ERROR:\nNo replacement was performed. "
        "Multiple occurrences of old_str `line` in lines [1, 2, 3, 4, 5]. Please ensure it is unique."
    )
    assert text_of(path) == FIVE


async def test_the_last_line_may_lack_its_end(files: Files, path: Path) -> None:
    put(path, "x\ny")
    observation = await files.edit(path, "str_replace", old_str="y", new_str="z")
    assert f":\n     1\tx\n     2\tz\n{REPLACED}" in observation.content
    assert text_of(path) == "x\nz"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "b", "B", b"a\r\nB\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "c", "d\ne", b"a\r\nb\nd\r\ne\r\n"),
        (b"a\rb\rc", "b", "x\ny", b"a\rx\ry\rc"),
        (b"a\nb\n", "b", "x\r\ny", b"a\nx\r\ny\n"),
    ],
)
async def test_line_ends_are_kept(
    files: Files, path: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    put(path, before)
    await files.edit(path, "str_replace", old_str=old, new_str=new)
    assert data_of(path) == after


async def test_the_encoding_is_kept(files: Files, path: Path) -> None:
    put(path, "日本語のテキストです。これは古いテストです。\n".encode("shift_jis"))
    observation = await files.edit(path, "str_replace", old_str="古い", new_str="新しい")
    assert "これは新しいテストです" in observation.content
    assert data_of(path) == "日本語のテキストです。これは新しいテストです。\n".encode("shift_jis")


async def test_a_guessed_encoding_stays_when_little_is_left_to_guess_from(files: Files, path: Path) -> None:
    put(path, "日本語のテキストです。これはテストです。\n残り\n".encode("shift_jis"))
    await files.edit(path, "str_replace", old_str="日本語のテキストです。これはテストです。", new_str="x")
    assert (await files.view(path)).content.endswith(":\n     1\tx\n     2\t残り\n     3\t\n")
    await files.edit(path, "str_replace", old_str="残り", new_str="残り残り")
    assert data_of(path) == "x\n残り残り\n".encode("shift_jis")


async def test_a_byte_order_mark_is_kept_and_not_shown(files: Files, path: Path) -> None:
    put(path, b"\xef\xbb\xbfbom line\n")
    observation = await files.edit(path, "str_replace", old_str="bom", new_str="BOM")
    assert f":\n     1\tBOM line\n     2\t\n{REPLACED}" in observation.content
    assert data_of(path) == b"\xef\xbb\xbfBOM line\n"


async def test_a_character_the_encoding_lacks_leaves_the_file_alone(files: Files, path: Path) -> None:
    data = "日本語のテキストです。これはテストです。\n".encode("shift_jis")
    put(path, data)
    for observation in (
        await files.edit(path, "str_replace", old_str="テスト", new_str="🎉"),
        await files.edit(path, "insert", insert_line=0, new_str="🎉"),
    ):
        assert observation.content.startswith("ERROR:\nRan into ")
        assert observation.content.endswith(f" while trying to write to {path}")
    assert data_of(path) == data


async def test_an_edit_through_a_link_changes_its_target(files: Files, path: Path) -> None:
    (path.parent / "link").symlink_to("a.txt")
    await files.edit(path.parent / "link", "str_replace", old_str="line 1", new_str="LINE 1")
    assert text_of(path).startswith("LINE 1\n")
    assert (path.parent / "link").is_symlink()
    assert leftovers(path.parent) == []


# insert


async def test_lines_are_inserted_after_a_line(files: Files, path: Path) -> None:
    os.chmod(path, 0o640)
    observation = await files.edit(path, "insert", insert_line="1", new_str="mid a\nmid b")
    assert observation == FileEditObservation(
        content=f"The file {path} has been edited. "
        "Here's the result of running `cat -n` on a snippet of the edited file:\n"
        "     1\tline 1\n     2\tmid a\n     3\tmid b\n     4\tline 2\n     5\tline 3\n     6\tline 4\n"
        f"     7\tline 5\n     8\t\n{INSERTED}",
        path=str(path),
        new_content="mid a\nmid b",
        diff=f"--- {path}\n+++ {path}\n@@ -1,0 +2,2 @@\n+mid a\n+mid b",
    )
    assert text_of(path) == "line 1\nmid a\nmid b\nline 2\nline 3\nline 4\nline 5\n"
    assert mode(path) == 0o640


async def test_a_line_is_inserted_at_both_ends(files: Files, path: Path) -> None:
    await files.edit(path, "insert", insert_line=0, new_str="first")
    await files.edit(path, "insert", insert_line=6, new_str="last\n")
    assert text_of(path) == f"first\n{FIVE}last\n\n"


async def test_a_last_line_without_end_is_continued(files: Files, path: Path) -> None:
    put(path, "x\ny")
    observation = await files.edit(path, "insert", insert_line=2, new_str="z")
    assert text_of(path) == "x\nyz\n"
    assert observation.diff == f"--- {path}\n+++ {path}\n@@ -2 +2,2 @@\n-y\n+yz\n+"


async def test_inserted_lines_get_the_ends_of_the_file(files: Files, path: Path) -> None:
    put(path, b"a\r\nb\r\n")
    await files.edit(path, "insert", insert_line=1, new_str="x\ny")
    assert data_of(path) == b"a\r\nx\r\ny\r\nb\r\n"


async def test_a_line_number_that_is_none_is_refused(files: Files, path: Path) -> None:
    assert (await files.edit(path, "insert", insert_line="two", new_str="x")).content == (
        "ERROR:\nInvalid insert_line value: 'two'. Expected an integer."
    )
    assert (await files.edit(path, "insert", insert_line=6, new_str="x")).content == (
        "ERROR:\nInvalid `insert_line` parameter: 6. It should be within the range of allowed values: [0, 5]"
    )


# undo_edit


async def test_undoing_shows_the_file_as_it_was(files: Files, path: Path) -> None:
    await files.edit(path, "str_replace", old_str="line 5\n", new_str="")
    assert await files.edit(path, "undo_edit") == FileEditObservation(
        content=f"Last edit to {path} undone successfully. Here's the result of running `cat -n` on {path}:\n"
        "     1\tline 1\n     2\tline 2\n     3\tline 3\n     4\tline 4\n     5\tline 5\n     6\t\n",
        path=str(path),
        diff=f"--- {path}\n+++ {path}\n@@ -4,0 +5 @@\n+line 5",
    )
    assert text_of(path) == FIVE
    assert (await files.edit(path, "undo_edit")).content == f"ERROR:\nNo edit history found for {path}."


async def test_ten_edits_can_be_undone(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    await files.edit(path, "create", file_text="n0\n")
    for number in range(12):
        await files.edit(path, "str_replace", old_str=f"n{number}", new_str=f"n{number + 1}")
    for number in range(11, 1, -1):
        await files.edit(path, "undo_edit")
        assert text_of(path) == f"n{number}\n"
    assert (await files.edit(path, "undo_edit")).content == f"ERROR:\nNo edit history found for {path}."


async def test_undoing_a_creation_keeps_the_text(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    await files.edit(path, "create", file_text="one\n")
    observation = await files.edit(path, "undo_edit")
    assert "undone successfully" in observation.content
    assert observation.diff == ""
    assert text_of(path) == "one\n"


async def test_undoing_overwrites_what_others_have_written_since(files: Files, path: Path) -> None:
    await files.edit(path, "insert", insert_line=0, new_str="x")
    await files.write(path, "something else")
    await files.edit(path, "undo_edit")
    assert text_of(path) == FIVE


TEXT = st.lists(st.sampled_from(["a", "b", "é", "日", "\n", "\r\n", "\r"]), max_size=20).map("".join)


@settings(deadline=None)
@given(TEXT, st.text("xyz\n", max_size=5), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.data())
def test_an_edit_and_its_undoing_leave_every_byte(
    raw: str, new: str, codec: str, data: st.DataObject
) -> None:
    editor = Editor(LocalFiles())
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "f"
        before = raw.encode(codec)
        path.write_bytes(before)
        at = data.draw(st.integers(0, 5))
        try:
            insert = EditorCommand(command="insert", path=str(path), insert_line=at, new_str=new)
            complete(editor.run, insert)
        except EditorError:
            assert path.read_bytes() == before
        else:
            assert path.read_bytes() != before
            complete(editor.run, EditorCommand(command="undo_edit", path=str(path)))
        assert path.read_bytes() == before
    complete(editor.close)


# Several at once


async def test_many_edits_of_one_file_at_once_lose_nothing(files: Files, path: Path) -> None:
    put(path, "".join(f"<{number}>\n" for number in range(60)))
    (path.parent / "link").symlink_to("a.txt")
    names = [str(path), f"{path.parent}/link", f"{path.parent}/./a.txt"]
    await asyncio.gather(
        *(
            files.edit(names[number % 3], "str_replace", old_str=f"<{number}>", new_str=f"[{number}]")
            for number in range(60)
        )
    )
    assert text_of(path) == "".join(f"[{number}]\n" for number in range(60))


async def test_writes_and_edits_of_one_file_at_once_lose_nothing(files: Files, path: Path) -> None:
    put(path, "top\n")
    await asyncio.gather(
        *(
            files.write(path, f"line {number}", start=1, end=1)
            if number % 2
            else files.edit(path, "insert", insert_line=1, new_str=f"line {number}")
            for number in range(80)
        )
    )
    first, *others = text_of(path).splitlines()
    assert first == "top"
    assert sorted(others) == sorted(f"line {number}" for number in range(80))


async def test_of_many_creations_at_once_one_succeeds(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    answers = await asyncio.gather(
        *(files.edit(path, "create", file_text=f"{number}") for number in range(20))
    )
    created = [number for number, answer in enumerate(answers) if answer.content.startswith("File created")]
    assert len(created) == 1
    assert text_of(path) == str(created[0])
    assert sum("File already exists" in answer.content for answer in answers) == 19
