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
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def server_that_closes() -> Iterator[Address]:
    """A server that ends each connection after one answer."""
    with subprocess.Popen(
        [sys.executable, "-c", CLOSING_SERVER], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.terminate()


def get(path: str, right: str = "") -> Request:
    raw = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    return Request(raw, lambda status, body: status == 200 and body == (right or path).encode())


def test_a_connection_the_server_closes_is_opened_again() -> None:
    with server_that_closes() as address:
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


def test_a_dead_server_is_an_error_and_not_a_result() -> None:
    with server_that_closes() as address:
        large = "/" + "a" * 60_000
        assert exchange(address, get(large).raw) == (200, large.encode())
    with pytest.raises(Failed, match="the connection broke"):
        drive(address, [[get("/")]], 0.1, 5)
    with pytest.raises(Failed, match="cannot connect"):
        exchange(address, get("/").raw)
