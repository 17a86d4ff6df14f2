"""The load generator counts what really happened."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchmarks.load import Address, LoadError, Request, drive, drive_through, exchange, split_answer
from benchmarks.trivial import calibrate

CLOSING_SERVER = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = sys.argv[1]

    def do_GET(self):
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if sys.argv[1] == "HTTP/1.1":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def server_that_closes(protocol: str) -> Iterator[Address]:
    """A server that ends each connection after one answer, with notice (1.1) or without (1.0)."""
    command = [sys.executable, "-c", CLOSING_SERVER, protocol]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.terminate()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def answers_with(path: str) -> Request:
    return Request(get(path), lambda status, body: status == 200 and body == path.encode())


@pytest.mark.parametrize("clients", [1, 8])
def test_a_server_that_answers_everything_leaves_nothing_wrong_or_missing(clients: int) -> None:
    outcome = calibrate(clients, 0.1)
    assert outcome.right > clients
    assert (outcome.wrong, outcome.unanswered, outcome.reconnects) == (0, 0, 0)
    assert outcome.asked == outcome.right
    assert 0 < max(outcome.latencies) < 1000 * outcome.seconds


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_a_connection_the_server_closes_is_opened_again(protocol: str) -> None:
    with server_that_closes(protocol) as address:
        outcome = drive(address, [[answers_with("/a"), answers_with("/b")]] * 2, 0.2, 10)
    assert outcome.right > 4
    assert outcome.reconnects > 0
    assert (outcome.wrong, outcome.unanswered) == (0, 0)


def test_an_answer_that_belongs_to_another_request_is_wrong() -> None:
    stale = Request(get("/now"), lambda status, body: body == b"/before")
    with server_that_closes("HTTP/1.1") as address:
        outcome = drive(address, [[answers_with("/now"), stale]], 0.2, 10)
    assert outcome.right > 0
    assert abs(outcome.wrong - outcome.right) <= 1
    assert "/now" in outcome.example


def test_every_client_asks_at_least_once_and_its_answer_is_awaited() -> None:
    with server_that_closes("HTTP/1.1") as address:
        outcome = drive(address, [[answers_with(f"/{number}")] for number in range(5)], 0.0, 10)
    assert outcome.right == 5


def test_a_script_can_be_sent_once_and_each_of_its_requests_is_answered() -> None:
    scripts = [[answers_with(f"/{client}/{number}") for number in range(7)] for client in range(3)]
    with server_that_closes("HTTP/1.1") as address:
        outcome = drive_through(address, scripts, 10)
    assert (outcome.right, outcome.wrong, outcome.unanswered) == (21, 0, 0)


def test_clients_with_a_pace_ask_no_more_often_than_that() -> None:
    with server_that_closes("HTTP/1.1") as address:
        outcome = drive(address, [[answers_with("/a")]] * 4, 0.35, 10, pace=0.1)
    assert 4 <= outcome.right <= 4 * (1 + outcome.seconds / 0.1)
    assert (outcome.wrong, outcome.unanswered) == (0, 0)


def test_a_large_answer_is_exchanged_whole() -> None:
    path = "/" + "a" * 60_000
    with server_that_closes("HTTP/1.1") as address:
        assert exchange(address, get(path)) == (200, path.encode())


def test_nobody_there_is_an_error_and_not_a_result() -> None:
    with server_that_closes("HTTP/1.1") as address:
        pass
    with pytest.raises(LoadError, match="cannot connect"):
        drive(address, [[answers_with("/")]], 0.1, 5)


def test_one_request_can_be_exchanged_alone() -> None:
    with server_that_closes("HTTP/1.1") as address:
        assert exchange(address, get("/hello")) == (200, b"/hello")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-le", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", (200, b"abcd", False)),
        (b"HTTP/1.1 500 Oh\r\ncontent-length:0\r\nConnection: close\r\n\r\n", (500, b"", True)),
    ],
)
def test_an_answer_is_read_when_all_of_it_is_there(
    data: bytes, expected: tuple[int, bytes, bool] | None
) -> None:
    assert split_answer(data) == expected


def test_an_answer_without_a_length_is_refused() -> None:
    with pytest.raises(LoadError, match="without a length"):
        split_answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
