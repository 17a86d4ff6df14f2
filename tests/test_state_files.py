"""Files that outlive a process: what is read is what was written, or nothing."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest

from glovebox import state_files
from glovebox.state_files import LineFile, decode_lines, read_document, read_lines, set_aside, write_document

pytestmark = pytest.mark.attack

_decode = msgspec.json.Decoder(dict[str, int]).decode
LINES = [msgspec.json.encode({"line": number, "more": number * 1000}) for number in range(5)]
VALUES = [_decode(line) for line in LINES]


def written(path: Path) -> bytes:
    file = LineFile(str(path))
    for line in LINES:
        file.append(line)
    file.close()
    return path.read_bytes()


def read(path: Path) -> list[dict[str, int]]:
    return read_lines(str(path), str(path.parent), _decode)


def test_a_line_has_its_checksum_and_number_before_it(tmp_path: Path) -> None:
    first, *_ = written(tmp_path / "lines").splitlines()
    assert first == b'387c0bfb 1 {"line":0,"more":0}'
    assert read(tmp_path / "lines") == VALUES


def test_whatever_bit_is_flipped_no_other_line_is_read(tmp_path: Path) -> None:
    data = written(tmp_path / "lines")
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            found, damage = decode_lines(bytes(changed), _decode)
            assert [one for one in VALUES if one in found] == found, (at, bit)
            assert len(found) >= len(VALUES) - 2
            assert damage or len(found) >= len(VALUES) - 1


def test_wherever_it_is_cut_every_whole_line_is_read_without_a_word(tmp_path: Path) -> None:
    data = written(tmp_path / "lines")
    for end in range(len(data) + 1):
        found, damage = decode_lines(data[:end], _decode)
        whole = data[:end].count(b"\n") + (data[end : end + 1] == b"\n")
        assert (found, damage) == (VALUES[:whole], "")


def test_lines_that_are_missing_are_noticed_and_others_put_in_order(tmp_path: Path) -> None:
    lines = written(tmp_path / "lines").splitlines(keepends=True)
    found, damage = decode_lines(b"".join([lines[4], lines[0], lines[3], lines[3]]), _decode)
    assert found == [VALUES[0], VALUES[3], VALUES[4]]
    assert damage == "1 damaged and 2 missing"


def test_lines_of_a_former_version_are_read_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(LINES[:3]))
    file = LineFile(str(path))
    for line in LINES[3:]:
        file.append(line)
    file.close()
    assert read(path) == VALUES
    assert not (tmp_path / "damaged").exists()


def test_a_file_with_a_torn_line_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(written(path)[:-5])
    file = LineFile(str(path))
    file.append(LINES[4])
    file.close()
    assert read(path) == VALUES


def test_a_document_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    path, root = str(tmp_path / "document"), str(tmp_path)
    assert read_document(path, root, _decode) is None
    write_document(path, LINES[2])
    write_document(path, LINES[3])
    assert read_document(path, root, _decode) == VALUES[3]
    assert os.stat(path).st_mode & 0o777 == 0o600
    whole = Path(path).read_bytes()
    for end in range(1, len(whole) - 1):
        Path(path).write_bytes(whole[:end])
        assert read_document(path, root, _decode) is None
        assert not os.path.exists(path)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    with (tmp_path / "giant").open("wb") as file:
        file.truncate(1 << 40)
    names = ["directory", "giant", "link", "pipe", "socket"]
    for name in names:
        assert read(tmp_path / name) == []
    assert sorted(name.partition("-")[2] for name in state_files.damaged_files(str(tmp_path))) == names


def test_damaged_files_are_kept_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(state_files.MOST_DAMAGED + 20):
        (tmp_path / f"file-{number}").write_bytes(b"x")
        set_aside(str(tmp_path / f"file-{number}"), str(tmp_path), "test")
    names = state_files.damaged_files(str(tmp_path))
    assert len(names) == state_files.MOST_DAMAGED
    assert names[-1].endswith(f"file-{state_files.MOST_DAMAGED + 19}")
    monkeypatch.setattr(state_files, "MOST_DAMAGED_BYTES", 100_000)
    for number in range(10):
        (tmp_path / f"large-{number}").mkdir()
        (tmp_path / f"large-{number}" / "inside").write_bytes(bytes(30_000))
        set_aside(str(tmp_path / f"large-{number}"), str(tmp_path), "test")
    assert len(state_files.damaged_files(str(tmp_path))) <= 3


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_the_place_for_damaged_files_may_be_damaged_itself(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "damaged"
    if kind == "file":
        place.write_text("x")
    elif kind == "link":
        place.symlink_to("/tmp")
    else:
        os.mkfifo(place)
    (tmp_path / "broken").write_text("x")
    set_aside(str(tmp_path / "broken"), str(tmp_path), "test")
    names = [name.partition("-")[2] for name in state_files.damaged_files(str(tmp_path))]
    assert names == ["broken", "damaged"]
    assert not place.is_symlink()


def test_names_of_damaged_files_are_plain_and_short(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff" + b"x" * 200 + b"\n ;$")
    odd.write_text("x")
    set_aside(str(odd), str(tmp_path), "test")
    (name,) = state_files.damaged_files(str(tmp_path))
    assert name.isascii()
    assert len(name) < 200
