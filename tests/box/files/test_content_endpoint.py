"""`/files/content`: bytes in and out, over real HTTP."""

from __future__ import annotations

import concurrent.futures
import http.client
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import psutil
import pytest

from tests.support.running import RunningBox, running_box
from tests.support.waiting import LIMIT, wait_until

MEGABYTE = 1 << 20
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


@pytest.fixture
def place(shared_box: RunningBox, request: pytest.FixtureRequest) -> Path:
    place = shared_box.workspace / f"content-{abs(hash(request.node.name))}"
    place.mkdir()
    return place


def get(box: RunningBox, path: Path | str, **headers: str) -> httpx.Response:
    return box.client.get("/files/content", params={"path": str(path)}, headers=headers)


def put(box: RunningBox, path: Path | str, data: Any, headers: Any = None, **query: str) -> httpx.Response:
    return box.client.put(
        "/files/content", params={"path": str(path), **query}, content=data, headers=headers or {}
    )


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers.get("x-glovebox-error", "")


def leftovers(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob(".glovebox-*")]


def test_bytes_come_back_as_they_were_put(shared_box: RunningBox, place: Path) -> None:
    data = os.urandom(3 * MEGABYTE + 17)
    made = put(shared_box, place / "a.bin", data)
    assert made.status_code == 201
    assert made.json()["size"] == len(data)
    assert made.json()["kind"] == "file"
    answer = get(shared_box, place / "a.bin")
    assert answer.status_code == 200
    assert answer.content == data
    assert answer.headers["etag"] == made.headers["etag"] == made.json()["etag"]
    assert answer.headers["content-type"] == "application/octet-stream"
    again = put(shared_box, place / "a.bin", b"small")
    assert again.status_code == 200
    assert get(shared_box, place / "a.bin").content == b"small"
    assert leftovers(place) == []


def test_an_empty_file_and_one_of_proc(shared_box: RunningBox, place: Path) -> None:
    assert put(shared_box, place / "empty", b"").status_code == 201
    answer = get(shared_box, place / "empty")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == "0"
    assert b"MemTotal" in get(shared_box, "/proc/meminfo").content


def test_relative_paths_start_at_the_workspace_and_a_tilde_is_the_home(
    shared_box: RunningBox, place: Path
) -> None:
    put(shared_box, f"{place.name}/relative", b"here")
    assert (place / "relative").read_bytes() == b"here"
    put(shared_box, f"~/{place.name}", b"at home")
    home = shared_box.run("echo ~").strip()
    assert Path(home, place.name).read_bytes() == b"at home"


@pytest.mark.parametrize(
    ("wanted", "expected", "shown"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
        ("bytes=8-99", b"89", "bytes 8-9/10"),
    ],
)
def test_a_range_of_a_file(
    shared_box: RunningBox, place: Path, wanted: str, expected: bytes, shown: str
) -> None:
    (place / "digits").write_bytes(b"0123456789")
    answer = get(shared_box, place / "digits", Range=wanted)
    assert answer.status_code == 206
    assert answer.content == expected
    assert answer.headers["content-range"] == shown
    assert answer.headers["content-length"] == str(len(expected))


