from __future__ import annotations

import contextlib
import io
import os
import random
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from glovebox.archives.safe_directory import PART_PREFIX, SafeDirectory
from glovebox.archives.unzip import SMALL, is_archive, unpack
from glovebox.archives.zip_records import UnpackLimits
from glovebox.errors import BadArchive, TransferError

LIMITS = UnpackLimits()


def entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def archive(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in entries:
            zipped.writestr(name if isinstance(name, zipfile.ZipInfo) else entry(name), data)
    return buffer


def unpacked(
    file: io.BytesIO,
    directory: Path,
    limits: UnpackLimits = LIMITS,
    abandoned: Callable[[], bool] = lambda: False,
) -> int:
    with SafeDirectory(str(directory)) as target:
        return unpack(file, target, limits, abandoned=abandoned)


@pytest.fixture(params=[3, SMALL, SMALL + 1], ids=["small", "largest small", "large"])
def content(request: pytest.FixtureRequest) -> bytes:
    """Small entries are unpacked in another way than large ones."""
    size: int = request.param
    return random.Random(size).randbytes(size)


def tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_files_and_directories_are_unpacked(tmp_path: Path) -> None:
    file = archive(("a.txt", b"A"), ("d/e/f.bin", bytes(range(256))), ("empty/", b""), ("d/g", b""))
    assert unpacked(file, tmp_path) == 3
    assert tree(tmp_path) == ["a.txt", "d", "d/e", "d/e/f.bin", "d/g", "empty"]
    assert (tmp_path / "d/e/f.bin").read_bytes() == bytes(range(256))


def test_stored_and_deflated_entries_are_taken(tmp_path: Path) -> None:
    stored = entry("stored")
    stored.compress_type = zipfile.ZIP_STORED
    unpacked(archive((stored, b"s" * 5000), ("deflated", b"d" * 5000)), tmp_path)
    assert (tmp_path / "stored").read_bytes() == b"s" * 5000
    assert (tmp_path / "deflated").read_bytes() == b"d" * 5000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_are_refused_before_anything_is_written(tmp_path: Path, method: int) -> None:
    odd = entry("odd")
    odd.compress_type = method
    with pytest.raises(BadArchive, match=f"odd in the archive is compressed with method {method}"):
        unpacked(archive(("first", b"1"), (odd, b"x")), tmp_path)
    assert tree(tmp_path) == []


def test_encrypted_entries_are_refused(tmp_path: Path) -> None:
    data = bytearray(archive(("secret", b"x")).getvalue())
    data[data.index(b"PK\1\2") + 8] |= 1
    with pytest.raises(BadArchive, match="secret in the archive is encrypted"):
        unpacked(io.BytesIO(data), tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "d/../../up",
        "/up",
        "//up",
        "..",
        "d/..",
        "../../../../../../../../tmp/up",
        "/",
        "./../up",
        ".",
    ],
)
def test_names_that_lead_outside_are_left_out(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "a" / "b"
    assert unpacked(archive((name, b"x"), ("in.txt", b"i")), inside) == 1
    assert tree(tmp_path) == ["a", "a/b", "a/b/in.txt"]


def test_dots_inside_a_name_are_just_dots(tmp_path: Path) -> None:
    unpacked(archive(("v1..v2.diff", b"x"), ("..a/b..", b"x"), ("./c", b"x"), ("w\\in.txt", b"x")), tmp_path)
    assert tree(tmp_path) == ["..a", "..a/b..", "c", "v1..v2.diff", "w\\in.txt"]


def test_symbolic_links_and_special_files_are_left_out(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    file = archive(
        (entry("link", stat.S_IFLNK | 0o777), b"/etc"),
        ("link/passwd", b"x"),
        (entry("pipe", stat.S_IFIFO | 0o644), b""),
        (entry("device", stat.S_IFCHR | 0o644), b""),
    )
    assert unpacked(file, inside) == 1
    assert tree(inside) == ["link", "link/passwd"]
    assert not (inside / "link").is_symlink()


def test_a_linked_directory_that_leads_outside_is_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "hop").symlink_to("link")
    for name in ("link/x", "link/deep/x", "link/", "link/deep/", "hop/x", "link/../link/x"):
        if ".." in name:
            assert unpacked(archive((name, b"x")), inside) == 0
        else:
            with pytest.raises(TransferError, match="leads outside"):
                unpacked(archive((name, b"x" if name[-1] != "/" else b"")), inside)
    assert tree(outside) == []


def test_a_linked_directory_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    unpacked(archive(("link/new/x", b"x"), ("link/y", b"y")), tmp_path)
    assert (tmp_path / "real/new/x").read_bytes() == b"x"
    assert (tmp_path / "real/y").read_bytes() == b"y"


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "precious").write_text("old")
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "x").symlink_to(tmp_path / "precious")
    unpacked(archive(("x", content)), inside)
    assert (tmp_path / "precious").read_text() == "old"
    assert (inside / "x").read_bytes() == content
    assert not (inside / "x").is_symlink()


