"""VS Code in a box: its port, its token, and its server once a page is opened."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from glovebox.box.plugin import Context
from glovebox.box.services import ServiceProcess
from glovebox.box.supervised import Streams, Supervised, adopt_process, describe_exit
from glovebox.box.vscode.installation import ServerProgram, find_server
from glovebox.box.vscode.process import NAME, ServerProcess
from glovebox.errors import PluginFailed
from glovebox.http.response_headers import HEADERS
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.settings import NO_PORT, Settings
from glovebox.state_files import read_document, write_document

if TYPE_CHECKING:
    from glovebox.box.vscode.plugin import VSCodeOptions

log = logging.getLogger(__name__)

_REJOIN_LIMIT = 5.0
_STATE = "vscode.json"


class _Saved(Message):
    """What the next server of this box needs to know."""

    token: str
    port: int
    program: ServerProgram
    base_path: str


_decode = json_decoder(_Saved).decode


class VSCode:
    """VS Code for one box. It may be opened again after it was closed, with the same token and port."""

    def __init__(self, options: VSCodeOptions, context: Context, crashed: Callable[[str], bool]) -> None:
        """`crashed` gets the reason why the server ended, and returns whether VS Code is opened again."""
        self._options = options
        self._settings = context.settings
        self._keeper = context.keeper
        self._threads = context.threads
        self._crashed = crashed
        self._token = str(uuid.uuid4())
        self._port = 0
        self._base_path = base_path(context.settings)
        self._program: ServerProgram | None = None
        self._front: Front | None = None
        self._supervised = Supervised(self._start)
        self._watching: asyncio.Task[None] | None = None
        self._given_up = ""
        self._opening = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        """Whether there is a server; the first page that is opened starts it."""
        return self._supervised.alive is not None

    async def token(self) -> str | None:
        """The token that pages have to send; None if VS Code cannot be served, which is tried again."""
        try:
            await self.open()
        except PluginFailed:
            return None
        return self._token

    async def open(self) -> None:
        """Listen at a port, and adopt the process that an earlier server of the box left.

        Raises:
            PluginFailed: VS Code cannot be served; the text says why and what to do.
        """
        async with self._opening:
            if self._front is not None:
                return
            if self._given_up:
                raise PluginFailed(self._given_up)
            settings = self._settings
            if settings.vscode_port == NO_PORT:
                raise PluginFailed("VS Code is switched off: VSCODE_PORT is no number.")
            program = await self._threads.run(find_server, settings.vscode, settings.command_environment)
            saved = await self._threads.run(self._load)
            if saved is not None:
                self._token, self._port = saved.token, saved.port
            front = Front(self._token, self._connect, lambda: self.is_running)
            await front.open(settings.host, settings.vscode_port, preferred=self._port)
            self._front, self._program, self._port = front, program, front.port
            now = _Saved(token=self._token, port=self._port, program=program, base_path=self._base_path)
            await self._adopt(saved, now)
            await self._threads.run(self._save, now)
            log.info("VS Code can be opened at port %s of %s", self._port, settings.host)

    async def close(self, *, end: bool) -> None:
        """Close the port, and end the process or leave it to the keeper."""
        if self._watching is not None:
            self._watching.cancel()
        self._given_up = ""
        await self._close_port()
        if end and (left := self._keeper.kept(NAME)):
            await left.close()

    async def health(self) -> dict[str, Any]:
        """Where it is served, and its state.

        Raises:
            PluginFailed: it cannot be served, or does not answer.
        """
        await self.open()
        assert self._program is not None
        known: dict[str, Any] = {
            "server": self._program.place,
            "port": self._port,
            "path": self._base_path,
            "folder": self._settings.working_dir,
            "state": "running" if self.is_running else "waiting",
        }
        if (process := self._supervised.alive) is not None:
            known |= {"pid": process.kept.pid, "version": await process.version()}
        return known

    async def _close_port(self) -> None:
        await self._supervised.stop()
        front, self._front, self._supervised.current = self._front, None, None
        if front is not None:
            await front.close()

    async def _connect(self) -> Streams:
        return await (await self._supervised.get()).connect()

    async def _start(self) -> ServerProcess:
        assert self._program is not None
        try:
            process = await ServerProcess.start(
                self._keeper, self._program, self._token, self._base_path, self._settings, self._options
            )
        except PluginFailed as error:
            log.error("%s", error)
            raise
        self._watching = asyncio.create_task(self._watch(process))
        return process

    async def _adopt(self, saved: _Saved | None, now: _Saved) -> None:
        """Adopt the process of an earlier server, if it would be started in the same way now."""

        async def rejoin(left: ServiceProcess) -> ServerProcess | None:
            if saved is None or msgspec.structs.replace(saved, port=now.port) != now:
                return None
            process = ServerProcess(left, self._base_path)
            await process.wait(_REJOIN_LIMIT)
            return process

        if (process := await adopt_process(self._keeper.kept(NAME), rejoin)) is not None:
            self._supervised.current = process
            self._watching = asyncio.create_task(self._watch(process))

    async def _watch(self, process: ServerProcess) -> None:
        await asyncio.wait([process.kept.exited])
        printed = await process.last_output()
        reason = (
            f"VS Code's server (pid {process.kept.pid}) {describe_exit(process.kept)}. It printed: {printed}"
        )
        if not self._crashed(reason):
            # Pages reconnect by themselves, and would start it again and again.
            self._given_up = f"It crashed again: {reason}\nPOST /plugins/vscode/restart tries once more."
            await self._close_port()

    def _load(self) -> _Saved | None:
        path = self._keeper.state_file(_STATE)
        return read_document(path, os.path.dirname(path), _decode) if path else None

    def _save(self, saved: _Saved) -> None:
        path = self._keeper.state_file(_STATE)
        if path is not None:
            write_document(path, msgspec.json.encode(saved))


def base_path(settings: Settings) -> str:
    """The path that every address of VS Code begins with; empty for none."""
    if chosen := settings.vscode_base_path.strip("/"):
        return f"/{chosen}"
    name = settings.runtime_id
    if settings.runtime_url and name and urlsplit(settings.runtime_url).path.startswith(f"/{name}"):
        return f"/{name}/vscode"
    return ""


_PIECE = 1 << 16
#: Seconds that a client may take to send the head of its request.
_HEAD_LIMIT = 10.0
_LONGEST_HEAD = 1 << 16

#: Opens a connection to the server, and starts it if need be.
Connect = Callable[[], Awaitable[Streams]]


class Front:
    """Forwards connections to the server.

    Only a request with the token starts the server: a port scan does not.
    """

    def __init__(self, token: str, connect: Connect, is_awake: Callable[[], bool]) -> None:
        self._token = token.encode()
        self._connect = connect
        self._is_awake = is_awake
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, host: str, port: int, *, preferred: int = 0) -> None:
        """Listen at a port; for 0, at a free one, which is the preferred one if that is free.

        Raises:
            PluginFailed: the port cannot be used.
        """
        # By a name, each of its addresses would get a free port of its own.
        host = "127.0.0.1" if host == "localhost" else host
        for wanted in dict.fromkeys((port or preferred, port)):
            try:
                self._server = await asyncio.start_server(self._accept, host, wanted, limit=_LONGEST_HEAD)
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

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of both sides is gone, or the box closes
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
    visitor: Streams,
    server: Streams,
    head: bytes,
) -> None:
    """Forward in both directions until both sides have ended or one is broken."""
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