@pytest.mark.parametrize("wanted", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_beyond_the_end_is_not_satisfiable(shared_box: RunningBox, place: Path, wanted: str) -> None:
    (place / "digits").write_bytes(b"0123456789")
    answer = get(shared_box, place / "digits", Range=wanted)
    assert code(answer) == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize("wanted", ["bytes=5-2", "bytes=a-b", "bytes=0-1,4-5", "lines=1-2", "bytes=-"])
def test_a_range_that_is_none_gives_the_whole_file(shared_box: RunningBox, place: Path, wanted: str) -> None:
    (place / "digits").write_bytes(b"0123456789")
    answer = get(shared_box, place / "digits", Range=wanted)
    assert (answer.status_code, answer.content) == (200, b"0123456789")


def test_etags_save_a_download_and_guard_a_range(shared_box: RunningBox, place: Path) -> None:
    etag = put(shared_box, place / "a", b"0123456789").headers["etag"]
    unchanged = get(shared_box, place / "a", **{"If-None-Match": f'"other", W/{etag}'})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert get(shared_box, place / "a", **{"If-Range": etag, "Range": "bytes=0-1"}).content == b"01"
    assert get(shared_box, place / "a", **{"If-Range": '"old"', "Range": "bytes=0-1"}).status_code == 200
    assert code(get(shared_box, place / "a", **{"If-Match": '"old"'})) == (412, "file_changed")
    assert get(shared_box, place / "a", **{"If-Match": etag}).status_code == 200
    head = shared_box.client.head("/files/content", params={"path": str(place / "a")})
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == "10"
    assert head.headers["etag"] == etag
    missing = shared_box.client.head("/files/content", params={"path": str(place / "b")})
    assert code(missing) == (404, "no_such_file")


def test_a_file_is_replaced_only_if_it_is_the_expected_one(shared_box: RunningBox, place: Path) -> None:
    first = put(shared_box, place / "a", b"1", {"If-None-Match": "*"}).headers["etag"]
    assert code(put(shared_box, place / "a", b"2", {"If-None-Match": "*"})) == (412, "file_changed")
    second = put(shared_box, place / "a", b"2", {"If-Match": first}).headers["etag"]
    assert first != second
    assert code(put(shared_box, place / "a", b"3", {"If-Match": first})) == (412, "file_changed")
    assert code(put(shared_box, place / "b", b"3", {"If-Match": "*"})) == (412, "file_changed")
    assert (place / "a").read_bytes() == b"2"
    assert sorted(path.name for path in place.iterdir()) == ["a"]


def test_of_writers_that_expect_the_same_file_one_wins(shared_box: RunningBox, place: Path) -> None:
    counter, clients, rounds = place / "counter", 6, 10
    put(shared_box, counter, b"0")

    def count() -> None:
        done = 0
        while done < rounds:
            seen = get(shared_box, counter)
            new = str(int(seen.content) + 1).encode()
            done += put(shared_box, counter, new, {"If-Match": seen.headers["etag"]}).status_code == 200

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        for future in [pool.submit(count) for _ in range(clients)]:
            future.result()
    assert int(counter.read_bytes()) == clients * rounds


def test_of_two_uploads_at_once_each_reader_sees_one_whole(shared_box: RunningBox, place: Path) -> None:
    contents = [bytes([letter]) * (2 * MEGABYTE) for letter in b"ab"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda data: put(shared_box, place / "same", data), contents * 4))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert (place / "same").read_bytes() in contents
    assert leftovers(place) == []


def test_mode_and_owner_stay_unless_others_are_given(shared_box: RunningBox, place: Path) -> None:
    (place / "script").write_bytes(b"#!/bin/sh\n")
    (place / "script").chmod(0o751)
    info = put(shared_box, place / "script", b"#!/bin/sh\ntrue\n").json()
    assert info["mode"] == 0o751
    assert put(shared_box, place / "script", b"x", mode="0640").json()["mode"] == 0o640
    assert put(shared_box, place / "new", b"x", mode="600").json()["mode"] == 0o600
    own = put(shared_box, place / "script", b"x", owner=str(os.geteuid()))
    assert own.json()["uid"] == os.geteuid()
    assert code(put(shared_box, place / "script", b"x", owner="no-such-user")) == (422, "bad_path")
    assert code(put(shared_box, place / "script", b"x", mode="0999"))[0] == 422


def test_links_stay_and_what_they_lead_to_is_replaced(shared_box: RunningBox, place: Path) -> None:
    (place / "target").write_bytes(b"old")
    (place / "link").symlink_to("target")
    os.link(place / "target", place / "second")
    put(shared_box, place / "link", b"new")
    assert (place / "link").is_symlink()
    assert (place / "target").read_bytes() == (place / "second").read_bytes() == b"new"
    (place / "dangling").symlink_to("made")
    put(shared_box, place / "dangling", b"made")
    assert (place / "made").read_bytes() == b"made"


def test_missing_directories_are_made_when_asked(shared_box: RunningBox, place: Path) -> None:
    assert code(put(shared_box, place / "a/b/c", b"x")) == (404, "no_such_file")
    assert put(shared_box, place / "a/b/c", b"x", parents="true").status_code == 201
    assert (place / "a/b/c").read_bytes() == b"x"