def test_a_link_that_appears_meanwhile_is_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()

    def swapped() -> bool:
        if (inside / "d/a").exists() and not (inside / "d").is_symlink():
            (inside / "d").rename(inside / "moved")
            (inside / "d").symlink_to(outside)
        return False

    file = archive(("d/a", b"a"), ("e/a", b"a"), ("d/b", b"b"))
    with pytest.raises(TransferError, match="leads outside"):
        unpacked(file, inside, abandoned=swapped)
    assert tree(outside) == []
    assert tree(inside) == ["d", "e", "e/a", "moved", "moved/a"]


def test_what_is_replaced_keeps_its_mode_and_owner(tmp_path: Path, content: bytes) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    target.chmod(0o440)
    if os.geteuid() == 0:
        os.chown(target, 1234, 1235)
    before = target.stat()
    unpacked(archive((entry("x", stat.S_IFREG | 0o755), content)), tmp_path)
    after = target.stat()
    assert target.read_bytes() == content
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_special_file_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransferError, match=f"{tmp_path}/pipe exists and is not a regular file"):
        unpacked(archive(("pipe", content)), tmp_path)
    assert tree(tmp_path) == ["pipe"]


def test_whoever_has_the_old_file_open_keeps_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_text("old")
    os.link(tmp_path / "x", tmp_path / "other name")
    with (tmp_path / "x").open() as file:
        unpacked(archive(("x", content)), tmp_path)
        assert file.read() == "old"
    assert (tmp_path / "other name").read_text() == "old"
    assert (tmp_path / "x").read_bytes() == content


#: Unpacks with a disk on which no file can have more than a thousand bytes.
CRAMPED = """
import resource, sys
from glovebox.archives.unzip import unpack
from glovebox.archives.safe_directory import SafeDirectory
from glovebox.archives.zip_records import UnpackLimits

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with open(sys.argv[1], "rb") as file, SafeDirectory(sys.argv[2]) as target:
        unpack(file, target, UnpackLimits())
except OSError as error:
    print(error)
"""


