"""The port that is served. It is taken before all that takes long is loaded, so little is loaded for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

from glovebox.errors import StartupError

#: How many callers may wait to be answered.
_WAITING = 2048


def bind(host: str, port: int, command: str) -> socket.socket:
    """Take the port, and let callers wait there: who comes while a box starts is answered once it is ready.

    Raises:
        StartupError: it cannot be had; the text says how `command` is told another one.
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
    """The URL of what listens there, under its own address or another."""
    own, port = listener.getsockname()[:2]
    host = host or own
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(work: Coroutine[Any, Any, None]) -> None:
    """Do it on the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: slower, not broken
        asyncio.run(work)
    else:
        uvloop.run(work)