def test_what_is_no_file_is_refused_and_left_alone(shared_box: RunningBox, place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "directory").mkdir()
    (place / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        expected = {
            "pipe": (409, "not_a_file"),
            "socket": (409, "not_a_file"),
            "/dev/zero": (409, "not_a_file"),
            "directory": (409, "is_a_directory"),
            "directory/": (409, "is_a_directory"),
            "loop": (422, "bad_path"),
            "x" * 300: (422, "bad_path"),
            "a\0b": (422, "bad_path"),
            "": (422, "bad_path"),
        }
        for name, refusal in expected.items():
            path = f"{place}/{name}" if name and not name.startswith("/") else name
            assert code(get(shared_box, path)) == refusal, name
            assert code(put(shared_box, path, b"x")) == refusal, name
    (place / "file").write_bytes(b"x")
    assert code(put(shared_box, place / "file/below", b"x")) == (409, "not_a_directory")
    assert code(get(shared_box, place / "missing")) == (404, "no_such_file")
    assert sorted(os.listdir(place)) == ["directory", "file", "loop", "pipe", "socket"]
    assert shared_box.client.get("/files/content").status_code == 422


def test_a_name_that_is_not_utf8_is_a_clear_error(shared_box: RunningBox, place: Path) -> None:
    raw = quote(os.fsencode(place / "name-") + b"\xff")
    for method in ("GET", "PUT"):
        answer = shared_box.client.request(method, f"/files/content?path={raw}")
        assert code(answer) == (422, "bad_path")
        assert "UTF-8" in answer.json()["detail"]
    assert put(shared_box, place / "name-\ufffd", b"a good name").status_code == 201
    assert os.listdir(place) == ["name-\ufffd"]


def connection(box: RunningBox) -> http.client.HTTPConnection:
    address = urlsplit(box.url)
    return http.client.HTTPConnection(address.hostname or "", address.port, timeout=LIMIT)


def begin_put(box: RunningBox, path: Path, size: int) -> http.client.HTTPConnection:
    """A request whose body is still to come, as far as it is longer than what is sent at once."""
    wire = connection(box)
    wire.putrequest("PUT", f"/files/content?path={quote(str(path))}")
    wire.putheader("X-Session-API-Key", box.key)
    wire.putheader("Content-Length", str(size))
    wire.endheaders()
    return wire


def test_a_connection_that_breaks_leaves_the_old_file(shared_box: RunningBox, place: Path) -> None:
    (place / "a").write_bytes(b"old")
    wire = begin_put(shared_box, place / "a", 8 * MEGABYTE)
    wire.send(b"x" * (3 * MEGABYTE))
    wait_until(lambda: leftovers(place), what="the temporary file")
    wire.close()
    wait_until(lambda: not leftovers(place), what="its end")
    assert (place / "a").read_bytes() == b"old"


@pytest.mark.parametrize("moved", [False, True])
def test_a_directory_that_vanishes_during_an_upload(shared_box: RunningBox, place: Path, moved: bool) -> None:
    (place / "d").mkdir()
    wire = begin_put(shared_box, place / "d/a", 2 * MEGABYTE)
    wire.send(b"x" * MEGABYTE)
    wait_until(lambda: leftovers(place), what="the temporary file")
    subprocess.run(["mv", "d", "elsewhere"] if moved else ["rm", "-r", "d"], cwd=place, check=True)
    wire.send(b"x" * MEGABYTE)
    answer = wire.getresponse()
    assert (answer.status, answer.getheader("X-Glovebox-Error")) == (404, "no_such_file")
    assert [path.name for path in place.rglob("*")] == (["elsewhere"] if moved else [])


def test_a_file_that_appears_during_an_upload_is_not_lost(shared_box: RunningBox, place: Path) -> None:
    wire = connection(shared_box)
    wire.putrequest("PUT", f"/files/content?path={quote(str(place / 'a'))}")
    for name, value in (("X-Session-API-Key", shared_box.key), ("Content-Length", str(2 * MEGABYTE)),
                        ("If-None-Match", "*")):  # fmt: skip
        wire.putheader(name, value)
    wire.endheaders()
    wire.send(b"x" * MEGABYTE)
    wait_until(lambda: leftovers(place), what="the temporary file")
    (place / "a").write_bytes(b"another's")
    wire.send(b"x" * MEGABYTE)
    assert wire.getresponse().status == 412
    assert (place / "a").read_bytes() == b"another's"
    wait_until(lambda: not leftovers(place), what="the end of the temporary file")


def test_a_file_that_shrinks_while_it_is_sent_cuts_the_connection(
    shared_box: RunningBox, place: Path
) -> None:
    with (place / "large").open("wb") as file:
        file.truncate(64 * MEGABYTE)
    with shared_box.client.stream("GET", "/files/content", params={"path": str(place / "large")}) as answer:
        pieces = answer.iter_bytes()
        next(pieces)
        os.truncate(place / "large", MEGABYTE)
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass


def test_a_file_that_grows_while_it_is_sent_ends_where_it_ended(shared_box: RunningBox, place: Path) -> None:
    (place / "log").write_bytes(b"x" * (32 * MEGABYTE))
    with shared_box.client.stream("GET", "/files/content", params={"path": str(place / "log")}) as answer:
        pieces = answer.iter_bytes()
        got = len(next(pieces))
        with (place / "log").open("ab") as file:
            file.write(b"y" * MEGABYTE)
        assert got + sum(map(len, pieces)) == 32 * MEGABYTE


@pytest.mark.slow
def test_large_files_take_no_memory(tmp_path: Path) -> None:
    size = 400 * MEGABYTE
    with running_box(tmp_path / "ws", "--no-enable-browser") as box:
        server = psutil.Process(box.process.pid)
        put(box, "warm", b"x" * (4 * MEGABYTE))
        get(box, "warm")
        before = server.memory_info().rss
        piece = b"x" * MEGABYTE
        most = before

        def pieces() -> Iterator[bytes]:
            nonlocal most
            for _ in range(size // MEGABYTE):
                yield piece
                most = max(most, server.memory_info().rss)

        assert put(box, "large", pieces()).json()["size"] == size
        with box.client.stream("GET", "/files/content", params={"path": "large"}) as answer:
            received = 0
            for data in answer.iter_bytes(MEGABYTE):
                received += len(data)
                most = max(most, server.memory_info().rss)
        assert received == size
        assert most - before < 32 * MEGABYTE


def test_an_upload_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--no-enable-browser", "--max-upload-size", "1000000") as box:
        assert put(box, "a", b"x" * 1_000_000).status_code == 201
        assert code(put(box, "a", b"x" * 1_000_001)) == (413, "too_large")
        assert code(put(box, "a", iter([b"x" * 600_000] * 2))) == (413, "too_large")
        assert box.client.head("/files/content", params={"path": "a"}).headers["content-length"] == "1000000"
        assert os.listdir(box.workspace) == ["a"]


@pytest.fixture
def small_disk(shared_box: RunningBox, place: Path) -> Iterator[Path]:
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


@as_root
def test_a_full_disk_leaves_the_old_file(shared_box: RunningBox, small_disk: Path) -> None:
    put(shared_box, small_disk / "a", b"old")
    answer = put(shared_box, small_disk / "a", b"x" * (6 * MEGABYTE))
    assert code(answer) == (507, "no_space")
    assert (small_disk / "a").read_bytes() == b"old"
    assert os.listdir(small_disk) == ["a"]
    assert put(shared_box, small_disk / "a", b"new").status_code == 200


@as_root
def test_a_read_only_file_system_refuses(shared_box: RunningBox, small_disk: Path) -> None:
    put(shared_box, small_disk / "a", b"old")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert code(put(shared_box, small_disk / "a", b"new")) == (403, "read_only")
    assert code(put(shared_box, small_disk / "b", b"new")) == (403, "read_only")
    assert get(shared_box, small_disk / "a").content == b"old"


@as_root
def test_a_file_that_is_a_mount_point_is_overwritten(shared_box: RunningBox, place: Path) -> None:
    (place / "source").write_bytes(b"old content")
    (place / "mounted").touch()
    subprocess.run(["mount", "--bind", place / "source", place / "mounted"], check=True)
    try:
        assert put(shared_box, place / "mounted", b"new").status_code == 200
        assert (place / "source").read_bytes() == b"new"
    finally:
        subprocess.run(["umount", place / "mounted"], check=True)
    assert sorted(os.listdir(place)) == ["mounted", "source"]
