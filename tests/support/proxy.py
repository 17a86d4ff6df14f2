"""A network that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class Proxy:
    """Hands bytes on in both directions, until it is cut."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._cut = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break what goes through it, and let nothing through any more."""
        with self._lock:
            self._cut = True
            for each in self._open:
                _shut(each)

    def mend(self) -> None:
        """Let things through again."""
        with self._lock:
            self._cut = False

    def close(self) -> None:
        """End it."""
        self.cut()
        _shut(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        with self._lock:
            try:
                if self._cut:
                    raise ConnectionRefusedError
                far = socket.create_connection((self._target.hostname or "", self._target.port or 0), 5)
            except OSError:
                near.close()
                return
            far.settimeout(None)
            self._open |= {near, far}
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._hand_on, args=(one, other), daemon=True).start()

    def _hand_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(1 << 16):
                other.sendall(piece)
        _shut(one)
        _shut(other)
        with self._lock:
            if one in self._open:
                self._open.discard(one)
                one.close()


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def running_proxy(target: str) -> Iterator[Proxy]:
    """A network, and its end."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
