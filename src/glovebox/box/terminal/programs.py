"""Starts programs without a shell in the holder, and reads their logs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import time

from glovebox.box.services import ProgramResult, ProgramSpec, StartedProgram
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.holder import program_wire, wire
from glovebox.box.terminal.holder.process_tree import MARK
from glovebox.box.terminal.holder.program_wire import HeldProgram, ProgramEnd, ProgramOrder
from glovebox.box.terminal.inspection.limits import ProgramWarden
from glovebox.box.terminal.output.log import LogFiles
from glovebox.box.terminal.services import HolderAccess
from glovebox.errors import (
    BadProcess,
    NoSuchDirectory,
    NoSuchUser,
    ProcessError,
    ProgramNotExecutable,
    ProgramNotFound,
    StartupError,
)
from glovebox.linux.processes import send_signal
from glovebox.protocol.terminal import Limits

#: Prefix of their names in the holder.
_PREFIX = "program-"
#: A read of so much of the newest output takes microseconds: it is in memory.
_IN_MEMORY = 1 << 20
_LIMITS_INTERVAL = 0.05
_CLOSE_LIMIT = 6.0
_LOGS = ("out", "err")


class ProgramChannel:
    """A program in the holder."""

    def __init__(self, client: ProgramClient, number: int, directory: str, label: str) -> None:
        self.number = number
        self.directory = directory
        self.label = label
        self.pid = 0
        self.result: ProgramResult | None = None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()
        self.limits: Limits | None = None
        self._client = client
        self._logs = tuple(LogFiles(os.path.join(directory, name)) for name in _LOGS)
        self._sizes = (0, 0)
        #: How much of the standard input was sent to the holder, and how much of that is written.
        self.stdin_taken = self._written = 0
        self.stdin_open = True
        self._changed = asyncio.Event()

    @property
    def sizes(self) -> tuple[int, int]:
        return self._sizes

    @property
    def stdin_waiting(self) -> int:
        return self.stdin_taken - self._written

    async def changed(self) -> None:
        await self._changed.wait()

    async def read(self, stream: int, offset: int, limit: int) -> bytes:
        log, end = self._logs[stream], self._sizes[stream]
        limit = min(limit, end - offset)
        if limit <= 0:
            return b""
        if end - offset <= _IN_MEMORY:
            return log.fetch(offset, limit)
        return await self._client.threads.run(log.fetch, offset, limit)

    def oldest(self, stream: int) -> int:
        return self._logs[stream].begin

    def following(self, stream: int, offset: int) -> int:
        return self._logs[stream].following(offset) or self._sizes[stream]

    def write(self, data: bytes) -> None:
        self._client.holder.send(wire.STDIN, self.number, wire.OFFSET.pack(self.stdin_taken) + data)
        self.stdin_taken += len(data)

    def close_stdin(self) -> None:
        self.stdin_open = False
        self._client.holder.send(wire.CLOSE_STDIN, self.number)

    def signal(self, number: int, reason: str = "", detail: str = "") -> None:
        self._client.holder.send(wire.SIGNAL, self.number, wire.fields(number, reason, detail))

    def resize(self, rows: int, columns: int) -> None:
        self._client.holder.send(wire.RESIZE, self.number, wire.fields(rows, columns))

    async def close(self) -> None:
        if self._client.holder.connected:
            self._client.holder.send(wire.CLOSE, self.number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_LIMIT):
                    await self.closed.wait()
        self._client.drop(self)
        self.lose("signal", "It was removed.")

    def forget(self) -> None:
        self._client.holder.send(wire.FORGET, self.number)
        self._client.drop(self)

    # What the holder says.

    def resume(self, held: HeldProgram) -> None:
        """Continue with what the holder says of it."""
        self.pid = held.pid
        for log, segments in zip(self._logs, held.segments, strict=True):
            for start, path in segments:
                log.begin_segment(start, path)
        self.stdin_taken = held.grown[2]
        self.grown(held.grown)
        if held.end is not None:
            self.end(held.end)

    def begin_part(self, stream: int, start: int, path: str, oldest: int) -> None:
        self._logs[stream].begin_segment(start, path, oldest)

    def grown(self, offsets: list[int]) -> None:
        out, err, _, self._written, stdin_open = offsets
        self.stdin_open = self.stdin_open and bool(stdin_open)
        self._sizes = (out, err)
        self._wake()

    def end(self, end: ProgramEnd) -> None:
        over = end.signal == signal.SIGXFSZ and self.limits is not None and self.limits.file_size is not None
        self.result = ProgramResult(
            code=end.code,
            signal=end.signal,
            reason=end.reason or ("limit" if over else ""),
            detail=end.detail or ("It wrote a file larger than its limit." if over else ""),
            ended=end.ended,
            cpu_seconds=end.cpu_seconds,
            peak_memory=end.peak_memory or None,
        )
        self._wake()

    def lose(self, reason: str, detail: str) -> None:
        """Nothing more will be known of it."""
        if self.result is None:
            self.result = ProgramResult(
                code=None, signal=0, reason=reason, detail=detail, ended=time.time(), cpu_seconds=None,
                peak_memory=None,
            )  # fmt: skip
        self._wake()

    def _wake(self) -> None:
        if self.result is not None and not self.ended.done():
            self.ended.set_result(None)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class ProgramClient:
    """Starts programs of one user in the holder, and has those of an earlier server."""

    def __init__(self, access: HolderAccess) -> None:
        self.holder = access.holder
        self.threads = access.threads
        self._state = access.state
        self._account = access.account
        self._environment = access.environment
        self._channels: dict[int, ProgramChannel] = {}
        self._watching: set[asyncio.Task[None]] = set()
        #: The numbers that the holder has named since the connection was made.
        self._held: set[int] = set()
        self.holder.programs = self

    async def start(self, spec: ProgramSpec) -> ProgramChannel:
        """Start a program.

        Raises:
            ProcessError: it could not be started.
        """
        account = self._account
        if spec.user:
            account = await self.threads.run(named_account, spec.user)
        order = self._order(spec, account)
        try:
            await self.holder.ready()
        except (OSError, StartupError) as error:
            raise ProcessError(f"The process that holds programs cannot be started: {error}") from error
        number = secrets.randbits(32)
        channel = self._channels[number] = ProgramChannel(self, number, order.directory, spec.label)
        channel.stdin_taken, channel.stdin_open = len(spec.stdin), spec.stdin_open
        self.holder.send(wire.START, number, program_wire.pack_start(order, spec.stdin))
        try:
            await channel.opened
        except OSError as error:
            del self._channels[number]
            raise _explain(error, order) from None
        except asyncio.CancelledError:
            self.holder.send(wire.CLOSE, number)
            raise
        if spec.limits is not None:
            self.enforce(channel, spec.limits)
        return channel

    def _order(self, spec: ProgramSpec, account: Account) -> ProgramOrder:
        name = _PREFIX + spec.name
        shared = {} if spec.bare else {**self._environment, **account.variables}
        if spec.size is None:
            shared.pop("TERM", None)
        rows, columns = spec.size or (0, 0)
        return ProgramOrder(
            directory=self._directory(name),
            name=name,
            label=spec.label,
            arguments=spec.arguments,
            environment={**shared, **spec.environment, MARK: name},
            cwd=spec.cwd,
            uid=account.uid if account.switch else None,
            gid=account.gid if account.switch else None,
            groups=account.groups if account.switch else (),
            rows=rows,
            columns=columns,
            timeout=spec.timeout,
            stdin_open=spec.stdin_open,
            file_size=spec.limits.file_size if spec.limits else None,
            contained=spec.limits is not None and spec.limits != Limits(),
            keep=spec.keep,
        )

    def _directory(self, name: str) -> str:
        return os.path.join(self._state.programs, name.removeprefix(_PREFIX))

    def started(self) -> list[ProgramChannel]:
        return list(self._channels.values())

    async def remove_unknown(self) -> None:
        """Remove the logs of programs that the holder does not have."""
        known = [os.path.basename(channel.directory) for channel in self._channels.values()]
        await self.threads.run(self._state.forget_programs, known)

    def enforce(self, program: StartedProgram, limits: Limits) -> None:
        """Keep a program of an earlier server to its limits."""
        assert isinstance(program, ProgramChannel)
        program.limits = limits
        if limits != Limits():
            task = asyncio.create_task(self._enforce(program, limits))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)

    def drop(self, channel: ProgramChannel) -> None:
        self._channels.pop(channel.number, None)

    async def _enforce(self, channel: ProgramChannel, limits: Limits) -> None:
        warden = ProgramWarden(channel.pid, limits)
        while channel.result is None:
            exceeded = await self.threads.run(warden.check)
            if exceeded is not None:
                channel.signal(signal.SIGKILL, "limit", exceeded.text)
                return
            await asyncio.sleep(_LIMITS_INTERVAL)

    # What the holder says.

    def handle(self, kind: bytes, number: int, payload: bytes) -> None:
        channel = self._channels.get(number)
        if kind == wire.HELD:
            self._resume(program_wire.parse_held(number, payload))
        elif channel is None:
            return
        elif kind == wire.STARTED:
            channel.pid = int(payload)
            if not channel.opened.done():
                channel.opened.set_result(None)
        elif kind == wire.NOT_STARTED:
            problem, what = wire.parse_fields(payload)
            if not channel.opened.done():
                channel.opened.set_exception(OSError(int(problem), what))
        elif kind == wire.PART:
            stream, start, path, oldest = wire.parse_fields(payload)
            channel.begin_part(int(stream), int(start), path, int(oldest))
        elif kind == wire.GROWN:
            channel.grown(wire.parse_offsets(payload))
        elif kind == wire.ENDED:
            channel.grown(wire.parse_offsets(payload[: wire.GROWN_SIZE]))
            if (end := program_wire.parse_end(wire.parse_fields(payload[wire.GROWN_SIZE :]))) is not None:
                channel.end(end)
        elif kind == wire.CLOSED:
            channel.closed.set()

    def welcomed(self) -> None:
        """The holder has named all its programs; others are lost."""
        held, self._held = self._held, set()
        self._lose([channel for number, channel in self._channels.items() if number not in held])

    def _resume(self, held: HeldProgram) -> None:
        self._held.add(held.number)
        channel = self._channels.get(held.number)
        if channel is None:
            channel = self._channels[held.number] = ProgramChannel(
                self, held.number, self._directory(held.name), held.label
            )
            channel.opened.set_result(None)
        channel.resume(held)

    def lost(self) -> None:
        """The holder is gone, and with it whatever it knew."""
        self._lose(list(self._channels.values()))

    def _lose(self, channels: list[ProgramChannel]) -> None:
        for channel in channels:
            if not channel.opened.done():
                channel.opened.set_exception(OSError(errno.EPIPE, "holder"))
            elif channel.result is None:
                send_signal(-channel.pid, signal.SIGKILL)
                channel.lose("lost", "The process that held it has ended.")


def named_account(username: str) -> Account:
    """The account that a caller has named. Blocks.

    Raises:
        NoSuchUser: there is none, or the server cannot become that user.
    """
    try:
        account = Account.named(username)
    except StartupError:
        raise NoSuchUser(f"There is no user {username!r} in this box.") from None
    if os.geteuid() != 0 and not own_name(username):
        raise NoSuchUser(f"Only a server that runs as root can start processes as {username!r}.")
    return account


def own_name(username: str) -> bool:
    """Whether this process runs as that user. Blocks."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name == username
    except KeyError:
        return username == str(os.geteuid())


