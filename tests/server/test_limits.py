"""What a box takes from callers whose key it does not know."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hub.hubs import RunningHub, running_hub
from tests.server.wire import Wire, cpu_seconds, wire
from tests.support.running import RunningBox, running_box, wait_until

pytestmark = pytest.mark.attack

#: What is sent in the attacks, and what reading it may cost; in quadratic time it was seconds.
MUCH = 40 << 20
CHEAP = 1.0
QUICK = ("--request-head-seconds", "1")
SECURITY = ("content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy")


@pytest.fixture(scope="module", params=["box", "hub"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBox | RunningHub]:
    directory = tmp_path_factory.mktemp("limits")
    with contextlib.ExitStack() as stack:
        if request.param == "box":
            yield stack.enter_context(running_box(directory / "workspace"))
        else:
            yield stack.enter_context(running_hub(directory))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box that is not patient."""
    with running_box(tmp_path_factory.mktemp("quick") / "workspace", *QUICK) as box:
        yield box


def refused(answer: tuple[int, dict[str, str], bytes], status: int, code: str) -> None:
    """Check that a caller was refused, and told so as by any endpoint."""
    given, headers, body = answer
    assert (given, headers.get("x-glovebox-error"), headers.get("connection")) == (status, code, "close")
    assert json.loads(body)["detail"]
    assert all(name in headers for name in SECURITY)


def flood(connection: Wire, begin: bytes, piece: bytes) -> None:
    """Send much, unless the other side has heard enough."""
    sent = len(begin)
    going = connection.send(begin)
    while going and sent < MUCH:
        going = connection.send(piece)
        sent += len(piece)


