from __future__ import annotations

import http.client
import io
import os
import socket
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import psutil
import pytest

from glovebox.archives.safe_directory import PART_PREFIX
from glovebox.archives.zip_records import UnpackLimits
from glovebox.box.threads import Threads
from tests.server.serving import descriptors, serving, serving_transfer, transfer_app
from tests.support.running import wait_until
from tests.support.waiting import LIMIT

BOUNDARY = "----a-boundary"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving_transfer("/") as port:
        yield port


def connected(port: int) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LIMIT, trust_env=False)


@pytest.fixture
def client(port: int) -> Iterator[httpx.Client]:
    with connected(port) as client:
        yield client


def part(data: bytes, filename: str | None, field: str = "file") -> bytes:
    name = "" if filename is None else f'; filename="{filename}"'
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"{name}\r\n\r\n'
    return head.encode() + data + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def send(client: httpx.Client, destination: Path | str, body: bytes, **query: str) -> httpx.Response:
    return client.post(
        "/upload_file",
        params={"destination": str(destination), **query},
        content=body,
        headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
    )


def upload(
    client: httpx.Client, destination: Path | str, filename: str, data: bytes, **query: str
) -> httpx.Response:
    return send(client, destination, form(part(data, filename)), **query)


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in files.items():
            zipped.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def parts_left(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.name.startswith(PART_PREFIX)]


