from __future__ import annotations

import os
import random
import stat
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from glovebox.archives.unzip import SMALL
from glovebox.client.transfer import files
from glovebox.client.transfer.files import copy_from, copy_to, download, list_files, unpack
from glovebox.errors import BadArchive, TooLarge, TransferError
from tests.client.asked import connected
from tests.support.running import RunningBox, running_box


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with a bit of everything."""
    there = tmp_path / "host" / "things"
    (there / "empty").mkdir(parents=True)
    (there / "deep" / "er").mkdir(parents=True)
    (there / "deep" / "er" / "ü b.txt").write_text("grüße")
    (there / "run.sh").write_text("#!/bin/sh\n")
    (there / "run.sh").chmod(0o750)
    (there / "blank").touch()
    return there


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


async def test_a_directory_comes_under_its_own_name(
    shared_box: RunningBox, tmp_path: Path, source: Path
) -> None:
    told: list[tuple[int, int | None]] = []
    async with connected(shared_box) as runtime:
        await copy_to(
            runtime, source, str(tmp_path / "box"), recursive=True, progress=lambda *done: told.append(done)
        )
    there = tmp_path / "box" / "things"
    assert (there / "empty").is_dir()
    assert (there / "deep" / "er" / "ü b.txt").read_text() == "grüße"
    assert os.access(there / "run.sh", os.X_OK)
    assert not (there / "deep" / "er" / "ü b.txt").stat().st_mode & stat.S_IXUSR
    assert (there / "blank").read_bytes() == b""
    assert told[0] == (0, 17)
    assert told[-1] == (17, 17)
    assert told == sorted(told)


async def test_many_files_of_all_sizes_arrive_whole(shared_box: RunningBox, tmp_path: Path) -> None:
    sizes = [0, 1, SMALL - 1, SMALL, SMALL + 1, 3_000_000]
    contents = {f"large/{size}": random.Random(size).randbytes(size) for size in sizes}
    contents |= {f"d{number % 30}/ü {number}.txt": b"%d\n" % number * 100 for number in range(1500)}
    for name, content in contents.items():
        path = tmp_path / "many" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    told: list[tuple[int, int | None]] = []
    async with connected(shared_box) as runtime:
        for _ in range(2):  # the second time over the first
            await copy_to(
                runtime,
                tmp_path / "many",
                str(tmp_path / "box"),
                recursive=True,
                progress=lambda *done: told.append(done),
            )
    there = tmp_path / "box" / "many"
    found = [path for path in there.rglob("*") if path.is_file()]
    assert {str(path.relative_to(there)): path.read_bytes() for path in found} == contents
    total = sum(map(len, contents.values()))
    assert told[-1] == (total, total)
    assert 10 < len(told) < 100  # small files are sent together


async def test_links_are_what_they_lead_to_unless_that_is_outside(
    shared_box: RunningBox, tmp_path: Path, source: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret").write_text("of the host")
    (source / "inside").symlink_to("run.sh")
    (source / "directory").symlink_to("deep/er")
    (source / "outside").symlink_to(tmp_path / "secret")
    (source / "dangling").symlink_to("nowhere")
    (source / "deep" / "round").symlink_to("..")
    os.mkfifo(source / "pipe")
    async with connected(shared_box) as runtime:
        await copy_to(runtime, source, str(tmp_path / "box"), recursive=True)
        there = tmp_path / "box" / "things"
        assert (there / "inside").read_text() == "#!/bin/sh\n"
        assert (there / "directory" / "ü b.txt").read_text() == "grüße"
        assert names(there) == ["blank", "deep", "directory", "empty", "inside", "run.sh"]
        assert names(there / "deep") == ["er"]
        assert "outside is not sent: a link that leads out of the directory" in caplog.text
        await copy_to(runtime, source, str(tmp_path / "all"), recursive=True, follow_links=True)
    assert (tmp_path / "all" / "things" / "outside").read_text() == "of the host"


@pytest.mark.parametrize("name", ["plain.txt", "ü b%41;.txt", 'quo"te.txt', "archive.ZIP"])
async def test_a_file_comes_into_a_directory(shared_box: RunningBox, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(name)
    async with connected(shared_box) as runtime:
        await copy_to(runtime, str(tmp_path / name), f"{tmp_path}/made/here")
        assert await list_files(runtime, f"{tmp_path}/made/here") == [name]
    assert (tmp_path / "made" / "here" / name).read_text() == name


async def test_a_relative_destination_is_below_the_workspace(shared_box: RunningBox, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("here")
    async with connected(shared_box) as runtime:
        await copy_to(runtime, tmp_path / "a.txt", f"relative/{tmp_path.name}")
        assert await list_files(runtime, f"relative/{tmp_path.name}") == ["a.txt"]
        (written,) = await download(runtime, f"relative/{tmp_path.name}/a.txt", tmp_path / "back")
    assert written == tmp_path / "back" / "a.txt"
    assert written.read_text() == "here"


async def test_what_cannot_be_sent_is_named(shared_box: RunningBox, tmp_path: Path, source: Path) -> None:
    (source / b"\xff".decode(errors="surrogateescape")).touch()
    os.mkfifo(tmp_path / "pipe")
    async with connected(shared_box) as runtime:
        with pytest.raises(FileNotFoundError, match=f"^Source file {tmp_path}/no does not exist$"):
            await copy_to(runtime, f"{tmp_path}/no", "/tmp")
        with pytest.raises(TransferError, match="is a directory: it is copied with recursive=True"):
            await copy_to(runtime, source, "/tmp")
        with pytest.raises(TransferError, match="not UTF-8"):
            await copy_to(runtime, source, str(tmp_path / "box"), recursive=True)
        with pytest.raises(TransferError, match="no regular file"):
            await copy_to(runtime, tmp_path / "pipe", str(tmp_path / "box"))
        assert await runtime.alive()
    assert not (tmp_path / "box" / "things").exists()


async def test_a_file_that_cannot_be_read_is_named(
    shared_box: RunningBox, tmp_path: Path, source: Path
) -> None:
    def vanish(done: int, total: int | None) -> None:
        (source / "run.sh").unlink(missing_ok=True)

    async with connected(shared_box) as runtime:
        with pytest.raises(TransferError, match=r"run\.sh cannot be read: No such file"):
            await copy_to(runtime, source, str(tmp_path / "box"), recursive=True, progress=vanish)
    assert not (tmp_path / "box" / "things").exists()


async def test_an_upload_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 3_000_000)
    with running_box(tmp_path / "workspace", "--max-upload-size", "1M") as box:
        async with connected(box) as runtime:
            with pytest.raises(TooLarge):
                await copy_to(runtime, tmp_path / "large", "here")
            assert await list_files(runtime, "here") == []


async def test_what_a_box_has_comes_as_an_archive(
    shared_box: RunningBox, tmp_path: Path, source: Path
) -> None:
    told: list[tuple[int, int | None]] = []
    async with connected(shared_box) as runtime:
        archive = await copy_from(runtime, str(source), progress=lambda *done: told.append(done))
    try:
        with zipfile.ZipFile(archive) as entries:
            assert sorted(entries.namelist()) == ["blank", "deep/er/ü b.txt", "run.sh"]
        assert archive.suffix == ".zip"
        assert told[-1] == (archive.stat().st_size, archive.stat().st_size)
    finally:
        archive.unlink()


async def test_what_a_box_does_not_have_is_an_error_and_leaves_no_file(
    shared_box: RunningBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with connected(shared_box) as runtime:
        with pytest.raises(TransferError, match="404: File not found"):
            await copy_from(runtime, "/no/such/place")
        assert await list_files(runtime, "/no/such/place") == []
    assert names(tmp_path) == []


async def test_a_directory_is_downloaded_over_what_is_there(
    shared_box: RunningBox, tmp_path: Path, source: Path
) -> None:
    back = tmp_path / "back"
    back.mkdir()
    (tmp_path / "precious").write_text("mine")
    (back / "blank").symlink_to(tmp_path / "precious")
    (back / "other").write_text("stays")
    async with connected(shared_box) as runtime:
        written = await download(runtime, str(source), back)
    assert sorted(written) == sorted([back / "blank", back / "run.sh", back / "deep" / "er" / "ü b.txt"])
    assert (back / "deep" / "er" / "ü b.txt").read_text() == "grüße"
    assert os.access(back / "run.sh", os.X_OK)
    assert (tmp_path / "precious").read_text() == "mine"
    assert (back / "blank").read_bytes() == b""
    assert (back / "other").read_text() == "stays"


async def test_a_link_in_the_directory_is_not_followed_outside(
    shared_box: RunningBox, tmp_path: Path, source: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "deep").symlink_to(tmp_path / "elsewhere")
    async with connected(shared_box) as runtime:
        with pytest.raises(TransferError, match=r"back/deep.* leads outside"):
            await download(runtime, str(source), tmp_path / "back")
    assert names(tmp_path / "elsewhere") == []


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.create_system = 3
    made.external_attr = mode << 16
    return made


@pytest.mark.parametrize(
    "bad",
    [
        entry("../escaped"),
        entry("/escaped"),
        entry("a/../../escaped"),
        entry("link", stat.S_IFLNK | 0o777),
        entry("."),
    ],
    ids=lambda bad: bad.filename,
)
def test_an_archive_that_would_do_harm_is_refused(tmp_path: Path, bad: zipfile.ZipInfo) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(bad, "/etc")
    with pytest.raises(BadArchive, match="must not be unpacked"):
        unpack(tmp_path / "bad.zip", tmp_path / "in" / "here")
    assert list((tmp_path / "in").rglob("*")) == [tmp_path / "in" / "here"]


def test_an_archive_that_becomes_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LIMITS", files.LIMITS._replace(unsuspicious_bytes=1 << 20))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * (8 << 20))
    with pytest.raises(BadArchive, match="too large"):
        unpack(tmp_path / "bomb.zip", tmp_path / "here")


@pytest.mark.parametrize("data", [b"", b"PK\3\4 nothing that follows", b"x" * 100])
def test_what_is_no_archive_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.zip").write_bytes(data)
    with pytest.raises(BadArchive, match="is damaged"):
        unpack(tmp_path / "bad.zip", tmp_path / "here")


def test_an_archive_cannot_give_more_than_the_right_to_run(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(entry("suid", stat.S_IFREG | 0o6777), "x")
    (path,) = unpack(tmp_path / "a.zip", tmp_path / "here")
    assert stat.S_IMODE(path.stat().st_mode) & 0o7000 == 0


async def test_much_is_sent_and_fetched_with_little_memory(shared_box: RunningBox, tmp_path: Path) -> None:
    large = tmp_path / "host" / "large"
    large.parent.mkdir()
    with large.open("wb") as file:
        for number in range(32):
            file.write(number.to_bytes(1) * (1 << 20))
    async with connected(shared_box) as runtime:
        tracemalloc.start()
        try:
            await copy_to(runtime, large.parent, str(tmp_path / "box"), recursive=True)
            await copy_to(runtime, large, str(tmp_path / "box"))
            (back,) = await download(runtime, str(tmp_path / "box" / "host"), tmp_path / "back")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 16 << 20
    expected = large.read_bytes()
    assert back.read_bytes() == expected
    assert (tmp_path / "box" / "large").read_bytes() == expected
