"""The files of a `Box`."""

from __future__ import annotations

import io
import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox import AsyncBox, Box
from glovebox.errors import FileError, NoSuchFile
from tests.client.support import Cut, OneBox, cutter
from tests.support.running import RunningBox

BYTES = bytes(range(256)) * 4


@pytest.fixture
def used(shared_box: RunningBox) -> Iterator[Box]:
    with Box(backend=OneBox(shared_box.url, workspace=str(shared_box.workspace))) as made:
        yield made


@pytest.fixture
def place(used: Box, request: pytest.FixtureRequest) -> str:
    """A directory below the workspace, for one test."""
    name = f"files-{abs(hash(request.node.name))}"
    used.files.mkdir(name)
    return name


def test_files_are_written_and_read_as_bytes_and_text(used: Box, place: str) -> None:
    info = used.files.write(f"{place}/new/a.bin", BYTES, mode=0o600)
    assert (info.kind, info.size, info.mode, info.name) == ("file", len(BYTES), 0o600, "a.bin")
    assert used.files.read(f"{place}/new/a.bin") == BYTES
    used.files.write(f"{place}/a.txt", "äöü\r\n")
    assert used.files.read_text(f"{place}/a.txt") == "äöü\r\n"
    used.files.write(f"{place}/b.bin", io.BytesIO(BYTES * 5000))
    assert b"".join(used.files.stream(f"{place}/b.bin")) == BYTES * 5000
    assert b"".join(used.files.stream(f"{place}/b.bin", len(BYTES) * 4999)) == BYTES


def test_what_is_missing_is_an_error_of_python_too(used: Box, place: str) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        used.files.read(f"{place}/none")
    assert isinstance(missing.value, NoSuchFile)
    with pytest.raises(FileNotFoundError):
        used.files.stat(f"{place}/none")
    with pytest.raises(FileNotFoundError):
        used.files.download(f"{place}/none")
    with pytest.raises(FileNotFoundError):
        used.files.upload("/no/such/file", place)
    with pytest.raises(FileNotFoundError):
        used.files.write(f"{place}/no/parent", "x", parents=False)
    with pytest.raises(IsADirectoryError):
        used.files.read(place)
    with pytest.raises(FileError):
        used.files.glob("*", "/no/such/directory")


def test_directories_are_listed_changed_and_removed(used: Box, place: str) -> None:
    files = used.files
    files.mkdir(f"{place}/sub/deep")
    files.write(f"{place}/sub/deep/x.py", "print(1)\n")
    files.write(f"{place}/y.py", "y = 1\n")
    assert sorted(entry.name for entry in files.list(place)) == ["sub", "y.py"]
    assert {entry.name for entry in files.list(place, depth=3)} == {"sub", "deep", "x.py", "y.py"}
    files.rename(f"{place}/y.py", f"{place}/z.py")
    assert (files.exists(f"{place}/y.py"), files.exists(f"{place}/z.py")) == (False, True)
    with pytest.raises(FileExistsError):
        files.rename(f"{place}/z.py", f"{place}/sub/deep/x.py")
    files.chmod(f"{place}/z.py", 0o755)
    assert files.stat(f"{place}/z.py").mode == 0o755
    root = files.stat(place).path
    for base in (place, root, f"./{place}/", f"{place}/sub/.."):
        shown = posixpath.normpath(base)
        assert set(files.glob("**/*.py", base)) == {f"{shown}/z.py", f"{shown}/sub/deep/x.py"}
        [match] = files.grep("print", base)
        assert (match.path, match.line) == (f"{shown}/sub/deep/x.py", 1)
    assert files.glob(f"{place}/sub/**/*.py") == [f"{place}/sub/deep/x.py"]
    assert files.read_text(files.glob(f"{place}/sub/**/*.py")[0]) == "print(1)\n"
    [match] = files.grep("print", f"{place}/sub/deep/x.py")
    assert match.path == f"{place}/sub/deep/x.py"
    with pytest.raises(FileError):
        files.remove(f"{place}/sub")
    files.remove(f"{place}/sub", recursive=True)
    files.remove(f"{place}/sub", missing_ok=True)
    assert [entry.name for entry in files.list(place)] == ["z.py"]


def test_files_and_folders_go_in_and_come_out(used: Box, place: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "sub" / "data.bin").write_bytes(BYTES * 1000)
    (project / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (project / "run.sh").chmod(0o755)
    reports: list[tuple[int, int | None]] = []
    path = used.files.upload(project, place, progress=lambda done, total: reports.append((done, total)))
    assert path.endswith(f"{place}/project")
    assert reports[-1][0] == reports[-1][1]
    assert used.exec([f"{path}/run.sh"]).stdout == "ran\n"
    script = used.files.upload(project / "run.sh", place)
    assert used.exec([script]).stdout == "ran\n"
    back = used.files.download(path, tmp_path / "back")
    assert back == tmp_path / "back" / "project"
    assert (back / "sub" / "data.bin").read_bytes() == BYTES * 1000
    one = used.files.download(f"{path}/sub/data.bin", tmp_path)
    assert one == tmp_path / "data.bin"
    assert one.read_bytes() == BYTES * 1000
    assert sorted(os.listdir(tmp_path)) == ["back", "data.bin", "project"]


def test_changes_are_watched(used: Box, place: str) -> None:
    with used.files.watch(place) as changes:
        used.files.write(f"{place}/seen.txt", "x")
        change = next(change for change in changes if change.path.endswith("/seen.txt"))
        assert change.change in ("created", "modified", "moved")
    with pytest.raises(StopIteration):
        next(changes)


async def test_a_broken_connection_is_no_end_of_a_file(shared_box: RunningBox) -> None:
    (shared_box.workspace / "broken.bin").write_bytes(BYTES * 4000)
    cut = Cut(from_box=1_000_000)
    async with cutter(shared_box.url) as proxy, AsyncBox(backend=OneBox(proxy.url)) as box:
        await box.open()
        proxy.cuts.append(cut)
        proxy.cut()
        assert b"".join([piece async for piece in box.files.stream("broken.bin")]) == BYTES * 4000
        assert proxy.connections >= 3