def _explain(error: OSError, order: ProgramOrder) -> ProcessError:
    """What to tell the caller of a program that did not start."""
    program, what = order.arguments[0], error.strerror
    why = os.strerror(error.errno or 0)
    if what == "cwd":
        return NoSuchDirectory(f"The working directory {order.cwd} cannot be entered: {why}.")
    if what == "user":
        return NoSuchUser(f"The process cannot become user {order.uid}: {why}.")
    if what == "directory":
        return ProgramNotExecutable(f"{program} is a directory.")
    if what == "interpreter":
        return ProgramNotExecutable(
            f"{program} is there, but the interpreter that its first line or header names is not."
        )
    if what == "program" and error.errno in (errno.ENOENT, errno.ENOTDIR):
        where = f"in {order.cwd}" if "/" in program else f"on the PATH ({_path(order)})"
        return ProgramNotFound(f"There is no program {program!r} {where}.")
    if what == "program" and error.errno == errno.E2BIG:
        return BadProcess("The arguments and variables together are larger than the system allows.")
    if what == "program" and error.errno in (errno.EACCES, errno.ENOEXEC):
        return ProgramNotExecutable(f"{program} cannot be run: {why}.")
    return ProcessError(f"{program} could not be started: {why}.")


def _path(order: ProgramOrder) -> str:
    return order.environment.get("PATH", os.defpath)
