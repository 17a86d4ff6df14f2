"""The port of VS Code. It is there from the beginning; the server behind it is there once somebody comes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable

from glovebox.errors import PluginFailed
from glovebox.http.security_headers import HEADERS

_PIECE = 1 << 16
#: How long somebody who connects may take to say what they want.
_HEAD_LIMIT = 10.0
_LONGEST_HEAD = 1 << 16

#: Opens a connection to the server, and starts it if need be.
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Front:
    """Hands connections on to the server.

    To have it started, one has to show the token: whoever only looks which ports are open does not.
    """

    def __init__(self, token: str, connect: Connect, is_awake: Callable[[], bool]) -> None:
        self._token = token.encode()
        self._connect = connect
        self._is_awake = is_awake
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, host: str, port: int, *, preferred: int = 0) -> None:
        """Listen at a port; for 0, at a free one, which is the preferred one if that is free.

        Raises:
            PluginFailed: the port cannot be had.
        """
        # By a name, each of its addresses would get a free port of its own.
        host = "127.0.0.1" if host == "localhost" else host
        for wanted in dict.fromkeys((port or preferred, port)):
            try:
                self._server = await asyncio.start_server(self._visited, host, wanted, limit=_LONGEST_HEAD)
            except OSError as error:
                problem = error
                continue
            return
        taken = problem.errno == errno.EADDRINUSE
        why = "something else uses it" if taken else str(problem)
        raise PluginFailed(
            f"VS Code cannot be served at port {port} of {host}: {why}. Set VSCODE_PORT to another port."
        )

    async def close(self) -> None:
        """Listen no more, and break off what is open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for visit in self._visits:
            visit.cancel()
        if self._visits:
            await asyncio.wait(self._visits)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of both sides is gone, or the box closes: there is nobody to tell
        finally:
            self._visits.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b""
        if not self._is_awake():
            try:
                async with asyncio.timeout(_HEAD_LIMIT):
                    head = await reader.readuntil(b"\r\n\r\n")
            except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                return
            if self._token not in head:
                await _answer(writer, "403 Forbidden", "Forbidden.")
                return
        try:
            to_server = await self._connect()
        except PluginFailed as error:
            await _answer(writer, "502 Bad Gateway", str(error))
            return
        await _join((reader, writer), to_server, head)


async def _join(
    visitor: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    head: bytes,
) -> None:
    """Hand everything on, both ways, until both sides have ended or one is broken."""
    server[1].write(head)
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(visitor[0], server[1]))
            both.create_task(_pump(server[0], visitor[1]))
    except* OSError:
        pass
    finally:
        server[1].close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    closed = b"".join(b"%b: %b\r\n" % header for header in HEADERS)
    writer.write(head.encode() + closed + b"Cache-Control: no-store\r\nConnection: close\r\n\r\n" + body)
    with contextlib.suppress(OSError):
        await writer.drain()