def begin(port: int, destination: Path, body: bytes, announced: int) -> socket.socket:
    """A connection on which an upload has begun."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    head = (
        f"POST /upload_file?{urlencode({'destination': destination})} HTTP/1.1\r\n"
        f"Host: 127.0.0.1\r\nContent-Length: {announced}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def test_a_file_arrives_as_it_was_sent_with_the_mode_of_a_new_file(
    client: httpx.Client, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 10_000
    answer = upload(client, tmp_path / "new" / "deep", "b.bin", data)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == f'{{"filename":"b.bin","destination":"{tmp_path}/new/deep","recursive":false}}'
    assert (tmp_path / "new/deep/b.bin").read_bytes() == data
    (tmp_path / "made here").touch()
    ours = (tmp_path / "made here").stat().st_mode
    assert (tmp_path / "new/deep/b.bin").stat().st_mode == ours
    assert parts_left(tmp_path) == []


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_any_size_arrives_whole(client: httpx.Client, tmp_path: Path, size: int) -> None:
    data = (b"\r\n--" + BOUNDARY.encode()[:-1]) * (size // 16 + 1)
    assert upload(client, tmp_path, "x", data[:size]).status_code == 200
    assert (tmp_path / "x").read_bytes() == data[:size]


def test_a_body_that_comes_byte_by_byte_is_understood(port: int, tmp_path: Path) -> None:
    body = form(part(b"first", "one.txt"), part(b"second\r\n", "two.txt"))
    with begin(port, tmp_path, b"", len(body)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for index in range(len(body)):
            connection.sendall(body[index : index + 1])
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert (tmp_path / "two.txt").read_bytes() == b"second\r\n"


def test_a_chunked_body_needs_no_length(client: httpx.Client, tmp_path: Path) -> None:
    body = form(part(b"x" * 100_000, "x.txt"))
    answer = client.post(
        "/upload_file",
        params={"destination": str(tmp_path)},
        content=iter([body[:50_000], body[50_000:]]),
        headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
    )
    assert answer.status_code == 200
    assert (tmp_path / "x.txt").stat().st_size == 100_000


def test_an_existing_file_keeps_its_mode_and_owner(client: httpx.Client, tmp_path: Path) -> None:
    target = tmp_path / "run.sh"
    target.write_text("old")
    target.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(target, 1234, 1234)
    before = target.stat()
    assert upload(client, tmp_path, "run.sh", b"new").status_code == 200
    after = target.stat()
    assert target.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_of_two_files_the_last_one_counts(client: httpx.Client, tmp_path: Path) -> None:
    answer = send(client, tmp_path, form(part(b"1", "one.txt"), part(b"2", "two.txt")))
    assert answer.json()["filename"] == "two.txt"
    assert os.listdir(tmp_path) == ["two.txt"]


def test_the_last_file_counts_even_if_the_first_would_have_been_refused(
    client: httpx.Client, tmp_path: Path
) -> None:
    assert send(client, tmp_path, form(part(b"1", ".."), part(b"2", "two.txt"))).status_code == 200
    assert os.listdir(tmp_path) == ["two.txt"]


def test_fields_and_other_files_are_passed_over(client: httpx.Client, tmp_path: Path) -> None:
    body = form(
        part(b"/elsewhere", None, "destination"),
        part(b"no", "other.txt", "other"),
        part(b"yes", "a.txt"),
        part(b"no", None),
    )
    assert send(client, tmp_path, body).status_code == 200
    assert os.listdir(tmp_path) == ["a.txt"]


def test_names_are_unicode(client: httpx.Client, tmp_path: Path) -> None:
    assert upload(client, tmp_path, "日本 ü.txt", b"x").json()["filename"] == "日本 ü.txt"
    assert os.listdir(tmp_path) == ["日本 ü.txt"]


@pytest.mark.parametrize(
    ("filename", "place"),
    [
        ("../esc.txt", "esc.txt"),
        ("../../../../../../esc.txt", "esc.txt"),
        ("/esc.txt", "esc.txt"),
        ("sub/../../esc.txt", "esc.txt"),
        ("./sub//./in.txt", "sub/in.txt"),
        ("..esc.txt", "..esc.txt"),
    ],
)
def test_a_name_cannot_climb_out_of_the_destination(
    client: httpx.Client, tmp_path: Path, filename: str, place: str
) -> None:
    destination = tmp_path / "a" / "b"
    (destination / "sub").mkdir(parents=True)
    answer = upload(client, destination, filename, b"x")
    assert answer.status_code == 200
    assert answer.json()["filename"] == filename
    assert (destination / place).read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["a"]
    assert os.listdir(tmp_path / "a") == ["b"]


@pytest.mark.parametrize("filename", ["", ".", "..", "/", "sub/", "sub/..", "a\\b.txt", "..\\b.txt"])
def test_a_name_that_names_no_file_is_refused(client: httpx.Client, tmp_path: Path, filename: str) -> None:
    (tmp_path / "sub").mkdir()
    answer = upload(client, tmp_path, filename, b"x")
    assert answer.status_code == 500
    assert answer.headers["x-glovebox-error"] == "transfer_failed"
    assert "File name must" in answer.json()["detail"]
    assert os.listdir(tmp_path) == ["sub"]


def test_a_name_with_nul_is_refused(client: httpx.Client, tmp_path: Path) -> None:
    answer = upload(client, tmp_path, "a\0b", b"x")
    assert answer.status_code == 500
    assert "NUL" in answer.json()["detail"]


def test_a_name_that_is_too_long_is_refused(client: httpx.Client, tmp_path: Path) -> None:
    answer = upload(client, tmp_path, "x" * 300, b"x")
    assert answer.status_code == 500
    assert answer.json()["detail"] == f"[Errno 36] File name too long: '{tmp_path}/{'x' * 300}'"
    assert os.listdir(tmp_path) == []


def test_the_directory_of_a_name_must_exist(client: httpx.Client, tmp_path: Path) -> None:
    answer = upload(client, tmp_path, "sub/x.txt", b"x")
    assert answer.status_code == 500
    assert answer.json() == {"detail": f"[Errno 2] No such file or directory: '{tmp_path}/sub/x.txt'"}
    (tmp_path / "sub").mkdir()
    assert upload(client, tmp_path, "sub/x.txt", b"x").status_code == 200


def test_a_destination_that_is_a_file_is_refused(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "f.txt").touch()
    answer = upload(client, tmp_path / "f.txt", "a.txt", b"x")
    assert answer.status_code == 500
    assert answer.json() == {"detail": f"[Errno 20] Not a directory: '{tmp_path}/f.txt/a.txt'"}
    answer = upload(client, tmp_path / "f.txt/d", "a.txt", b"x")
    assert answer.json() == {"detail": f"[Errno 20] Not a directory: '{tmp_path}/f.txt/d'"}


def test_a_directory_is_not_replaced(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    answer = upload(client, tmp_path, "d", b"x")
    assert answer.status_code == 500
    assert answer.json() == {"detail": f"[Errno 21] Is a directory: '{tmp_path}/d'"}
    assert parts_left(tmp_path) == []


def test_a_special_file_is_not_replaced(client: httpx.Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    answer = upload(client, tmp_path, "pipe", b"x")
    assert answer.status_code == 500
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_destination_without_permission_is_named(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    answer = upload(client, tmp_path / "shut", "a.txt", b"x")
    assert answer.json() == {"detail": f"[Errno 13] Permission denied: '{tmp_path}/shut/a.txt'"}


def test_a_link_to_a_directory_outside_is_not_followed(client: httpx.Client, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (inside / "real").mkdir(parents=True)
    (inside / "out").symlink_to(outside)
    (inside / "near").symlink_to("real")
    refused = upload(client, inside, "out/x.txt", b"x")
    assert refused.status_code == 500
    assert refused.json() == {"detail": f"{inside}/out leads outside {inside}"}
    assert os.listdir(outside) == []
    assert upload(client, inside, "near/x.txt", b"x").status_code == 200
    assert (inside / "real/x.txt").read_bytes() == b"x"


def test_a_link_in_the_place_of_the_file_is_replaced_not_followed(
    client: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("old")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").symlink_to(tmp_path / "precious")
    assert upload(client, tmp_path / "d", "x", b"new").status_code == 200
    assert (tmp_path / "precious").read_text() == "old"
    assert not (tmp_path / "d/x").is_symlink()


def test_a_destination_may_be_a_link(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert upload(client, tmp_path / "link", "x", b"x").status_code == 200
    assert (tmp_path / "real/x").exists()


def test_a_zip_is_unpacked_and_gone(client: httpx.Client, tmp_path: Path) -> None:
    data = archive({"a.txt": b"A\n", "d/": b"", "d/b.txt": b"B\n", "empty/": b""})
    for recursive in ("false", "true"):
        destination = tmp_path / recursive
        answer = upload(client, destination, "t.zip", data, recursive=recursive)
        assert answer.status_code == 200
        assert answer.json()["recursive"] is (recursive == "true")
        found = sorted(str(path.relative_to(destination)) for path in destination.rglob("*"))
        assert found == ["a.txt", "d", "d/b.txt", "empty"]
        assert (destination / "d/b.txt").read_text() == "B\n"


def test_what_is_not_a_zip_stays_under_its_name(client: httpx.Client, tmp_path: Path) -> None:
    answer = upload(client, tmp_path / "bad", "bad.zip", b"this is no zip")
    assert answer.status_code == 500
    assert answer.json() == {"detail": f"{tmp_path}/bad/bad.zip is not a zip file"}
    assert answer.headers["x-glovebox-error"] == "bad_archive"
    assert os.listdir(tmp_path / "bad") == ["bad.zip"]


def test_a_zip_entry_outside_is_left_out(client: httpx.Client, tmp_path: Path) -> None:
    data = archive({"../outside.txt": b"o", "/abs.txt": b"o", "d/../../up.txt": b"o", "in.txt": b"i"})
    assert upload(client, tmp_path / "evil", "evil.zip", data).status_code == 200
    assert os.listdir(tmp_path) == ["evil"]
    assert os.listdir(tmp_path / "evil") == ["in.txt"]


def test_recursive_uploads_must_be_zips(client: httpx.Client, tmp_path: Path) -> None:
    answer = upload(client, tmp_path, "r.txt", b"x", recursive="true")
    assert answer.status_code == 500
    assert answer.json() == {"detail": "400: Recursive uploads must be zip files"}
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", ["TRUE", "1", "yes", "On", "t", "y"])
def test_recursive_may_be_said_in_many_ways(client: httpx.Client, tmp_path: Path, value: str) -> None:
    assert (
        upload(client, tmp_path, "z.zip", archive({"x": b"x"}), recursive=value).json()["recursive"] is True
    )


def test_recursive_must_be_a_boolean(client: httpx.Client, tmp_path: Path) -> None:
    answer = upload(client, tmp_path, "r.zip", b"x", recursive="maybe")
    assert answer.status_code == 422
    assert answer.headers["x-glovebox-error"] == "request_invalid"
    assert answer.json() == {
        "detail": "Invalid request parameters",
        "errors": "[{'type': 'bool_parsing', 'loc': ('query', 'recursive'), 'msg': 'Input should be a valid "
        "boolean, unable to interpret input', 'input': 'maybe'}]",
    }


def test_the_destination_must_be_absolute(client: httpx.Client) -> None:
    answer = upload(client, "rel", "a.txt", b"x")
    assert answer.status_code == 500
    assert answer.json() == {"detail": "400: Destination must be an absolute path"}
    assert answer.headers["x-glovebox-error"] == "transfer_failed"


def test_a_file_is_required(client: httpx.Client, tmp_path: Path) -> None:
    missing = {
        "detail": "Invalid request parameters",
        "errors": "[{'type': 'missing', 'loc': ('body', 'file'), 'msg': 'Field required', 'input': None}]",
    }
    where = {"destination": str(tmp_path)}
    answers = [
        client.post("/upload_file", params=where, json={"file": "x"}),
        client.post("/upload_file", params=where, data={"file": "x"}),
        client.post("/upload_file", params=where),
        send(client, tmp_path, b""),
        send(client, tmp_path, form()),
        send(client, tmp_path, form(part(b"x", "a.txt", "upload"))),
        send(client, tmp_path, form(part(b"x", None))),
    ]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(422, missing)] * len(answers)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "body",
    [
        b"no boundary at all",
        part(b"cut off", "a.txt"),
        part(b"cut off", "a.txt")[:-9],
        form(f"--{BOUNDARY}\r\nbad header\r\n\r\nx\r\n".encode()),
        form(f"--{BOUNDARY}\r\nX: {'x' * 20_000}\r\n\r\nx\r\n".encode()),
        form(f"--{BOUNDARY}\r\n".encode() + b"X: y\r\n" * 20 + b"\r\nx\r\n"),
        form(f"--{BOUNDARY}\r\nX: no name\r\n\r\nx\r\n".encode()),
        form(*[part(b"", None, "f")] * 1001),
    ],
)
def test_a_body_that_is_not_multipart_is_refused_and_leaves_nothing(
    client: httpx.Client, tmp_path: Path, body: bytes
) -> None:
    answer = send(client, tmp_path, body)
    assert answer.status_code == 400
    assert answer.headers["x-glovebox-error"] == "request_invalid"
    assert os.listdir(tmp_path) == []


def test_a_boundary_is_required(client: httpx.Client) -> None:
    answer = client.post("/upload_file", content=b"x", headers={"Content-Type": "multipart/form-data"})
    assert answer.status_code == 400
    assert answer.json() == {"detail": "Missing boundary in multipart."}


def test_a_client_that_goes_away_leaves_the_old_file_and_nothing_else(port: int, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("old")
    before = descriptors()
    beginning = form(part(b"n" * 3_000_000, "x.txt"))[:-100]
    for _ in range(5):
        with begin(port, tmp_path, beginning, len(beginning) + 1000):
            wait_until(lambda: len(parts_left(tmp_path)) == 1, what="the upload to begin")
        wait_until(lambda: parts_left(tmp_path) == [], what="the upload to be given up")
    assert os.listdir(tmp_path) == ["x.txt"]
    assert (tmp_path / "x.txt").read_text() == "old"
    wait_until(lambda: descriptors() <= before, what="descriptors to be closed")


def test_the_old_file_is_there_until_the_new_one_is_complete(port: int, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("old")
    body = form(part(b"n" * 3_000_000, "x.txt"))
    with begin(port, tmp_path, body[:-100], len(body)) as connection:
        wait_until(lambda: len(parts_left(tmp_path)) == 1, what="the upload to begin")
        assert (tmp_path / "x.txt").read_text() == "old"
        connection.sendall(body[-100:])
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert (tmp_path / "x.txt").read_bytes() == b"n" * 3_000_000


def test_many_uploads_at_once_do_not_mix(port: int, tmp_path: Path) -> None:
    body = {index: form(part(bytes([index]) * 2_500_000, f"{index}.bin")) for index in range(8)}
    connections = {index: begin(port, tmp_path, b"", len(body[index])) for index in body}
    for start in range(0, len(body[0]), 100_000):
        for index, connection in connections.items():
            connection.sendall(body[index][start : start + 100_000])
    for index, connection in connections.items():
        with connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert (tmp_path / f"{index}.bin").read_bytes() == bytes([index]) * 2_500_000
    assert parts_left(tmp_path) == []


def test_archives_that_come_at_once_into_one_directory_do_not_mix(port: int, tmp_path: Path) -> None:
    (tmp_path / "d0").mkdir()
    (tmp_path / "d0/stays").write_text("stays")
    both = [f"d{number % 5}/{number}" for number in range(200)]
    bodies = []
    for letter in (b"a", b"b", b"c"):
        files = {name: letter * (100 + 10 * number) for number, name in enumerate(both)}
        files |= {f"only/{letter.decode()}": letter}
        bodies.append(form(part(archive(files), "many.zip")))
    connections = [begin(port, tmp_path, body[:-1], len(body)) for body in bodies]
    for connection in connections:
        connection.sendall(b"\n")
    for connection in connections:
        with connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
    for number, name in enumerate(both):
        found = (tmp_path / name).read_bytes()
        assert found in [letter * (100 + 10 * number) for letter in (b"a", b"b", b"c")]
    assert sorted(os.listdir(tmp_path / "only")) == ["a", "b", "c"]
    assert (tmp_path / "d0/stays").read_text() == "stays"
    assert sorted(os.listdir(tmp_path)) == ["d0", "d1", "d2", "d3", "d4", "only"]
    assert parts_left(tmp_path) == []


def test_an_archive_that_is_cut_off_unpacks_nothing(port: int, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").write_text("old")
    data = archive({"d/x": b"new", "d/large": os.urandom(3_000_000), "e/y": b"new"})
    body = form(part(data, "many.zip"))
    for cut in (1_500_000, len(body) - 1):
        with begin(port, tmp_path, body[:cut], len(body)):
            wait_until(lambda: len(parts_left(tmp_path)) == 1, what="the upload to begin")
        wait_until(lambda: parts_left(tmp_path) == [], what="the upload to be given up")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["d", "d/x"]
    assert (tmp_path / "d/x").read_text() == "old"


def test_an_upload_that_says_it_is_too_large_is_refused_before_it_comes(tmp_path: Path) -> None:
    with (
        serving_transfer("/", max_upload_bytes=1_000_000) as port,
        begin(port, tmp_path, b"", 10_000_000_000) as connection,
    ):
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 413
        assert answer.headers["x-glovebox-error"] == "too_large"
        assert answer.read() == b'{"detail":"The upload is larger than 1000000 bytes"}'
    assert os.listdir(tmp_path) == []


def test_the_limit_is_the_file_not_the_form_around_it(tmp_path: Path) -> None:
    with serving_transfer("/", max_upload_bytes=2_000_000) as port, connected(port) as client:
        assert upload(client, tmp_path, "just", b"x" * 2_000_000).status_code == 200
        answer = upload(client, tmp_path, "over", b"x" * 2_000_001)
        assert (answer.status_code, answer.headers["x-glovebox-error"]) == (413, "too_large")
        # The connection is still good: the rest of the body was not taken for the next request.
        assert upload(client, tmp_path, "next", b"x").status_code == 200
    assert sorted(os.listdir(tmp_path)) == ["just", "next"]


def test_an_upload_without_a_length_is_refused_as_soon_as_it_is_too_large(tmp_path: Path) -> None:
    def chunk(data: bytes) -> bytes:
        return b"%x\r\n%s\r\n" % (len(data), data)

    head = (
        f"POST /upload_file?{urlencode({'destination': tmp_path})} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Transfer-Encoding: chunked\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    )
    with (
        serving_transfer("/", max_upload_bytes=1_000_000) as port,
        socket.create_connection(("127.0.0.1", port), 10) as connection,
    ):
        connection.sendall(head.encode() + chunk(part(b"", "x.bin")[:-2]))
        for _ in range(40):
            connection.sendall(chunk(b"x" * 65_536))
        assert connection.recv(12) == b"HTTP/1.1 413"
    assert os.listdir(tmp_path) == []


def test_parts_that_are_passed_over_count_too(tmp_path: Path) -> None:
    body = form(part(b"x" * 2_000_000, None, "other"), part(b"x", "small"))
    with serving_transfer("/", max_upload_bytes=1_000_000) as port, connected(port) as client:
        answer = client.post(
            "/upload_file",
            params={"destination": str(tmp_path)},
            content=iter([body]),
            headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
        )
    assert answer.status_code == 413
    assert os.listdir(tmp_path) == []


def test_an_archive_may_not_become_too_large(tmp_path: Path) -> None:
    limits = UnpackLimits(max_bytes=1_000_000)
    with serving_transfer("/", limits=limits) as port, connected(port) as client:
        answer = upload(client, tmp_path, "bomb.zip", archive({"zeros": bytes(1_000_001)}))
    assert (answer.status_code, answer.headers["x-glovebox-error"]) == (500, "bad_archive")
    assert os.listdir(tmp_path) == ["bomb.zip"]


def test_a_large_upload_does_not_grow_the_server(tmp_path: Path) -> None:
    size = 300 << 20
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.serving", "/"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        with connected(port) as client:
            assert upload(client, tmp_path, "warm", b"x" * 5_000_000).status_code == 200
            server = psutil.Process(process.pid)
            before = server.memory_info().rss
            piece = os.urandom(1 << 20)
            start, end = part(b"", "large.bin")[:-2], b"\r\n" + form()
            peak = 0

            def body() -> Iterator[bytes]:
                nonlocal peak
                yield start
                for _ in range(size >> 20):
                    yield piece
                    peak = max(peak, server.memory_info().rss)
                yield end

            answer = client.post(
                "/upload_file",
                params={"destination": str(tmp_path)},
                content=body(),
                headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
            )
            assert answer.status_code == 200
    finally:
        process.terminate()
        process.wait(LIMIT)
        process.stdout.close()
    assert (tmp_path / "large.bin").stat().st_size == size
    assert peak - before < 10 << 20
    assert sorted(os.listdir(tmp_path)) == ["large.bin", "warm"]


def test_an_upload_that_the_server_cannot_finish_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("old")
    threads = Threads("test-closing", 2)
    body = form(part(b"n" * 5_000_000, "x.txt"))
    with serving(transfer_app("/", threads)) as port:
        before = descriptors()
        with begin(port, tmp_path, body[:2_500_000], len(body)) as connection:
            wait_until(lambda: len(parts_left(tmp_path)) == 1, what="the upload to begin")
            threads.close()
            connection.sendall(body[2_500_000:])
            assert connection.recv(12) == b"HTTP/1.1 500"
        wait_until(lambda: os.listdir(tmp_path) == ["x.txt"], what="the part to be removed")
        wait_until(lambda: descriptors() <= before, what="descriptors to be closed")
    assert (tmp_path / "x.txt").read_text() == "old"
