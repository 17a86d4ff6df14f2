"""The port of a server. It is bound before the slow imports, so this module imports little."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

from glovebox.errors import StartupError

#: How many connections may wait to be accepted.
_WAITING = 2048


def bind(host: str, port: int, command: str) -> socket.socket:
    """Bind the port, and queue connections there: they are answered once the box is ready.

    Raises:
        StartupError: the port cannot be bound; the text says how to give `command` another one.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(_WAITING)
    except OSError as error:
        raise StartupError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. "
            f"Choose another port (glovebox {command} PORT), or 0 for any free one."
        ) from error
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket, host: str = "") -> str:
    """The URL of a listening socket, with its own address or another host."""
    own, port = listener.getsockname()[:2]
    host = host or own
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: slower, not broken
        asyncio.run(work)
    else:
        uvloop.run(work)
