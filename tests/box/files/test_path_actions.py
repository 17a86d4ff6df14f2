from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from blockbuster import blockbuster_ctx

from glovebox.protocol.base import Action, Observation
from glovebox.protocol.files import DeleteAction, MkdirAction, MoveAction, StatAction
from tests.box.files.acting import Acting, needs_permissions, plant, plant_bytes_name, tree


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    acting = Acting(tmp_path)
    yield acting
    acting.close()


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