def test_what_cannot_be_written_leaves_nothing_of_it(tmp_path: Path, content: bytes) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "old").write_text("old")
    (tmp_path / "a.zip").write_bytes(archive(("fits", b"x"), ("old", content.ljust(2000))).getvalue())
    said = subprocess.run(
        [sys.executable, "-c", CRAMPED, str(tmp_path / "a.zip"), str(inside)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert said.stdout.startswith("[Errno 27] File too large")
    assert tree(inside) == ["fits", "old"]
    assert (inside / "old").read_text() == "old"


def test_existing_files_are_overwritten_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/old").write_text("old")
    (tmp_path / "d/stays").write_text("stays")
    unpacked(archive(("d/old", b"new")), tmp_path)
    assert (tmp_path / "d/old").read_text() == "new"
    assert (tmp_path / "d/stays").read_text() == "stays"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_entries_with_one_name_the_last_wins(tmp_path: Path) -> None:
    unpacked(archive(("x", b"first"), ("x", b"second")), tmp_path)
    assert (tmp_path / "x").read_text() == "second"


def test_the_executable_bit_is_restored_and_no_other(tmp_path: Path, content: bytes) -> None:
    file = archive(
        (entry("run.sh", stat.S_IFREG | 0o4755), content),
        (entry("plain", stat.S_IFREG | 0o600), content),
        (entry("shut", stat.S_IFREG | 0o000), b""),
        (entry("d/", stat.S_IFDIR | 0o700), b""),
    )
    previous = os.umask(0o027)
    try:
        unpacked(file, tmp_path)
    finally:
        os.umask(previous)
    modes = {name: (tmp_path / name).stat().st_mode & 0o7777 for name in ("run.sh", "plain", "shut", "d")}
    assert modes == {"run.sh": 0o750, "plain": 0o640, "shut": 0o640, "d": 0o750}


def test_a_file_where_a_directory_should_be_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(NotADirectoryError, match=f"{tmp_path}/x/y"):
        unpacked(archive(("x/y", b"")), tmp_path)
    (tmp_path / "d").mkdir()
    with pytest.raises(IsADirectoryError, match=f"{tmp_path}/d"):
        unpacked(archive(("d", b"")), tmp_path)


def test_more_bytes_than_allowed_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="more than 1000 bytes"):
        unpacked(archive(("a", bytes(600)), ("b", bytes(600))), tmp_path, UnpackLimits(max_bytes=1000))
    assert tree(tmp_path) == []


def test_a_size_that_lies_does_not_get_past_the_count(tmp_path: Path) -> None:
    data = bytearray(archive(("a", bytes(1_000_000))).getvalue())
    for record, field in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        struct.pack_into("<L", data, data.index(record) + field, 10)
    with pytest.raises(BadArchive, match="CRC"):
        unpacked(io.BytesIO(data), tmp_path, UnpackLimits(max_bytes=1000))
    assert tree(tmp_path) == []


def test_a_bomb_is_noticed_while_it_grows(tmp_path: Path) -> None:
    limits = UnpackLimits(unsuspicious_bytes=1 << 20, max_ratio=100)
    with pytest.raises(BadArchive, match="more than 100 times its size"):
        unpacked(archive(("before", b"x"), ("zeros", bytes(64 << 20))), tmp_path, limits)
    assert tree(tmp_path) == ["before"]


def test_a_small_archive_may_be_compressed_as_far_as_it_goes(tmp_path: Path) -> None:
    limits = UnpackLimits(unsuspicious_bytes=1 << 20, max_ratio=100)
    assert unpacked(archive(("zeros", bytes(1 << 20))), tmp_path, limits) == 1


def test_entries_that_share_their_data_do_not_multiply_it(tmp_path: Path) -> None:
    plain = archive(("0", bytes(1 << 20))).getvalue()
    start = plain.index(b"PK\1\2")
    end = plain.rindex(b"PK\5\6")
    line = plain[start:end]
    directory = b"".join(line[:-1] + bytes([48 + number]) for number in range(50))
    tail = bytearray(plain[end:])
    struct.pack_into("<2HL", tail, 8, 50, 50, len(directory))
    limits = UnpackLimits(unsuspicious_bytes=4 << 20, max_ratio=1000)
    with pytest.raises(BadArchive):
        unpacked(io.BytesIO(plain[:start] + directory + tail), tmp_path, limits)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 8 << 20


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="has 3 entries; at most 2"):
        unpacked(archive(("a", b""), ("b", b""), ("c", b"")), tmp_path, UnpackLimits(max_entries=2))
    assert tree(tmp_path) == []


def test_a_damaged_entry_is_an_error_and_does_not_arrive(tmp_path: Path) -> None:
    stored = entry("bad")
    stored.compress_type = zipfile.ZIP_STORED
    data = bytearray(archive(("good", b"x"), (stored, b"y" * 1000)).getvalue())
    data[data.index(b"yyy")] ^= 1
    with pytest.raises(BadArchive, match="Bad CRC-32 for file 'bad'"):
        unpacked(io.BytesIO(data), tmp_path)
    assert tree(tmp_path) == ["good"]


