from __future__ import annotations

import asyncio
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.box.files.disk import paths
from glovebox.protocol.files import MoveAction
from tests.box.files.acting import Acting, plant, tree


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    acting = Acting(tmp_path)
    yield acting
    acting.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    with tempfile.TemporaryDirectory(dir=shared) as directory:
        yield Path(directory)


async def test_move_renames_a_file_or_a_directory(acting: Acting) -> None:
    plant(acting.directory, {"a": "1", "d/b": "2"})
    moved = await acting.do(MoveAction(source="a", destination="new"))
    assert (moved.source, moved.destination) == (str(acting.directory / "a"), str(acting.directory / "new"))
    await acting.do(MoveAction(source="d", destination="e/"))
    assert tree(acting.directory) == {"new": "1", "e": "/", "e/b": "2"}


async def test_a_destination_directory_receives_it_under_its_own_name(acting: Acting) -> None:
    plant(acting.directory, {"a": "1", "d/b": "2", "to/x": ""})
    (acting.directory / "link").symlink_to("to")
    moved = await acting.do(MoveAction(source="a", destination="to"))
    assert moved.destination == str(acting.directory / "to/a")
    await acting.do(MoveAction(source="d/", destination="link/"))
    assert tree(acting.directory) == {
        "link": "-> to",
        "to": "/",
        "to/a": "1",
        "to/d": "/",
        "to/d/b": "2",
        "to/x": "",
    }


async def test_move_replaces_nothing_unless_told_to(acting: Acting) -> None:
    plant(acting.directory, {"a": "new", "b": "old", "to/a": "old"})
    for destination in ("b", "to", "to/a"):
        refused = await acting.refused(MoveAction(source="a", destination=destination))
        assert refused.error_id == "already_exists"
        assert "overwrite" in refused.content
    (acting.directory / "broken").symlink_to("nowhere")
    assert (await acting.refused(MoveAction(source="a", destination="broken"))).error_id == "already_exists"
    await acting.do(MoveAction(source="a", destination="b", overwrite=True))
    await acting.do(MoveAction(source="b", destination="to/a", overwrite=True))
    assert tree(acting.directory) == {"broken": "-> nowhere", "to": "/", "to/a": "new"}


async def test_move_replaces_like_by_like_only(acting: Acting) -> None:
    plant(
        acting.directory,
        {"file": "", "d/file/x": "", "full/d/x": "", "d/x": "", "into/d": "", "ok/d.txt": ""},
    )
    (acting.directory / "ok/d").mkdir()

    async def error(source: str, destination: str) -> str:
        action = MoveAction(source=source, destination=destination, overwrite=True)
        return (await acting.refused(action)).error_id

    assert await error("file", "d") == "is_a_directory"
    assert await error("d", "full") == "not_empty"
    assert await error("d", "into") == "not_a_directory"
    await acting.do(MoveAction(source="d", destination="ok", overwrite=True))
    assert (acting.directory / "ok/d/x").exists()


async def test_a_link_is_moved_itself(acting: Acting) -> None:
    plant(acting.directory, {"real/a": "1"})
    (acting.directory / "link").symlink_to("real")
    await acting.do(MoveAction(source="link", destination="other"))
    assert tree(acting.directory) == {"real": "/", "real/a": "1", "other": "-> real"}


async def test_moves_that_make_no_sense_are_refused(acting: Acting) -> None:
    plant(acting.directory, {"d/sub/a": "", "f": ""})
    (acting.directory / "link").symlink_to("d")

    async def error(source: str, destination: str) -> str:
        return (await acting.refused(MoveAction(source=source, destination=destination))).error_id

    assert await error("d", "d") == "invalid_argument"
    assert await error("d", "d/sub") == "invalid_argument"
    assert await error("d", "link/new") == "invalid_argument"
    assert await error("f", "f") == "invalid_argument"
    assert await error("d/sub/a", "link/sub/a") == "invalid_argument"
    assert await error("/", "f2") == "protected_path"
    assert await error("missing", "x") == "not_found"
    assert await error("f", "no/where") == "not_found"
    assert await error("f", "nowhere/") == "not_found"
    assert await error("f", "f/x") == "not_a_directory"
    assert tree(acting.directory) == {"d": "/", "d/sub": "/", "d/sub/a": "", "f": "", "link": "-> d"}


