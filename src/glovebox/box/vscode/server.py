"""VS Code in a box: its port, its token, and its server once somebody wants it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import uuid
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from glovebox.box.services import Keeper
from glovebox.box.threads import Threads
from glovebox.box.vscode.installation import ServerProgram, find_server
from glovebox.box.vscode.options import VSCodeOptions
from glovebox.box.vscode.process import NAME, ServerPlan, ServerProcess
from glovebox.errors import PluginFailed
from glovebox.http.response_headers import HEADERS
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.settings import NO_PORT, Settings
from glovebox.state_files import read_document, write_document

log = logging.getLogger(__name__)

_REJOIN_LIMIT = 5.0


class _Memory(Message):
    """What the next server of this box has to know."""

    token: str
    port: int
    program: ServerProgram
    base_path: str


_decode = json_decoder(_Memory).decode


class VSCode:
    """VS Code for one box. It may be opened again after its end, and then is where it was."""

    def __init__(
        self,
        settings: Settings,
        options: VSCodeOptions,
        *,
        keeper: Keeper,
        threads: Threads,
        crashed: Callable[[str], bool],
    ) -> None:
        """`crashed` is told why the server ended, and says whether VS Code will be opened again."""
        self._settings = settings
        self._options = options
        self._keeper = keeper
        self._threads = threads
        self._crashed = crashed
        self._token = str(uuid.uuid4())
        self._port = 0
        self._base_path = base_path(settings)
        self._program: ServerProgram | None = None
        self._front: Front | None = None
        self._process: ServerProcess | None = None
        self._watching: asyncio.Task[None] | None = None
        self._given_up = ""
        self._starting = asyncio.Lock()
        self._opening = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        """Whether there is a server; before somebody comes there is none."""
        return self._process is not None

    async def token(self) -> str | None:
        """What VS Code has to be shown; None if it cannot be served, which is looked into anew."""
        try:
            await self.open()
        except PluginFailed:
            return None
        return self._token

    async def open(self) -> None:
        """Have a port, unless there is one. A server that an earlier server of the box left is taken over.

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
            memory = await self._threads.run(self._remembered)
            if memory is not None:
                self._token, self._port = memory.token, memory.port
            front = Front(self._token, self._connect, lambda: self.is_running)
            await front.open(settings.host, settings.vscode_port, preferred=self._port)
            self._front, self._program, self._port = front, program, front.port
            now = _Memory(token=self._token, port=self._port, program=program, base_path=self._base_path)
            await self._rejoin(memory, now)
            await self._threads.run(self._remember, now)
            log.info("VS Code can be opened at port %s of %s", self._port, settings.host)

    async def close(self, *, end: bool) -> None:
        """Give up the port, and end the server or leave it to whoever looks after the box."""
        if self._watching is not None:
            self._watching.cancel()
        self._given_up = ""
        await self._close_port()
        if end and (left := self._keeper.kept(NAME)):
            await left.close()

    async def health(self) -> dict[str, Any]:
        """What can be said of it.

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
            "state": "running" if self._process else "waiting",
        }
        if self._process is not None:
            known |= {"pid": self._process.kept.pid, "version": await self._process.version()}
        return known

    async def _close_port(self) -> None:
        front, self._front, self._process = self._front, None, None
        if front is not None:
            await front.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self._starting:
            if self._process is None:
                self._process = await self._start()
                self._watch(self._process)
        return await self._process.connect()

    async def _start(self) -> ServerProcess:
        assert self._program is not None
        if left := self._keeper.kept(NAME):
            await left.close()
        plan = ServerPlan(
            program=self._program,
            token=self._token,
            base_path=self._base_path,
            working_dir=self._settings.working_dir,
            workspace=self._settings.workspace_base or self._settings.working_dir,
            options=self._options,
        )
        try:
            return await ServerProcess.start(self._keeper, plan)
        except PluginFailed as error:
            log.error("%s", error)
            raise

    async def _rejoin(self, memory: _Memory | None, now: _Memory) -> None:
        """Take over what an earlier server left, if it is as it would be started now."""
        left = self._keeper.kept(NAME)
        if left is None:
            return
        process = ServerProcess(left, self._base_path)
        if memory is not None and msgspec.structs.replace(memory, port=now.port) == now:
            with contextlib.suppress(PluginFailed):
                await process.wait(_REJOIN_LIMIT)
                self._process = process
                self._watch(process)
                return
        await left.close()

    def _watch(self, process: ServerProcess) -> None:
        self._watching = asyncio.create_task(self._until_end(process))

    async def _until_end(self, process: ServerProcess) -> None:
        await asyncio.wait([process.kept.exited])
        status = process.kept.exited.result()
        how = "ended" if status is None else f"ended with exit status {status}"
        said = await process.last_words()
        reason = f"VS Code's server (pid {process.kept.pid}) {how}. It printed: {said}"
        if not self._crashed(reason):
            # Pages come back by themselves, and would have it started again and again.
            self._given_up = f"It crashed again: {reason}\nPOST /plugins/vscode/restart tries once more."
            await self._close_port()

    def _remembered(self) -> _Memory | None:
        path = self._keeper.state_file("vscode.json")
        return read_document(path, os.path.dirname(path), _decode) if path else None

    def _remember(self, memory: _Memory) -> None:
        path = self._keeper.state_file("vscode.json")
        if path is not None:
            write_document(path, msgspec.json.encode(memory))


def base_path(settings: Settings) -> str:
    """The path that every address of VS Code begins with; empty for none."""
    if chosen := settings.vscode_base_path.strip("/"):
        return f"/{chosen}"
    name = settings.runtime_id
    if settings.runtime_url and name and urlsplit(settings.runtime_url).path.startswith(f"/{name}"):
        return f"/{name}/vscode"
    return ""


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
