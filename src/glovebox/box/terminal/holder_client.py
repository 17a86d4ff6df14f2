"""The server's connection to the holder, and its channels to the shells there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import subprocess
from typing import Protocol

from glovebox.box.services import Launched
from glovebox.box.terminal.holder import launch, wire
from glovebox.box.terminal.holder.launch import HolderProcess
from glovebox.box.terminal.holder.main import ERROR_LOG
from glovebox.box.terminal.holder.wire import ShellSpec
from glovebox.box.terminal.output.log import PIECE, LogFiles
from glovebox.box.threads import Threads
from glovebox.errors import OutputGone, StartupError
from glovebox.linux.processes import send_signal

log = logging.getLogger(__name__)

_OTHER_VERSION = (
    "The shells of {directory} are held by another version of Glovebox. End them with that version, or "
    "choose another --state-dir."
)
_REFUSED = "The process that holds the shells of {directory} does not let this server in; see {log}."
_SILENT = "The process that holds the shells does not answer."
#: How long a holder may take to answer.
_ANSWER_LIMIT = 10.0
#: And how long to end one shell, or all: together less than a plugin may take to stop.
_CLOSE_LIMIT = 6.0
_END_LIMIT = 3.0


class _Rejected(StartupError):
    """The holder rejects this server."""


class Receiver(Protocol):
    """Gets what a terminal prints, and the end of its shell."""

    def received(self, data: bytes, offset: int) -> None:
        """The terminal printed something; `offset` is its place in the session's log.

        No data means that what was printed before `offset` is lost.
        """

    def hung_up(self, status: int | None) -> None:
        """The shell is gone; its exit status (128 + signal if killed) if that is known. Comes once, last."""


class ProgramFrames(Protocol):
    """Gets what the holder says about programs without a shell."""

    def handle(self, kind: bytes, number: int, payload: bytes) -> None: ...

    def welcomed(self) -> None:
        """The holder has said which programs it has."""

    def lost(self) -> None:
        """The connection to the holder has ended."""


class HeldChannel:
    """A shell in the holder. Its output is read from the log on disk when the holder sends news."""

    def __init__(
        self, holder: HolderClient, number: int, name: str, receiver: Receiver, files: LogFiles, position: int
    ) -> None:
        self.number = number
        self.name = name
        #: The log of everything that it printed.
        self.files = files
        self.pid = 0
        #: How many inputs were sent so far.
        self.inputs = 0
        #: The place in the log where its output begins, and that up to which the receiver got it.
        self.begin = position
        self.position = position
        self._holder = holder
        self._receiver = receiver
        self._end = position
        self._ends: set[int] = set()
        self._reading = False
        self._hung_up = False
        self._ended = False
        self._status: int | None = None
        self.opened: asyncio.Future[None] = holder.loop.create_future()
        self.closed = asyncio.Event()

    def write(self, data: bytes, token: str = "") -> None:
        """Type something, once: each input has a number, and the holder takes no number twice. Never blocks.

        With a token it begins a command: the marks of its end are confirmed from now on, and its output may
        come in one piece if it ends soon.
        """
        self.inputs += 1
        number = wire.OFFSET.pack(self.inputs)
        if token:
            self._ends = set()
            self._holder.send(wire.COMMAND, self.number, number + token.encode() + b"\0" + data)
        else:
            self._holder.send(wire.INPUT, self.number, number + data)

    def confirmed(self, offset: int) -> bool:
        """Whether the end mark at this offset of the log was printed by the shell itself."""
        return offset in self._ends

    def resize(self, rows: int, columns: int) -> None:
        self._holder.send(wire.RESIZE, self.number, wire.fields(rows, columns))

    async def close(self) -> None:
        if self._holder.connected and not self.closed.is_set():
            self._holder.send(wire.CLOSE, self.number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_LIMIT):
                    await self.closed.wait()
        self.files.close()
        self._end_receiver(None)

    def resume(self, held: wire.HeldTerminal) -> None:
        for start, path in held.segments:
            self.files.begin_segment(start, path)
        self.confirm(held.ends)
        self._holder.loop.call_soon(self.news, held.end)
        if held.exited:
            self._holder.loop.call_soon(self.exited, held.status)

    def confirm(self, ends: list[int]) -> None:
        """The shell itself printed the end marks at these offsets."""
        self._ends.update(ends)

    def news(self, end: int) -> None:
        self._end = max(end, self._end)
        if not self._reading:
            self._read()

    def exited(self, status: int | None) -> None:
        """The shell has ended; the receiver gets the rest of its output first."""
        self._hung_up, self._status = True, status
        if not self._reading:
            self._read()

    def _read(self) -> None:
        """Pass one piece to the receiver; the rest waits for another turn of the event loop."""
        self._reading = False
        if self.position < self._end:
            try:
                data = self.files.read(self.position, min(PIECE, self._end - self.position))
            except OutputGone:
                data = b""
            offset = self.position
            if data:
                self.position += len(data)
                self._receiver.received(data, offset)
            else:  # the log does not reach back so far, or a part of it is lost: continue after the gap
                self.position = min(self.files.following(offset) or self._end, self._end)
                log.error("%d bytes of output of %s are lost", self.position - offset, self.name)
                self._receiver.received(b"", self.position)
        if self.position < self._end:
            self._reading = True
            self._holder.loop.call_soon(self._read)
        elif self._hung_up:
            self._end_receiver(self._status)

    def _end_receiver(self, status: int | None) -> None:
        if not self._ended:
            self._ended = True
            self._receiver.hung_up(status)


class HolderClient(asyncio.Protocol):
    """The connection to the process that owns the shells of a state directory."""

    def __init__(
        self,
        directory: str,
        threads: Threads,
        *,
        lock: int,
        program: str | None,
        patience: float,
        keep_log: int,
        launched: Launched | None = None,
    ) -> None:
        """`lock` is a descriptor of the directory's lock, `program` the path of tmux, or None for plain ptys.

        `launched` becomes the first holder.
        """
        self.loop = asyncio.get_running_loop()
        self._directory = directory
        self._threads = threads
        self._lock = lock
        #: Whether the holder accepts another connection when this one is lost.
        self._lasting = patience > 0
        self._arguments = [str(patience), str(keep_log), "tmux" if program else "pty", program or ""]
        self._launched = launched
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._welcome: asyncio.Future[list[wire.HeldTerminal]] | None = None
        self._frames = wire.Frames()
        self._channels: dict[int, HeldChannel] = {}
        self._lost = asyncio.Event()
        self._connecting = asyncio.Lock()
        self._recovery: asyncio.Task[None] | None = None
        #: Frames to send when the connection is there again.
        self._unsent: list[bytes] = []
        self._leaving = False
        self._error_log = os.path.join(directory, ERROR_LOG)
        #: The process id of the holder.
        self.pid: int | None = None
        self.programs: ProgramFrames | None = None
        #: Frames for terminals that have no channel yet.
        self._early: dict[int, list[tuple[bytes, bytes]]] = {}

    @property
    def connected(self) -> bool:
        return self._transport is not None

    async def find(self) -> list[wire.HeldTerminal]:
        """Connect to a running holder; its terminals, or none without a holder.

        Raises:
            StartupError: it is of another version.
        """
        async with self._connecting:
            try:
                return await self._find() or []
            except _Rejected as error:  # its secret or the lock was damaged, so it is of no use any more
                log.error("%s", error)
                return []

    async def _find(self) -> list[wire.HeldTerminal] | None:
        connection = await self._threads.run(launch.connect, self._directory, self._lock)
        return await self._meet(connection) if connection else None

    async def open(self, spec: ShellSpec, files: LogFiles, scratch: str, receiver: Receiver) -> HeldChannel:
        """Start a shell whose output goes to a log, and whose files are in `scratch`.

        Raises:
            OSError: it could not be started.
        """
        await self.ready()
        number = secrets.randbits(32)
        channel = HeldChannel(self, number, spec.name, receiver, files, files.end)
        self._channels[number] = channel
        self.send(wire.OPEN, number, wire.pack_open(files.directory, scratch, spec))
        try:
            await channel.opened
        except asyncio.CancelledError:
            self.send(wire.CLOSE, number)
            raise
        return channel

    async def ready(self) -> None:
        """Have a holder; one is started if there is none.

        Raises:
            OSError: it could not be started.
            StartupError: it does not answer.
        """
        if self._transport is not None and not self._connecting.locked():
            return
        async with self._connecting:
            if self._recovery is not None:
                await asyncio.wait([self._recovery])
            if self._transport is None:
                await self._meet(await self._threads.run(self._start))

    def adopt(
        self, held: wire.HeldTerminal, directory: str, receiver: Receiver, position: int
    ) -> HeldChannel:
        """Connect a shell of the holder; the receiver gets its output from `position` on."""
        channel = HeldChannel(self, held.number, held.name, receiver, LogFiles(directory), position)
        channel.pid, channel.inputs = held.pid, held.inputs
        self._channels[held.number] = channel
        channel.resume(held)
        for kind, payload in self._early.pop(held.number, ()):
            self.loop.call_soon(self._handle, kind, held.number, payload)
        return channel

    def end(self, held: wire.HeldTerminal) -> None:
        """End a shell without a channel."""
        self.send(wire.CLOSE, held.number)

    async def close(self, *, keep: bool) -> None:
        """End the holder and all its shells, or leave them for the next server."""
        self._leaving = True
        pid = self.pid
        if self._recovery is not None:
            self._recovery.cancel()
        if self._transport is not None:
            if keep:
                self._transport.close()
            else:
                self.send(wire.QUIT)
            try:
                async with asyncio.timeout(_END_LIMIT):
                    await self._lost.wait()
            except TimeoutError:
                self._transport.abort()
                if pid is not None:
                    send_signal(pid, signal.SIGKILL)
        if self._process is not None and keep:
            self._process.returncode = 0  # it stays, so `Popen` must not warn that it still runs
        elif self._process is not None:
            await self._threads.run(launch.wait_for, self._process)

    async def _meet(self, connection: socket.socket) -> list[wire.HeldTerminal]:
        self._frames = wire.Frames()
        self._lost.clear()
        self._welcome = self.loop.create_future()
        self._transport, _ = await self.loop.create_unix_connection(lambda: self, sock=connection)
        try:
            async with asyncio.timeout(_ANSWER_LIMIT):
                return await self._welcome
        except TimeoutError:
            self._transport.abort()
            raise StartupError(_SILENT) from None

    def _start(self) -> socket.socket:
        """Start a holder that outlives this process. Blocks."""
        if self._process is not None:
            launch.wait_for(self._process)  # the one before, which has ended or does not answer
        launched, self._launched = self._launched, None
        if launched is None or launched.process.poll() is not None:
            launched = HolderProcess(self._directory)
        self._process = launched.process
        secret = secrets.token_hex(16)
        if self._lasting:
            launch.write_secret(self._directory, secret)
        launched.order([self._directory, secret, *self._arguments])
        return launched.connection

    def send(self, kind: bytes, number: int = 0, payload: bytes = b"") -> None:
        """Send a frame; without a holder it is dropped."""
        if self._transport is not None:
            self._transport.write(wire.frame(kind, number, payload))
        elif self._recovery is not None:
            self._unsent.append(wire.frame(kind, number, payload))

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        news: dict[int, bytes] = {}
        for kind, number, payload in self._frames.feed(data):
            if kind == wire.NEWS:
                news[number] = payload  # the newest contains all of the one before
                continue
            self._handle_news(news)
            self._handle(kind, number, payload)
        self._handle_news(news)

    def connection_lost(self, exc: Exception | None) -> None:
        """The holder has ended, or only the connection to it."""
        self._transport = None
        self._lost.set()
        if self._welcome is not None and not self._welcome.done():
            text = _REFUSED.format(directory=self._directory, log=self._error_log)
            self._welcome.set_exception(_Rejected(text))
        elif self._lasting and not self._leaving and self._recovery is None:
            self._recovery = self.loop.create_task(self._recover())
        elif self._recovery is None:
            self._give_up()

    async def _recover(self) -> None:
        try:
            held = await self._find()
        except (StartupError, OSError) as error:
            log.error("the process that holds the shells cannot be reached: %s", error)
            held = None
        self._recovery = None
        unsent, self._unsent = self._unsent, []
        if held is None:
            self._give_up()
            return
        log.warning("the connection to the process that holds the shells was lost, and is there again")
        known = {one.number: one for one in held}
        for number, channel in list(self._channels.items()):
            if number in known:
                channel.resume(known[number])
            else:
                del self._channels[number]
                self._end_channel(channel)
        if self._transport is not None:
            self._transport.writelines(unsent)

    def _give_up(self) -> None:
        """Report the end of every shell."""
        self.pid = None
        if not self._leaving:
            log.error("the process that held the shells has ended; see %s", self._error_log)
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            self._end_channel(channel)
        if self.programs is not None and not self._leaving:
            self.programs.lost()

    def _end_channel(self, channel: HeldChannel) -> None:
        channel.closed.set()
        if not channel.opened.done():
            channel.opened.set_exception(OSError("the process that holds the shells has ended"))
        elif not self._leaving:
            channel.exited(None)

    def _handle_news(self, news: dict[int, bytes]) -> None:
        for number, payload in news.items():
            self._handle(wire.NEWS, number, payload)
        news.clear()

    def _handle(self, kind: bytes, number: int, payload: bytes) -> None:
        channel = self._channels.get(number)
        if kind == wire.WELCOME and self._welcome is not None and not self._welcome.done():
            version, self.pid, held = wire.parse_welcome(payload)
            if version == wire.VERSION:
                self._early = {one.number: [] for one in held}
                if self.programs is not None:
                    self.programs.welcomed()
                self._welcome.set_result(held)
            else:
                self._welcome.set_exception(StartupError(_OTHER_VERSION.format(directory=self._directory)))
        elif channel is None:
            if self.programs is not None:
                self.programs.handle(kind, number, payload)
            if number in self._early:
                self._early[number].append((kind, payload))
        elif kind == wire.NEWS:
            end, *ends = wire.parse_offsets(payload)
            channel.confirm(ends)
            channel.news(end)
        elif kind == wire.OPENED:
            channel.pid = int(payload)
            if not channel.opened.done():  # else its caller was cancelled
                channel.opened.set_result(None)
        elif kind == wire.REFUSED:
            del self._channels[number]
            if not channel.opened.done():
                channel.opened.set_exception(OSError(wire.parse_fields(payload)[0]))
        elif kind == wire.SEGMENT:
            start, path, oldest = wire.parse_fields(payload)
            channel.files.begin_segment(int(start), path, int(oldest))
        elif kind == wire.EXITED:
            channel.exited(int(payload) if payload else None)
        elif kind == wire.CLOSED:
            del self._channels[number]
            channel.closed.set()