async def test_of_two_names_of_one_file_a_move_leaves_one(acting: Acting) -> None:
    plant(acting.directory, {"a": "1"})
    os.link(acting.directory / "a", acting.directory / "b")
    await acting.do(MoveAction(source="a", destination="b", overwrite=True))
    assert tree(acting.directory) == {"b": "1"}


async def test_of_many_that_move_to_the_same_place_one_succeeds(acting: Acting) -> None:
    plant(acting.directory, {f"source{index}": str(index) for index in range(20)})
    actions = [MoveAction(source=f"source{index}", destination="place") for index in range(20)]
    answers = await asyncio.gather(*(acting.answer(action) for action in actions))
    assert sorted(answer.observation for answer in answers) == ["error"] * 19 + ["move"]
    assert len(tree(acting.directory)) == 20


async def test_without_the_system_call_nothing_is_replaced_either(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "renameat2", lambda: None)
    plant(acting.directory, {"a": "1", "b": "2", "d/x": "", "e": ""})
    assert (await acting.refused(MoveAction(source="a", destination="b"))).error_id == "already_exists"
    await acting.do(MoveAction(source="a", destination="c"))
    await acting.do(MoveAction(source="d", destination="f"))
    assert tree(acting.directory) == {"b": "2", "c": "1", "e": "", "f": "/", "f/x": ""}


async def test_a_move_between_file_systems_brings_everything(acting: Acting, elsewhere: Path) -> None:
    plant(acting.directory, {"d/a": "1", "d/sub/b": "2"})
    (acting.directory / "d/link").symlink_to("a")
    (acting.directory / "d/a").chmod(0o751)
    os.utime(acting.directory / "d/sub", (1, 2))
    os.mkfifo(acting.directory / "d/pipe")
    moved = await acting.do(MoveAction(source="d", destination=str(elsewhere)))
    assert moved.destination == str(elsewhere / "d")
    assert (elsewhere / "d/pipe").is_fifo()
    os.unlink(elsewhere / "d/pipe")
    assert tree(elsewhere) == {"d": "/", "d/a": "1", "d/link": "-> a", "d/sub": "/", "d/sub/b": "2"}
    assert stat.S_IMODE((elsewhere / "d/a").stat().st_mode) == 0o751
    assert (elsewhere / "d/sub").stat().st_mtime == 2
    assert tree(acting.directory) == {}


async def test_a_move_between_file_systems_replaces_nothing_unless_told_to(
    acting: Acting, elsewhere: Path
) -> None:
    plant(acting.directory, {"a": "new"})
    plant(elsewhere, {"a": "old"})
    assert (
        await acting.refused(MoveAction(source="a", destination=str(elsewhere)))
    ).error_id == "already_exists"
    assert tree(elsewhere) == {"a": "old"}
    await acting.do(MoveAction(source="a", destination=str(elsewhere), overwrite=True))
    assert tree(elsewhere) == {"a": "new"}
    assert tree(acting.directory) == {}


async def test_a_move_between_file_systems_that_fails_leaves_nothing(acting: Acting, elsewhere: Path) -> None:
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as listener:
        plant(Path(short), {"d/a": "1"})
        listener.bind(f"{short}/d/s")
        refused = await acting.refused(MoveAction(source=f"{short}/d", destination=str(elsewhere)))
        assert refused.error_id == "not_a_file"
        assert sorted(os.listdir(f"{short}/d")) == ["a", "s"]
    assert tree(elsewhere) == {}
