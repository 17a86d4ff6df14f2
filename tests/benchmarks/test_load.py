"""The load generator counts what really happened."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchmarks.connection import Address, exchange
from benchmarks.load import Request, drive, drive_through
from benchmarks.processes import Failed

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
def server_that_closes(protocol: str = "HTTP/1.1") -> Iterator[Address]:
    """A server that ends each connection after one answer, with notice (1.1) or without (1.0)."""
    command = [sys.executable, "-c", CLOSING_SERVER, protocol]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.terminate()


def get(path: str, right: str = "") -> Request:
    raw = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    return Request(raw, lambda status, body: status == 200 and body == (right or path).encode())


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_a_connection_the_server_closes_is_opened_again(protocol: str) -> None:
    with server_that_closes(protocol) as address:
        outcome = drive(address, [[get("/a"), get("/b")]] * 2, 0.2, 10)
    assert outcome.right > 4
    assert outcome.reconnects > 0
    assert outcome.bad == 0
    assert 0 < max(outcome.values) < 1000 * outcome.seconds


def test_an_answer_that_belongs_to_another_request_is_wrong_and_not_timed() -> None:
    with server_that_closes() as address:
        outcome = drive(address, [[get("/now"), get("/now", right="/before")]], 0.2, 10)
    assert outcome.right > 0
    assert abs(outcome.wrong - outcome.right) <= 1
    assert "/now" in outcome.example


def test_a_script_can_be_sent_once_and_each_of_its_requests_is_answered() -> None:
    scripts = [[get(f"/{client}/{number}") for number in range(7)] for client in range(3)]
    with server_that_closes() as address:
        outcome = drive_through(address, scripts, 10)
    assert (outcome.right, outcome.bad) == (21, 0)


def test_clients_with_a_pace_send_no_more_often_than_that() -> None:
    with server_that_closes() as address:
        outcome = drive(address, [[get("/a")]] * 4, 0.35, 10, pace=0.1)
    assert 4 <= outcome.right <= 4 * (1 + outcome.seconds / 0.1)
    assert outcome.bad == 0


def test_a_dead_server_is_an_error_and_not_a_result() -> None:
    with server_that_closes() as address:
        large = "/" + "a" * 60_000
        assert exchange(address, get(large).raw) == (200, large.encode())
    with pytest.raises(Failed, match="the connection broke"):
        drive(address, [[get("/")]], 0.1, 5)
    with pytest.raises(Failed, match="cannot connect"):
        exchange(address, get("/").raw)