def test_unpacking_stops_when_nobody_wants_it_any_more(tmp_path: Path) -> None:
    file = archive(*[(f"{number}", b"x") for number in range(100)])
    with pytest.raises(BadArchive, match="broken off"):
        unpacked(file, tmp_path, abandoned=lambda: (tmp_path / "5").exists())
    assert (tmp_path / "5").exists()
    assert not (tmp_path / "6").exists()


def test_what_is_no_archive_is_recognised() -> None:
    assert is_archive(archive())
    assert is_archive(archive(("a", b"")))
    assert not is_archive(io.BytesIO(b""))
    assert not is_archive(io.BytesIO(b"PK\3\4 and nothing more"))


def test_a_damaged_archive_gives_no_other_error_and_leaves_no_parts(tmp_path: Path) -> None:
    whole = archive(("a.txt", b"A" * 300), ("d/", b""), ("d/b.txt", os.urandom(300))).getvalue()
    chance = random.Random(7)
    for number in range(1500):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0xFF, chance.randrange(256)])
        inside = tmp_path / str(number)
        file = io.BytesIO(data[: chance.choice([len(data), len(data), chance.randrange(len(data))])])
        if is_archive(file):
            with contextlib.suppress(BadArchive, OSError):
                unpacked(file, inside)
            assert not [path for path in inside.rglob("*") if path.name.startswith(PART_PREFIX)]
    assert {path.name for path in tmp_path.iterdir()} <= {str(number) for number in range(1500)}


def outcome(file: io.BytesIO, directory: Path) -> tuple[str, dict[str, bytes]]:
    """How unpacking went, and what came of it."""
    said = ""
    try:
        unpacked(file, directory)
    except (BadArchive, OSError) as error:
        said = str(error).replace(str(directory), "")
    files = [path for path in directory.rglob("*") if path.is_file()]
    return said, {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_small_and_large_entries_are_refused_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = entry("ü.txt")
    stored.compress_type = zipfile.ZIP_STORED
    whole = archive(("a.txt", b"A" * 300), (stored, b"stored"), ("d/b", b"B" * 9)).getvalue()
    damaged = [whole, shared(whole)]
    for place in range(len(whole)):
        for bits in (0x01, 0x20):
            data = bytearray(whole)
            data[place] ^= bits
            damaged.append(bytes(data))
    files = [data for data in damaged if is_archive(io.BytesIO(data))]
    quick = [outcome(io.BytesIO(data), tmp_path / f"q{number}") for number, data in enumerate(files)]
    monkeypatch.setattr("glovebox.archives.unzip.SMALL", -1)
    plain = [outcome(io.BytesIO(data), tmp_path / f"p{number}") for number, data in enumerate(files)]
    assert quick == plain
    assert any(said for said, _ in plain)
    assert any(not said for said, _ in plain)


def shared(whole: bytes) -> bytes:
    """An archive that has its first entry twice, with the same data."""
    start, end = whole.index(b"PK\1\2"), whole.rindex(b"PK\5\6")
    line = whole[start : whole.index(b"PK\1\2", start + 1)]
    tail = bytearray(whole[end:])
    count, size = struct.unpack_from("<HL", tail, 10)
    struct.pack_into("<2HL", tail, 8, count + 1, count + 1, size + len(line))
    return whole[:end] + line + tail


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_large_entry_is_unpacked_with_little_memory(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as zipped:
        zipped.writestr("zeros", bytes(32 << 20))
    tracemalloc.start()
    try:
        with (tmp_path / "a.zip").open("rb") as file, SafeDirectory(str(tmp_path / "in")) as target:
            unpack(file, target, LIMITS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "in/zeros").stat().st_size == 32 << 20
    assert peak < 8 << 20


def test_many_small_files_are_unpacked_with_few_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    count = unpacked(archive(*[(f"{number % 50}/{number}", b"x") for number in range(2000)]), tmp_path)
    assert count == 2000
    assert len(os.listdir("/proc/self/fd")) == before
    assert sum(len(os.listdir(tmp_path / str(number))) for number in range(50)) == 2000
