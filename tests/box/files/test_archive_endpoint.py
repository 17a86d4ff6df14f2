"""`/files/archive`: directories as tar and zip archives, over real HTTP, and archives made to do harm."""

from __future__ import annotations

import gzip
import io
import os
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from glovebox.archives.safe_directory import SafeDirectory
from glovebox.archives.untar import unpack_tar
from glovebox.archives.zip_records import UnpackLimits
from glovebox.errors import BadArchive
from tests.support.running import RunningBox, running_box


@pytest.fixture
def place(shared_box: RunningBox, request: pytest.FixtureRequest) -> Path:
    place = shared_box.workspace / f"archive-{abs(hash(request.node.name))}"
    place.mkdir()
    return place


def down(box: RunningBox, path: Path, form: str = "tar") -> httpx.Response:
    return box.client.get("/files/archive", params={"path": str(path), "format": form})


def up(box: RunningBox, path: Path, data: bytes, form: str = "tar") -> httpx.Response:
    return box.client.put("/files/archive", params={"path": str(path), "format": form}, content=data)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers.get("x-glovebox-error", "")


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    return made


def tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for made, data in entries:
            made.size = len(data)
            archive.addfile(made, io.BytesIO(data))
    return buffer.getvalue()


def files_below(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def make_tree(root: Path) -> None:
    (root / "d/empty").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"A\n")
    (root / "d/b").write_bytes(os.urandom(3_000_000))
    (root / "d/script").write_bytes(b"#!/bin/sh\n")
    (root / "d/script").chmod(0o755)
    (root / ("long-" * 40)).write_bytes(b"a long name")
    (root / "d/ünïcode").touch()


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_directory_goes_down_and_up_again(shared_box: RunningBox, place: Path, form: str) -> None:
    make_tree(place / "source")
    answer = down(shared_box, place / "source", form)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="source.{form}"'
    assert up(shared_box, place / "x/target", answer.content, form).json() == {
        "path": str(place / "x/target"), "files": 5, "skipped": 0,
    }  # fmt: skip
    assert files_below(place / "x/target") == files_below(place / "source")
    assert (place / "x/target/d/empty").is_dir()
    assert os.access(place / "x/target/d/script", os.X_OK)
    assert stat.S_IMODE((place / "x/target/a.txt").stat().st_mode) & 0o111 == 0


def test_the_system_tar_reads_and_writes_the_same(shared_box: RunningBox, place: Path) -> None:
    make_tree(place / "source")
    (place / "source/link").symlink_to("d/b")
    (place / "source/d/up").symlink_to("../a.txt")
    os.link(place / "source/a.txt", place / "source/d/second")
    (place / "down").mkdir()
    subprocess.run(
        ["tar", "x"], cwd=place / "down", input=down(shared_box, place / "source").content, check=True
    )
    assert subprocess.run(["diff", "-r", place / "source", place / "down"], check=False).returncode == 0
    assert os.readlink(place / "down/link") == "d/b"
    for flags in ("c", "cz", "c --format=gnu", "c --format=posix"):
        packed = subprocess.run(
            ["sh", "-c", f"tar {flags} ."], cwd=place / "source", capture_output=True, check=True
        )
        target = place / flags.replace(" ", "-")
        assert up(shared_box, target, packed.stdout).json()["skipped"] == 0
        assert subprocess.run(["diff", "-r", place / "source", target], check=False).returncode == 0
        assert os.readlink(target / "d/up") == "../a.txt"
        assert (target / "a.txt").stat().st_ino == (target / "d/second").stat().st_ino


def test_a_single_file_and_names_that_are_not_utf8(shared_box: RunningBox, place: Path) -> None:
    (place / "one").write_bytes(b"1")
    with tarfile.open(fileobj=io.BytesIO(down(shared_box, place / "one").content)) as archive:
        assert archive.getnames() == ["one"]
    (place / "odd").mkdir()
    odd = os.fsdecode(b"odd-\xff")
    (place / "odd" / odd).write_bytes(b"odd")
    assert up(shared_box, place / "copy", down(shared_box, place / "odd").content).json()["files"] == 1
    assert (place / "copy" / odd).read_bytes() == b"odd"


def test_what_cannot_be_archived(shared_box: RunningBox, place: Path) -> None:
    os.mkfifo(place / "pipe")
    assert code(down(shared_box, place / "pipe")) == (409, "not_a_file")
    assert code(down(shared_box, place / "missing", "zip")) == (404, "no_such_file")
    assert down(shared_box, place, "rar").status_code == 422
    with tarfile.open(fileobj=io.BytesIO(down(shared_box, place).content)) as archive:
        assert archive.getnames() == []


