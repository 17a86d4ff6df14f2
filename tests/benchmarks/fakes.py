"""Real servers on loopback that answer as a test tells them to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.connection import Site
from benchmarks.harness import REFERENCE
from benchmarks.peers.openhands import OpenHandsApi
from benchmarks.peers.server import Server

#: From the path and the body of a request to status and body of its answer.
Answer = Callable[[str, Any], tuple[int, Any]]


class Handler(BaseHTTPRequestHandler):
    server: Answering
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """No log."""

    def do_GET(self) -> None:
        self.reply(*self.server.answer(self.path, None))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(*self.server.answer(self.path, json.loads(body)))

    def reply(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Answering(ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer


class AnsweringServer(Server):
    """A server with the OpenHands API that the benchmark did not start."""

    def __init__(self, port: int) -> None:
        self.name, self.site = REFERENCE, Site(("127.0.0.1", port), "the-key", "/tmp")
        self.api = OpenHandsApi(self.site)


@contextmanager
def answering(answer: Answer) -> Iterator[Server]:
    with Answering(answer) as http:
        serving = threading.Thread(target=http.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield AnsweringServer(http.server_port)
        finally:
            http.shutdown()
            serving.join()
