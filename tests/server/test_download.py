from __future__ import annotations

import http.client
import io
import os
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from tests.server.serving import descriptors, serving_transfer
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving_transfer("/") as port:
        yield port


@pytest.fixture
def client(port: int) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LIMIT, trust_env=False) as client:
        yield client


def download(client: httpx.Client, path: Path | str) -> httpx.Response:
    return client.get("/download_files", params={"path": str(path)})


def contents(answer: httpx.Response) -> dict[str, bytes]:
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    assert int(answer.headers["content-length"]) == len(answer.content)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def request(port: int, path: Path) -> socket.socket:
    """A connection whose client has asked for a download and not read any of it."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    query = urlencode({"path": path})
    connection.sendall(f"GET /download_files?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return connection


def is_open(path: Path) -> bool:
    """Whether this process, which is the server too, has the file open."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}") == str(path):
                return True
        except FileNotFoundError:
            continue
    return False


def test_a_directory_comes_as_a_zip(client: httpx.Client, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    (tree / "d/e").mkdir(parents=True)
    (tree / "a.txt").write_text("A\n")
    (tree / "d/b.bin").write_bytes(bytes(range(256)) * 20_000)
    (tree / "d/e/empty").touch()
    answer = download(client, tree)
    assert answer.headers["content-disposition"] == 'attachment; filename="t.zip"'
    assert contents(answer) == {
        "a.txt": b"A\n",
        "d/b.bin": bytes(range(256)) * 20_000,
        "d/e/empty": b"",
    }


def test_a_single_file_comes_as_a_zip_of_it(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("f\n")
    answer = download(client, tmp_path / "f.txt")
    assert answer.headers["content-disposition"] == 'attachment; filename="f.txt.zip"'
    assert contents(answer) == {"f.txt": b"f\n"}


def test_an_empty_directory_comes_as_an_empty_zip(client: httpx.Client, tmp_path: Path) -> None:
    assert contents(download(client, tmp_path)) == {}


def test_links_to_files_are_followed_and_to_directories_not(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "ln").mkdir()
    (tmp_path / "a.txt").write_text("A\n")
    (tmp_path / "ln/a").symlink_to("../a.txt")
    (tmp_path / "ln/dir").symlink_to("..")
    (tmp_path / "ln/dangling").symlink_to("nowhere")
    assert contents(download(client, tmp_path / "ln")) == {"a": b"A\n"}


def test_a_name_that_is_not_ascii_is_offered_in_the_long_form(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "uni ü").mkdir()
    (tmp_path / "uni ü/日本.txt").write_text("u\n")
    answer = download(client, tmp_path / "uni ü")
    assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''uni%20%C3%BC.zip"
    assert contents(answer) == {"日本.txt": b"u\n"}


def test_a_quote_or_a_line_break_cannot_get_into_the_header(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / 'a"b\r\nX: y').mkdir()
    answer = download(client, tmp_path / 'a"b\r\nX: y')
    assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''a%22b%0D%0AX%3A%20y.zip"


def test_a_trailing_slash_leaves_the_name_empty(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    answer = download(client, f"{tmp_path}/")
    assert answer.headers["content-disposition"] == 'attachment; filename=".zip"'
    assert contents(answer) == {"x": b"x"}


def test_of_two_paths_the_last_one_counts(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    query = urlencode([("path", "/none/such"), ("path", str(tmp_path))])
    assert contents(client.get(f"/download_files?{query}")) == {"x": b"x"}


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/none/such", "404: File not found"),
        ("/tmp/nul\0nul", "404: File not found"),
        ("", "400: Path must be an absolute path"),
        ("relative", "400: Path must be an absolute path"),
        ("/dev/null", "/dev/null is neither a directory nor a regular file"),
    ],
)
def test_a_path_that_cannot_be_downloaded_is_refused(client: httpx.Client, path: str, detail: str) -> None:
    answer = download(client, path)
    assert answer.status_code == 500
    assert answer.json() == {"detail": detail}
    assert answer.headers["x-glovebox-error"] == "transfer_failed"


def test_a_path_is_required(client: httpx.Client) -> None:
    answer = client.get("/download_files")
    assert answer.status_code == 422
    assert answer.headers["x-glovebox-error"] == "request_invalid"
    assert answer.json() == {
        "detail": "Invalid request parameters",
        "errors": "[{'type': 'missing', 'loc': ('query', 'path'), 'msg': 'Field required', 'input': None}]",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_is_named(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0o000)
    answer = download(client, tmp_path)
    assert answer.status_code == 500
    assert answer.json() == {"detail": f"[Errno 13] Permission denied: '{tmp_path}/secret'"}


def test_a_client_that_goes_away_leaves_no_thread_and_no_descriptor(port: int, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(100 << 30)  # nobody could read it to the end meanwhile
    with request(port, tmp_path) as warm:
        assert warm.recv(100)
    wait_until(lambda: not is_open(large), what="the first download to end")
    before = descriptors()
    for _ in range(10):
        with request(port, tmp_path) as connection:
            assert connection.recv(100_000)
            wait_until(lambda: is_open(large), what="the download to begin")
        wait_until(lambda: not is_open(large), what="the download to end")
    wait_until(lambda: descriptors() <= before, what="descriptors to be closed")
    assert len([thread for thread in threading.enumerate() if "test-transfer" in thread.name]) <= 4


def test_clients_that_do_not_read_hold_up_nobody(port: int, client: httpx.Client, tmp_path: Path) -> None:
    slow, quick = tmp_path / "slow", tmp_path / "quick"
    slow.mkdir()
    quick.mkdir()
    (slow / "large").write_bytes(bytes(50_000_000))
    (quick / "x").write_text("x")
    connections = [request(port, slow) for _ in range(10)]
    try:
        assert contents(download(client, quick)) == {"x": b"x"}
    finally:
        for connection in connections:
            connection.close()
    wait_until(lambda: not is_open(slow / "large"), what="the downloads to end")


def test_a_file_that_shrinks_meanwhile_cuts_the_connection(port: int, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(50_000_000))
    with request(port, tmp_path) as connection:
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 200
        answer.read(1000)
        os.truncate(large, 1000)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_a_file_that_vanishes_meanwhile_cuts_the_connection(port: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(50_000_000))
    (tmp_path / "b").write_text("soon gone")
    with request(port, tmp_path) as connection:
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        answer.read(1000)
        (tmp_path / "b").unlink()
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_many_small_files_come_quickly_over_one_connection(client: httpx.Client, tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number}").write_text(f"{number}")
    found = contents(download(client, tmp_path))
    assert found == {f"{number}": b"%d" % number for number in range(3000)}
    assert contents(download(client, tmp_path)) == found
