"""A server that does nothing, to see what the load generator itself can do."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context

from benchmarks.load import Address, Outcome, Request, drive

_BODY = b'{"status":"ok"}'
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nserver: trivial\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


def calibrate(clients: int, seconds: float) -> Outcome:
    """Load the trivial server: no real server can look faster than this.

    Raises:
        LoadError: not even that works.
    """
    request = b"GET /alive HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with _serving() as address:
        scripts = [[Request(request, lambda status, body: status == 200 and body == _BODY)]] * clients
        return drive(address, scripts, seconds, seconds + 10)


@contextmanager
def _serving() -> Iterator[Address]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    child = get_context("fork").Process(target=_serve, args=(listener,), daemon=True)
    child.start()
    try:
        yield listener.getsockname()
    finally:
        child.kill()
        child.join()
        listener.close()


def _serve(listener: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    poller = select.epoll()
    poller.register(listener.fileno(), select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    while True:
        for number, _ in poller.poll():
            connection = connections.get(number)
            if connection is None:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = connection
                poller.register(connection.fileno(), select.EPOLLIN)
            elif connection.recv(65536):
                connection.sendall(_ANSWER)
            else:
                poller.unregister(number)
                connections.pop(number).close()
