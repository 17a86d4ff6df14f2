"""What file actions owe to commands that were accepted before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.box.files.disk.local_files import PathLocks
from glovebox.protocol.observations import ErrorObservation, FileReadObservation
from tests.box.files.editing import Files, files_in

LIMIT = 10


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    async with files_in(tmp_path) as files:
        files.shell.finish.clear()  # a command is running
        yield files


async def test_a_missing_file_is_looked_for_again_when_the_commands_are_done(
    files: Files, tmp_path: Path
) -> None:
    path = tmp_path / "late.txt"
    reading = asyncio.create_task(files.read(path))
    viewing = asyncio.create_task(files.view(path))
    editing = asyncio.create_task(files.edit(path, "view"))
    await asyncio.wait_for(files.shell.asked.wait(), LIMIT)
    assert not reading.done()
    path.write_text("there\n")
    files.shell.finish.set()
    assert (await asyncio.wait_for(reading, LIMIT)).content == "there\n"
    assert "\tthere\n" in (await asyncio.wait_for(viewing, LIMIT)).content
    assert "\tthere\n" in (await asyncio.wait_for(editing, LIMIT)).content


async def test_a_relative_path_follows_the_shell_to_where_it_has_gone(files: Files, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.txt").write_text("moved\n")
    reading = asyncio.create_task(files.read("a.txt"))
    missing = asyncio.create_task(files.read("b.txt"))
    await asyncio.wait_for(files.shell.asked.wait(), LIMIT)
    files.shell.cwd = f"{tmp_path}/sub"
    files.shell.finish.set()
    assert await asyncio.wait_for(reading, LIMIT) == FileReadObservation(
        content="moved\n", path=f"{tmp_path}/sub/a.txt"
    )
    assert await asyncio.wait_for(missing, LIMIT) == ErrorObservation(
        content=f"File not found: {tmp_path}/sub/b.txt. Your current working directory is {tmp_path}/sub."
    )


async def test_nothing_else_waits_for_commands(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")

    async def work() -> None:
        await files.read(path)
        await files.read(tmp_path)
        await files.view(path)
        await files.view("relative.txt")
        await files.write(tmp_path / "new.txt", "x")
        await files.edit(path, "insert", insert_line=0, new_str="x")
        await files.edit(tmp_path / "made.txt", "create", file_text="x")
        await files.read(tmp_path / "missing.pyc")

    await asyncio.wait_for(work(), LIMIT)
    assert not files.shell.asked.is_set()


def test_the_table_of_locks_holds_only_paths_in_use() -> None:
    locks = PathLocks()
    with locks.hold("/a"):
        with locks.hold("/b"):
            assert len(locks) == 2
        assert len(locks) == 1
    assert len(locks) == 0
