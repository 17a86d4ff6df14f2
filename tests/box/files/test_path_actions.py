from __future__ import annotations

import asyncio
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from blockbuster import blockbuster_ctx

from glovebox.box.files.paths import moving
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.files import DeleteAction, MkdirAction, MoveAction, StatAction
from tests.box.files.acting import Acting, needs_permissions, plant, plant_bytes_name


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


def tree(directory: Path) -> dict[str, str]:
    """Every path below a directory with what it is: content, link target, or a slash."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = "/" if path.is_dir() else path.read_text()
    return found


# -- stat


async def test_stat_tells_what_a_file_is(acting: Acting) -> None:
    plant(acting.directory, {"a.txt": "hello"})
    path = acting.directory / "a.txt"
    path.chmod(0o640)
    os.utime(path, (0, 1_700_000_000.5))
    found = await acting.do(StatAction(path="a.txt"))
    assert (found.path, found.type, found.size, found.mode) == (str(path), "file", 5, "0640")
    assert (found.uid, found.gid, found.modified) == (path.stat().st_uid, path.stat().st_gid, 1_700_000_000.5)
    assert (found.owner, found.group, found.target) == (path.owner(), path.group(), None)
    assert found.content == (
        f"{path}: file, 5 bytes, mode 0640, owner {path.owner()}:{path.group()}, "
        "modified 2023-11-14 22:13:20 UTC"
    )


async def test_stat_tells_every_type_apart(acting: Acting, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir(mode=0o700)
    (tmp_path / "directory").chmod(0o1777)
    os.mkfifo(tmp_path / "fifo")
    # A socket's path has to be short.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{short}/s")
        assert (await acting.do(StatAction(path=f"{short}/s"))).type == "socket"
    directory = await acting.do(StatAction(path="directory"))
    assert (directory.type, directory.mode) == ("directory", "1777")
    assert (await acting.do(StatAction(path="fifo"))).type == "fifo"
    assert (await acting.do(StatAction(path="/dev/null"))).type == "character_device"
    assert (await acting.do(StatAction(path="/"))).type == "directory"


async def test_stat_follows_a_link_unless_told_not_to(acting: Acting, tmp_path: Path) -> None:
    plant(tmp_path, {"a": "hello"})
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    followed = await acting.do(StatAction(path="link"))
    assert (followed.type, followed.size, followed.target) == ("file", 5, None)
    itself = await acting.do(StatAction(path="link", follow_symlinks=False))
    assert (itself.type, itself.target) == ("symlink", "a")
    assert "symlink to a" in itself.content
    broken = await acting.refused(StatAction(path="broken"))
    assert broken.error_id == "not_found"
    assert "link to nowhere" in broken.content
    assert (await acting.do(StatAction(path="broken", follow_symlinks=False))).target == "nowhere"
    assert (await acting.refused(StatAction(path="loop"))).error_id == "symlink_loop"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_stat_does_without_names_for_ids_that_have_none(acting: Acting) -> None:
    plant(acting.directory, {"a": ""})
    os.chown(acting.directory / "a", 54321, 54322)
    found = await acting.do(StatAction(path="a"))
    assert (found.uid, found.gid, found.owner, found.group) == (54321, 54322, None, None)
    assert "owner 54321:54322" in found.content


async def test_names_that_are_not_utf8_can_be_sent(acting: Acting) -> None:
    plant_bytes_name(acting.directory, b"bad\xff")
    found = await acting.do(StatAction(path=os.fsdecode(b"bad\xff")))
    assert found.path.endswith("bad\N{REPLACEMENT CHARACTER}")
    assert msgspec.json.decode(msgspec.json.encode(found), type=dict)["size"] == 0


# -- mkdir


async def test_mkdir_makes_a_directory_with_its_parents(acting: Acting) -> None:
    made = await acting.do(MkdirAction(path="a/b/c"))
    assert (made.path, made.created) == (str(acting.directory / "a/b/c"), True)
    assert tree(acting.directory) == {"a": "/", "a/b": "/", "a/b/c": "/"}
    again = await acting.do(MkdirAction(path="a/b/c/"))
    assert (again.path, again.created) == (str(acting.directory / "a/b/c"), False)
    assert (await acting.do(MkdirAction(path="/"))).created is False


async def test_mkdir_accepts_a_link_to_a_directory_and_nothing_else(acting: Acting) -> None:
    plant(acting.directory, {"real/a": "", "file": ""})
    (acting.directory / "link").symlink_to("real")
    (acting.directory / "broken").symlink_to("nowhere")
    assert (await acting.do(MkdirAction(path="link"))).created is False
    assert (await acting.do(MkdirAction(path="link/new"))).created is True
    assert (await acting.refused(MkdirAction(path="file"))).error_id == "already_exists"
    assert (await acting.refused(MkdirAction(path="broken"))).error_id == "already_exists"
    assert (await acting.refused(MkdirAction(path="broken/new"))).error_id == "already_exists"
    assert (await acting.refused(MkdirAction(path="file/new"))).error_id == "not_a_directory"


async def test_mkdir_without_parents_needs_them(acting: Acting) -> None:
    refused = await acting.refused(MkdirAction(path="a/b", parents=False))
    assert refused.error_id == "not_found"
    assert str(acting.directory / "a") in refused.content
    assert (await acting.do(MkdirAction(path="a", parents=False))).created is True


async def test_of_many_that_make_the_same_directory_one_has_made_it(acting: Acting) -> None:
    made = await asyncio.gather(*(acting.do(MkdirAction(path="a/b/c/d")) for _ in range(20)))
    assert sum(answer.created for answer in made) == 1


# -- delete


async def test_delete_removes_a_file_a_link_or_an_empty_directory(acting: Acting) -> None:
    plant(acting.directory, {"file": "x", "kept/a": "x"})
    (acting.directory / "empty").mkdir()
    (acting.directory / "link").symlink_to("kept")
    (acting.directory / "broken").symlink_to("nowhere")
    os.mkfifo(acting.directory / "pipe")
    for name in ("file", "empty", "link/", "broken", "pipe"):
        deleted = await acting.do(DeleteAction(path=name))
        assert deleted.removed == 1
        assert deleted.path == str(acting.directory / name.rstrip("/"))
    assert tree(acting.directory) == {"kept": "/", "kept/a": "x"}


async def test_delete_removes_a_tree_only_when_told_to_and_counts_it(acting: Acting) -> None:
    plant(acting.directory, {"d/a": "", "d/sub/b": "", "d/sub/c": "", "outside/x": "kept"})
    (acting.directory / "d/sub/link").symlink_to("../../outside")
    assert (await acting.refused(DeleteAction(path="d"))).error_id == "not_empty"
    deleted = await acting.do(DeleteAction(path="d", recursive=True))
    assert deleted.removed == 6
    assert "5 entries" in deleted.content
    assert tree(acting.directory) == {"outside": "/", "outside/x": "kept"}


async def test_delete_of_what_is_missing_is_refused_unless_that_is_fine(acting: Acting) -> None:
    assert (await acting.refused(DeleteAction(path="a"))).error_id == "not_found"
    assert acting.shell.asked == 1
    assert (await acting.do(DeleteAction(path="a", missing_ok=True))).removed == 0
    assert acting.shell.asked == 2


async def test_delete_waits_for_a_command_that_may_still_make_it(acting: Acting) -> None:
    async def finish() -> None:
        plant(acting.directory, {"late": ""})

    acting.shell.when_asked = finish
    assert (await acting.do(DeleteAction(path="late", missing_ok=True))).removed == 1


async def test_delete_refuses_the_root_and_where_the_shell_is(acting: Acting) -> None:
    plant(acting.directory, {"here/now/a": "", "kept/a": ""})
    (acting.directory / "link").symlink_to("here")
    acting.shell.cwd = str(acting.directory / "link/now")
    for path in ("/", ".", "..", str(acting.directory / "here"), str(acting.directory)):
        refused = await acting.refused(DeleteAction(path=path, recursive=True))
        assert refused.error_id == "protected_path", path
    assert (acting.directory / "here/now/a").exists()
    await acting.do(DeleteAction(path="../../kept", recursive=True))


async def test_delete_goes_deep(acting: Acting) -> None:
    deep = acting.directory / "/".join(["d"] * 400)
    deep.mkdir(parents=True)
    assert (await acting.do(DeleteAction(path="d", recursive=True))).removed == 400


@needs_permissions
async def test_delete_tells_what_it_could_not_remove(acting: Acting) -> None:
    plant(acting.directory, {"d/closed/a": "", "d/b": ""})
    (acting.directory / "d/closed").chmod(0o500)
    try:
        refused = await acting.refused(DeleteAction(path="d", recursive=True))
    finally:
        (acting.directory / "d/closed").chmod(0o700)
    assert refused.error_id == "permission_denied"
    assert str(acting.directory / "d/closed/a") in refused.content


# -- move


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
    monkeypatch.setattr(moving, "_renameat2", lambda: None)
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


# -- all of them


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
@pytest.mark.parametrize(
    "action",
    [
        lambda path: StatAction(path=path),
        lambda path: MkdirAction(path=path),
        lambda path: DeleteAction(path=path, recursive=True, missing_ok=True),
        lambda path: MoveAction(source=path, destination="b"),
        lambda path: MoveAction(source="file", destination=path),
    ],
)
async def test_what_is_no_path_is_refused(acting: Acting, action: object, path: str) -> None:
    plant(acting.directory, {"file": ""})
    assert callable(action)
    assert (await acting.refused(action(path))).error_id == "invalid_argument"


@pytest.mark.parametrize(
    "action",
    [
        StatAction(path="x" * 300),
        MkdirAction(path="x" * 300),
        DeleteAction(path="x" * 300),
        MoveAction(source="file", destination="x" * 300),
    ],
)
async def test_a_name_that_is_too_long_is_told(acting: Acting, action: Action[Observation]) -> None:
    plant(acting.directory, {"file": ""})
    assert (await acting.refused(action)).error_id == "name_too_long"


@needs_permissions
@pytest.mark.parametrize(
    "action",
    [
        StatAction(path="closed/a"),
        MkdirAction(path="closed/b"),
        DeleteAction(path="closed/a"),
        MoveAction(source="closed/a", destination="b"),
        MoveAction(source="file", destination="closed/b"),
        MoveAction(source="file", destination="closed/sub/b"),
    ],
)
async def test_what_is_forbidden_is_told(acting: Acting, action: Action[Observation]) -> None:
    plant(acting.directory, {"closed/a": "", "file": ""})
    (acting.directory / "closed").chmod(0)
    try:
        assert (await acting.refused(action)).error_id == "permission_denied"
    finally:
        (acting.directory / "closed").chmod(0o700)


async def test_relative_paths_start_where_the_shell_is_after_it_settled(acting: Acting) -> None:
    async def change_directory() -> None:
        plant(acting.directory, {"sub/a": "x"})
        acting.shell.cwd = str(acting.directory / "sub")

    acting.shell.when_asked = change_directory
    assert (await acting.do(StatAction(path="a"))).path == str(acting.directory / "sub/a")


async def test_waiting_for_the_shell_ends_with_the_time_given(acting: Acting) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    acting.shell.when_asked = never
    async with asyncio.timeout(20):
        assert (await acting.refused(StatAction(path="missing", timeout=0.1))).error_id == "not_found"


async def test_nothing_blocks_the_event_loop(acting: Acting) -> None:
    plant(acting.directory, {"a": ""})
    with blockbuster_ctx("glovebox"):
        await acting.do(StatAction(path="a"))
        await acting.do(MkdirAction(path="b/c"))
        await acting.do(MoveAction(source="a", destination="b/c"))
        await acting.do(DeleteAction(path="b", recursive=True))
    assert tree(acting.directory) == {}
