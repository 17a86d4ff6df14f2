"""The processes of a box: started once per idempotency key, remembered after their end within limits."""

from __future__ import annotations

import asyncio
import signal
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from glovebox.box.processes.journal import JournalLine, PastProgram, ProcessJournal
from glovebox.box.processes.request import (
    ProcessRecord,
    check_size,
    decode_record,
    fingerprint_of,
    prepare,
    signal_name,
    signal_number,
)
from glovebox.box.services import StartedProgram, Starter
from glovebox.errors import (
    BadProcess,
    KeyReused,
    NoSuchProcess,
    NoSuchUser,
    NotATerminal,
    ProcessEnded,
    ProcessError,
    StdinClosed,
    TooManyProcesses,
)
from glovebox.linux.oom import OomCount, OomWatch
from glovebox.protocol.processes import EndReason, ProcessInfo, ProcessRequest
from glovebox.protocol.terminal import Bill

#: How many processes may run at a time.
MOST_RUNNING = 1_000
_LONGEST_KEY = 512
#: How many bytes may wait for all processes to read them; so few of one are not counted.
_MOST_WAITING = 256 << 20
_LITTLE_STDIN = 65_536
_REASONS: dict[str, EndReason] = {"timeout": "timeout", "limit": "limit", "lost": "lost"}


class BoxProcess:
    """A process of the box."""

    def __init__(self, record: ProcessRecord, program: StartedProgram, oom: OomCount | None) -> None:
        self.record = record
        self.program = program
        self._oom_before = oom
        self._oom = ""
        #: Held while a request writes to its standard input.
        self.writing = asyncio.Lock()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def ended(self) -> bool:
        return self.program.result is not None

    def judge(self, oom: OomWatch) -> None:
        """Find out whether the system killed it for want of memory."""
        result = self.program.result
        if result is not None and result.signal == signal.SIGKILL and not result.reason and self._oom_before:
            self._oom = oom.describe_death(self._oom_before, self.program.pid) or ""

    async def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or so many seconds."""
        if not self.ended:
            await asyncio.wait([self.program.ended], timeout=timeout)

    def info(self) -> ProcessInfo:
        record, program, result = self.record, self.program, self.program.result
        out, err = program.sizes
        known = ProcessInfo(
            id=record.id, argv=record.argv, cwd=record.cwd, user=record.user, tag=record.tag, pid=program.pid,
            state="running", started=record.started, stdout_bytes=out, stderr_bytes=err,
            stdin_bytes=program.stdin_taken, pty=record.pty, detached=record.detached,
        )  # fmt: skip
        if result is None:
            return known
        bill = Bill(
            wall_seconds=max(0.0, result.ended - record.started),
            cpu_seconds=result.cpu_seconds,
            peak_memory=result.peak_memory,
            output_bytes=out + err,
        )
        return msgspec.structs.replace(
            known, state="ended", ended=result.ended, exit_code=result.code,
            signal=signal_name(result.signal) if result.signal else None, reason=self._reason(),
            detail=result.detail or self._oom, bill=bill,
        )  # fmt: skip

    def _reason(self) -> EndReason:
        result = self.program.result
        assert result is not None
        if self._oom:
            return "oom"
        if result.reason:
            return _REASONS.get(result.reason, "signal")
        return "signal" if result.signal else "exit"

    def need_running(self) -> None:
        """Raises ProcessEnded if it does not run."""
        if self.ended:
            raise ProcessEnded(f"The process {self.id} has ended.")

    def signal(self, name: str) -> None:
        """Send a signal to everything in its group.

        Raises:
            BadProcess: there is no such signal.
            ProcessEnded: it has ended.
        """
        number = signal_number(name)
        self.need_running()
        self.program.signal(number)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal.

        Raises:
            NotATerminal: it has none.
            BadProcess: no terminal has such a size.
            ProcessEnded: it has ended.
        """
        if not self.record.pty:
            raise NotATerminal(f"The process {self.id} has no terminal; start it with `pty`.")
        check_size(rows, columns)
        self.need_running()
        self.program.resize(rows, columns)

    def need_stdin(self) -> None:
        """Raises StdinClosed if nothing can be written."""
        self.need_running()
        if not self.program.stdin_open:
            raise StdinClosed(f"The standard input of the process {self.id} is closed; see `stdin_open`.")