@pytest.mark.attack
def test_an_archive_cannot_escape(shared_box: RunningBox, place: Path) -> None:
    (place / "outside").mkdir()
    (place / "outside/secret").write_bytes(b"secret")
    harmful = [
        (entry("../outside/a"), b"x"),
        (entry(str(place / "outside/b")), b"x"),
        (entry("d/../../outside/c"), b"x"),
        (entry("absolute", tarfile.SYMTYPE, str(place / "outside")), b""),
        (entry("up", tarfile.SYMTYPE, "../outside"), b""),
        (entry("deep/up", tarfile.SYMTYPE, "../../outside"), b""),
        (entry("here", tarfile.SYMTYPE, "."), b""),
        (entry("deep/root", tarfile.SYMTYPE, ".."), b""),
        (entry("deep/sly", tarfile.SYMTYPE, "root/../outside"), b""),
        (entry("hard", tarfile.LNKTYPE, "../outside/secret"), b""),
        (entry("hard2", tarfile.LNKTYPE, str(place / "outside/secret")), b""),
        (entry("pipe", tarfile.FIFOTYPE), b""),
        (entry("device", tarfile.CHRTYPE), b""),
        (entry("good"), b"good"),
    ]
    answer = up(shared_box, place / "in", tar(*harmful))
    assert answer.json()["skipped"] == len(harmful) - 2  # `deep/root` leads to the directory itself
    assert files_below(place / "in") == {"good": b"good"}
    assert sorted(os.listdir(place / "in")) == ["deep", "good"]
    assert files_below(place / "outside") == {"secret": b"secret"}
    through = [(entry("way", tarfile.SYMTYPE, "elsewhere"), b""), (entry("way/a"), b"x")]
    (place / "in/elsewhere").symlink_to(place / "outside")
    assert code(up(shared_box, place / "in", tar(*through))) == (409, "not_a_file")
    assert files_below(place / "outside") == {"secret": b"secret"}


@pytest.mark.attack
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"no archive at all" * 100,
        lambda data: data[:700],
        lambda data: data[:300] + b"\xff" * 100 + data[400:],
        lambda data: gzip.compress(data)[:-20],
    ],
)
def test_a_damaged_archive_is_refused(
    shared_box: RunningBox, place: Path, damage: Callable[[bytes], bytes]
) -> None:
    data = damage(tar((entry("a"), b"x" * 1000)))
    assert code(up(shared_box, place / "in", data)) == (422, "bad_archive")
    assert files_below(place / "in") == {}
    assert code(up(shared_box, place / "in", data, "zip")) == (422, "bad_archive")


@pytest.mark.attack
def test_headers_of_any_size_and_number_are_bounded(shared_box: RunningBox, place: Path) -> None:
    long_name = entry("x", tarfile.GNUTYPE_LONGNAME)
    long_name.size = 8 << 30
    header = long_name.tobuf(tarfile.GNU_FORMAT)
    assert code(up(shared_box, place, header + bytes(10_240))) == (422, "bad_archive")
    chain = entry("x", tarfile.XHDTYPE)
    chain.size = 512
    record = b"12 path=abc\n"
    piece = chain.tobuf(tarfile.USTAR_FORMAT) + record + bytes(512 - len(record))
    assert code(up(shared_box, place, piece * 3_000)) == (422, "bad_archive")


def unpacked(data: bytes, target: Path, limits: UnpackLimits) -> int:
    with SafeDirectory(str(target)) as directory:
        return unpack_tar(io.BytesIO(data), directory, limits)


@pytest.mark.attack
def test_bombs_are_refused(tmp_path: Path) -> None:
    zeros = gzip.compress(tar((entry("zeros"), bytes(3_000_000))))
    with pytest.raises(BadArchive, match="times its size"):
        unpacked(zeros, tmp_path, UnpackLimits(unsuspicious_bytes=1_000_000, max_ratio=100))
    with pytest.raises(BadArchive, match="more than 1000000 bytes"):
        unpacked(zeros, tmp_path, UnpackLimits(max_bytes=1_000_000))
    many = tar(*((entry(f"{number}"), b"") for number in range(20)))
    with pytest.raises(BadArchive, match="more than 10 entries"):
        unpacked(many, tmp_path, UnpackLimits(max_entries=10))
    assert not list(tmp_path.glob(".glovebox-*"))


def test_an_archive_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--no-enable-browser", "--max-upload-size", "100000") as box:
        assert code(up(box, Path("in"), tar((entry("a"), bytes(200_000))))) == (413, "too_large")
        packed = gzip.compress(tar((entry("a"), bytes(200_000))))
        assert code(up(box, Path("in"), packed)) == (422, "bad_archive")
        assert not (tmp_path / "ws/in/a").exists()


def test_files_are_replaced_and_directories_are_not(shared_box: RunningBox, place: Path) -> None:
    (place / "a").write_bytes(b"old")
    (place / "d").mkdir()
    assert up(shared_box, place, tar((entry("a"), b"new"))).status_code == 200
    assert (place / "a").read_bytes() == b"new"
    assert code(up(shared_box, place, tar((entry("d"), b"x")))) == (409, "is_a_directory")
    assert code(up(shared_box, place / "a", tar((entry("d"), b"x")))) == (409, "not_a_directory")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../escaped", b"x")
        archive.writestr("kept", b"x")
    assert up(shared_box, place / "z", buffer.getvalue(), "zip").json()["skipped"] == 1
    assert files_below(place / "z") == {"kept": b"x"}
    assert not (place / "escaped").exists()