@pytest.mark.parametrize(
    ("begin", "piece", "status", "code"),
    [
        (b"GET /alive?", b"a" * 65536, 414, "url_too_long"),
        (b"GET /alive HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * 65536, 431, "headers_too_large"),
        (b"GET /alive HTTP/1.1\r\nHost: localhost\r\n", b"a: b\r\n" * 10000, 431, "headers_too_large"),
        (b"GET /alive HTTP/1.1\r\nHost: localhost\r\n" + b"a" * 10, b"a" * 65536, 431, "headers_too_large"),
        (b"\r\n", b"\r\n" * 32768, 431, "headers_too_large"),
    ],
    ids=["address", "value", "headers", "name", "nothing"],
)
def test_a_head_without_an_end_costs_little_and_is_refused(
    server: RunningBox | RunningHub, begin: bytes, piece: bytes, status: int, code: str
) -> None:
    before = cpu_seconds(server.process.pid)
    with wire(server.url) as connection:
        flood(connection, begin, piece)
        refused(connection.answer(), status, code)
    assert cpu_seconds(server.process.pid) - before < CHEAP
    assert server.client.get("/alive").status_code == 200


@pytest.mark.parametrize(
    ("size", "status"), [(16_000, 200), (17_000, 414)], ids=["address below", "address above"]
)
def test_an_address_in_one_piece_has_a_limit(server: RunningBox, size: int, status: int) -> None:
    with wire(server.url) as connection:
        head = f"Host: {connection.host}\r\nConnection: close\r\n\r\n".encode()
        connection.send(b"GET /alive?" + b"a" * size + b" HTTP/1.1\r\n" + head)
        assert connection.answer()[0] == status


@pytest.mark.parametrize(("size", "status"), [(60_000, 200), (66_000, 431)], ids=["below", "above"])
def test_headers_in_one_piece_have_a_limit(server: RunningBox, size: int, status: int) -> None:
    with wire(server.url) as connection:
        head = f"GET /alive HTTP/1.1\r\nHost: {connection.host}\r\nConnection: close\r\nX: ".encode()
        connection.send(head + b"a" * size + b"\r\n\r\n")
        assert connection.answer()[0] == status


def test_a_body_that_is_followed_by_headers_without_an_end_is_cut(server: RunningBox) -> None:
    before = cpu_seconds(server.process.pid)
    with wire(server.url) as connection:
        head = f"POST /nowhere HTTP/1.1\r\nHost: {connection.host}\r\nTransfer-Encoding: chunked\r\n\r\n"
        flood(connection, head.encode() + b"1\r\na\r\n0\r\nX: ", b"a" * 65536)
        assert not connection.send(b"a") or connection.answer()
    assert cpu_seconds(server.process.pid) - before < CHEAP


@pytest.mark.parametrize(
    "begin",
    [b"GET /alive HTTP/1.1\r\nHost: localhost\r\nX-Half:", b"GET", b"\r\n", b"GET /al\r"],
    ids=["headers", "method", "nothing", "address"],
)
def test_half_a_request_is_not_waited_for(quick: RunningBox, begin: bytes) -> None:
    with wire(quick.url) as connection:
        connection.send(begin)
        status, headers, _ = connection.answer()
        assert (status, headers.get("x-glovebox-error")) in (
            (408, "request_timeout"),
            (400, "request_invalid"),
        )


def test_half_a_request_after_a_whole_one_is_not_waited_for(quick: RunningBox) -> None:
    with wire(quick.url) as connection:
        head = f"Host: {connection.host}\r\n\r\n".encode()
        connection.send(b"GET /alive HTTP/1.1\r\n" + head + b"GET /alive HT")
        _, _, body = connection.answer()
        assert b"HTTP/1.1 408 " in body


def test_a_request_that_comes_in_drops_has_the_same_time(quick: RunningBox) -> None:
    with wire(quick.url) as connection:
        connection.send(b"GET /alive HTTP/1.1\r\n")
        letters = 0
        while connection.send(b"X-Drop: a\r\n") and letters < 1000:
            letters += 1
            with contextlib.suppress(TimeoutError):
                connection._socket.settimeout(0.05)
                if connection._socket.recv(1):
                    break
        assert letters < 1000


def test_a_connection_on_which_nothing_is_said_is_closed(quick: RunningBox) -> None:
    with wire(quick.url) as connection:
        assert connection.is_closed()


def test_a_connection_is_kept_between_requests(quick: RunningBox) -> None:
    with wire(quick.url) as connection, wire(quick.url) as other:
        request = f"GET /alive HTTP/1.1\r\nHost: {connection.host}\r\n".encode()
        connection.send(request + b"\r\n")
        assert other.is_closed()  # so it is later than the limit now
        connection.send(request + b"Connection: close\r\n\r\n")
        assert connection.answer()[2].count(b"HTTP/1.1 200 OK") == 1


def test_a_connection_is_kept_if_the_rest_of_a_request_comes_after_its_answer(quick: RunningBox) -> None:
    with wire(quick.url) as connection, wire(quick.url) as other:
        host = f"Host: {connection.host}\r\n"
        connection.send(f"POST /sessions HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n1\r\na".encode())
        assert connection.receive().startswith(b"HTTP/1.1 403 ")
        for rest in (b"\r\n", b"1\r\nb\r\n", b"0\r\n\r", b"\n"):
            connection.send(rest)
        assert other.is_closed()  # so it is later than the limit now
        connection.send(f"GET /alive HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode())
        assert connection.answer()[0] == 200


@pytest.mark.parametrize(
    "rest", ["Content-Length: 1000\r\n\r\na", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"]
)
def test_the_rest_of_a_request_that_was_refused_is_not_waited_for(quick: RunningBox, rest: str) -> None:
    with wire(quick.url) as connection:
        connection.send(f"POST /sessions HTTP/1.1\r\nHost: {connection.host}\r\n{rest[:-1]}".encode())
        assert connection.receive().startswith(b"HTTP/1.1 403 ")
        connection.send(rest[-1:].encode())
        assert connection.answer()[0] in (0, 408)


def test_a_command_may_take_longer_than_the_head_of_its_request(quick: RunningBox) -> None:
    assert quick.run("sleep 2; echo there") == "there"


LIMITED = """\
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
os.execv(sys.executable, [sys.executable, "-m", "glovebox", *sys.argv[3:]])
"""


@contextlib.contextmanager
def limited_box(
    workspace: Path, soft: int, hard: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningBox]:
    """A box that may have so many descriptors."""
    popen = subprocess.Popen

    def limited(command: list[str], **options: Any) -> Any:
        return popen([sys.executable, "-c", LIMITED, str(soft), str(hard), *command[3:]], **options)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", limited)
        started = running_box(workspace, "--no-enable-browser")
        box = started.__enter__()
    try:
        yield box
    finally:
        started.__exit__(None, None, None)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """As many as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("needs more descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("said", [b"", b"GET /alive HTTP/1.1\r\nHost: x\r\nX-Half:"], ids=["nothing", "half"])
@pytest.mark.usefixtures("many_descriptors")
def test_many_connections_do_not_shut_the_box_for_those_with_a_key(
    tmp_path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with limited_box(tmp_path / "workspace", 512, 512, monkeypatch) as box, contextlib.ExitStack() as stack:
        box.run("true")
        for _ in range(1100):
            stack.enter_context(wire(box.url)).send(said)
        with httpx.Client(trust_env=False, headers={"X-Session-API-Key": box.key}, timeout=60) as client:
            assert client.get(f"{box.url}/sessions").status_code == 200
        assert box.run("echo served") == "served"


@pytest.mark.usefixtures("many_descriptors")
def test_idle_connections_without_a_key_make_room_and_those_with_one_stay(tmp_path: Path) -> None:
    few = ("--connections-per-peer", "20")
    with running_box(tmp_path / "workspace", *few) as box, contextlib.ExitStack() as stack:
        request = "GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
        known = stack.enter_context(wire(box.url))
        known.send(request.format("/sessions", f"X-Session-API-Key: {box.key}\r\n").encode())
        first = stack.enter_context(wire(box.url))
        first.send(request.format("/sessions", "").encode())
        first.receive()
        made: list[Wire] = []

        def more() -> bool:  # those that are fresh stay, so it takes some seconds
            made.append(stack.enter_context(wire(box.url)))
            made[-1].send(request.format("/alive", "").encode())
            made[-1].receive()
            first._socket.settimeout(0.05)
            try:
                return first.is_closed()
            except TimeoutError:
                return False

        wait_until(more, 60, "the first to be closed")
        known.send(request.format("/alive", "Connection: close\r\n").encode())
        assert known.answer()[2].count(b"HTTP/1.1 200 OK") == 1


@pytest.mark.usefixtures("many_descriptors")
def test_a_thousand_clients_at_once_are_all_served(tmp_path: Path) -> None:
    """On loopback they are one peer, and none of them has a key."""
    with running_box(tmp_path / "workspace", key="") as box, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(wire(box.url)) for _ in range(1000)]
        for client in clients:
            client.send(
                f"GET /sessions HTTP/1.1\r\nHost: {client.host}\r\nConnection: close\r\n\r\n".encode()
            )
        assert {client.answer()[0] for client in clients} == {200}


def test_the_server_may_have_all_descriptors_and_commands_as_many_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with limited_box(tmp_path / "workspace", 300, 4000, monkeypatch) as box:
        assert resource.prlimit(box.process.pid, resource.RLIMIT_NOFILE) == (4000, 4000)
        assert box.run("ulimit -Sn; ulimit -Hn").split() == ["300", "4000"]


RUN = {"action": "run", "args": {"command": "true"}}
JSON = "Content-Type: application/json\r\n"


def test_a_body_that_is_announced_to_be_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with running_box(tmp_path / "workspace", "--max-body-size", "1M") as box, wire(box.url) as connection:
        head = f"POST /execute_action HTTP/1.1\r\nHost: {connection.host}\r\n{JSON}"
        head += f"X-Session-API-Key: {box.key}\r\nConnection: close\r\n"
        connection.send(f"{head}Content-Length: {2 << 20}\r\n\r\n".encode())
        status, headers, _ = connection.answer()
        assert (status, headers["x-glovebox-error"]) == (413, "too_large")
        fits = box.client.post("/execute_action", json={"action": RUN, "x": "a" * 1_000_000})
        assert fits.status_code == 200


@pytest.mark.parametrize("path", ["/execute_action", "/tools/call", "/update_mcp_server", "/sessions"])
def test_a_body_in_pieces_is_read_up_to_the_limit(tmp_path: Path, path: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'"'
        for _ in range(1 << 10):
            yield b"a" * 65536

    with running_box(tmp_path / "workspace", "--max-body-size", "1M") as box:
        answer = box.client.post(path, content=pieces(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.headers["x-glovebox-error"]) == (413, "too_large")
        assert box.run("echo there") == "there"


def test_an_upload_may_be_larger_than_other_bodies(tmp_path: Path) -> None:
    with running_box(tmp_path / "workspace", "--max-body-size", "1M") as box:
        file = {"file": ("large.bin", b"a" * (3 << 20))}
        answer = box.client.post("/upload_file", params={"destination": str(tmp_path)}, files=file)
        assert answer.status_code == 200
        assert (tmp_path / "large.bin").stat().st_size == 3 << 20


def test_a_request_that_is_none_is_answered_as_any_error_is(server: RunningBox) -> None:
    with wire(server.url) as connection:
        connection.send(b"this is not HTTP\r\n\r\n")
        refused(connection.answer(), 400, "request_invalid")


@pytest.mark.parametrize(
    ("address", "header", "status"),
    [("a" * 9000, "", 414), ("", f"X: {'a' * 9000}\r\n", 431), ("", "X: a\r\n" * 200, 431)],
    ids=["address", "header", "headers"],
)
def test_a_websocket_whose_head_is_too_large_is_refused(
    server: RunningBox, address: str, header: str, status: int
) -> None:
    with wire(server.url) as connection:
        connection.send(
            f"GET /sessions/main/attach?{address} HTTP/1.1\r\nHost: {connection.host}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {'a' * 22}==\r\n{header}"
            "\r\n".encode()
        )
        assert connection.answer()[0] == status


@pytest.mark.parametrize(
    ("method", "header"),
    [("POST", ""), ("GET", "Content-Length: 2\r\n"), ("GET", "Sec-WebSocket-Key: a\r\n")],
)
def test_what_is_no_handshake_of_a_websocket_is_answered(
    server: RunningBox, method: str, header: str
) -> None:
    with wire(server.url) as connection:
        connection.send(
            f"{method} /sessions/main/attach HTTP/1.1\r\nHost: {connection.host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'a' * 22}==\r\n{header}"
            "\r\n".encode()
        )
        status, headers, _ = connection.answer()
        assert (status in (400, 405), headers["x-glovebox-error"]) == (True, "request_invalid")
        assert all(name in headers for name in SECURITY)