class ProcessRegistry:
    """Starts processes and remembers them."""

    def __init__(
        self, *, user: str, fixed_user: bool, working_dir: str, log_size: int, keep: int, keep_size: int
    ) -> None:
        self._user = user
        self._fixed_user = fixed_user
        self._working_dir = working_dir
        self._log_size = log_size
        self._keep = keep
        self._keep_size = keep_size
        #: Called with each process that has ended.
        self.on_end: Callable[[ProcessInfo], object] = lambda info: None
        self._starter: Starter | None = None
        self._journal = ProcessJournal(None)
        self._processes: OrderedDict[str, BoxProcess] = OrderedDict()
        self._keys: dict[str, asyncio.Task[BoxProcess]] = {}
        self._fingerprints: dict[str, str] = {}
        self._starting = 0
        self._oom = OomWatch()
        #: Those that have ended, the first to end first, and how much each has printed.
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._ended_size = 0

    def open(self, starter: Starter, journal: ProcessJournal, past: list[JournalLine]) -> None:
        """Start processes from now on, and know those of an earlier server: `past` is from the journal."""
        self._starter = starter
        for program in starter.started():
            try:
                record = decode_record(program.label.encode())
            except msgspec.DecodeError:
                program.forget()
                continue
            self._know(BoxProcess(record, program, None))
            if record.limits is not None and program.result is None:
                starter.enforce(program, record.limits)
        for line in past:
            if line.record.id not in self._processes:
                self._know(BoxProcess(line.record, PastProgram(line), None))
        self._journal = journal

    def _know(self, process: BoxProcess) -> None:
        self._add(process)
        key = process.record.key
        if key:
            self._fingerprints[key] = process.record.fingerprint
            self._keys[key] = asyncio.create_task(_settled(process))

    async def close(self, *, keep_detached: bool) -> None:
        """End the processes, except those that the next server shall find."""
        going = [one for one in self._processes.values() if not (keep_detached and one.record.detached)]
        await asyncio.gather(*(process.program.close() for process in going))
        self._journal.close()

    def processes(self, tag: str | None = None) -> list[BoxProcess]:
        return [one for one in reversed(self._processes.values()) if tag is None or one.record.tag == tag]

    def process(self, process_id: str) -> BoxProcess:
        """The process of that id.

        Raises:
            NoSuchProcess: there is none.
        """
        try:
            return self._processes[process_id]
        except KeyError:
            raise NoSuchProcess(f"There is no process {process_id!r}, or it is forgotten.") from None

    @property
    def running(self) -> int:
        return len(self._processes) - len(self._ended)

    async def start(self, asked: ProcessRequest, key: str) -> BoxProcess:
        """Start a process; with a key that came before, it is the process of that key.

        Raises:
            ProcessError: it cannot be started.
            KeyReused: the key came with another process before.
        """
        if not key:
            return await self._start(asked, "", "")
        if len(key) > _LONGEST_KEY:
            raise BadProcess(f"An idempotency key has at most {_LONGEST_KEY} characters.")
        fingerprint = fingerprint_of(asked)
        if self._fingerprints.setdefault(key, fingerprint) != fingerprint:
            raise KeyReused(
                f"The idempotency key {key!r} was used for a different process. Use a new key for a new one."
            )
        task = self._keys.get(key)
        if task is None:
            task = self._keys[key] = asyncio.create_task(self._start(asked, key, fingerprint))
            task.add_done_callback(lambda done: self._forget_failed(key, done))
        return await asyncio.shield(task)

    async def _start(self, asked: ProcessRequest, key: str, fingerprint: str) -> BoxProcess:
        assert self._starter is not None
        if self._fixed_user and asked.user not in ("", self._user):
            raise NoSuchUser(
                f"A box without a key starts processes as {self._user!r} only: everybody in it can call it."
            )
        spec, record = prepare(
            asked, user=self._user, working_dir=self._working_dir, keep=self._log_size,
            key=key, fingerprint=fingerprint,
        )  # fmt: skip
        if self.running + self._starting >= MOST_RUNNING:
            raise TooManyProcesses(f"{MOST_RUNNING} processes run already. End some of them first.")
        if len(spec.stdin) > _LITTLE_STDIN:
            waiting = sum(one.program.stdin_waiting for one in self._processes.values() if not one.ended)
            if waiting + len(spec.stdin) > _MOST_WAITING:
                raise TooManyProcesses("Other processes have too much of their standard input still to read.")
        before = self._oom.mark()
        self._starting += 1
        self._journal.write(JournalLine(record=record))
        try:
            program = await self._starter.start(spec)
        except ProcessError:
            self._journal.write(JournalLine(record=record, forgotten=True))
            raise
        finally:
            self._starting -= 1
        process = BoxProcess(record, program, before)
        self._add(process)
        return process

    async def remove(self, process: BoxProcess) -> None:
        """Kill a process and everything it started, and forget it."""
        self._drop(process)
        await process.program.close()

    def _add(self, process: BoxProcess) -> None:
        self._processes[process.id] = process
        process.program.ended.add_done_callback(lambda ended: self._finish(process))

    def _finish(self, process: BoxProcess) -> None:
        if process.id not in self._processes:
            return
        process.judge(self._oom)
        program = process.program
        self._journal.write(JournalLine(record=process.record, result=program.result, sizes=program.sizes))
        self.on_end(process.info())
        size = self._ended[process.id] = sum(process.program.sizes)
        self._ended_size += size
        while len(self._ended) > self._keep or (self._ended_size > self._keep_size and len(self._ended) > 1):
            oldest = self._processes[next(iter(self._ended))]
            self._drop(oldest)
            oldest.program.forget()

    def _drop(self, process: BoxProcess) -> None:
        self._journal.write(JournalLine(record=process.record, forgotten=True))
        self._processes.pop(process.id, None)
        self._ended_size -= self._ended.pop(process.id, 0)
        self._keys.pop(process.record.key, None)
        self._fingerprints.pop(process.record.key, None)

    def _forget_failed(self, key: str, done: asyncio.Task[BoxProcess]) -> None:
        """A process that did not start may be tried again with the same key."""
        if done.cancelled() or done.exception() is not None:
            self._keys.pop(key, None)
            self._fingerprints.pop(key, None)


async def _settled(process: BoxProcess) -> BoxProcess:
    return process
