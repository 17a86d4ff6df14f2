"""Programs of the holder that have no shell: two logs, a standard input, a timeout and an end each."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import termios
import time
from _posixsubprocess import fork_exec

from glovebox.box.terminal.holder import control_mode, process_tree, wire
from glovebox.box.terminal.holder.lean import signals
from glovebox.box.terminal.holder.log import Log
from glovebox.box.terminal.holder.terminal import set_size
from glovebox.linux import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from resource import struct_rusage

#: What is read at a time, and how large a pipe becomes that was full.
_READ_SIZE = 262_144
_FULL = 65_536
_LARGE_PIPE = 1 << 20
_F_SETPIPE_SZ = 1031
_WRITE_SIZE = 65_536
#: How long a program may take to end after SIGTERM.
_GRACE = 2.0
_END_OF_INPUT = b"\x04"
_LOGS = ("out", "err")
#: The limit on descriptors for programs, if this process has raised its own.
_inherited: tuple[int, int] | None = None


def raise_limit() -> None:
    """Raise this process's limit on descriptors: every program takes some of them."""
    global _inherited
    import resource

    if _inherited is None:
        _inherited = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # more than the system can count
            pass
        control_mode.in_child = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class OutputPipe:
    """A standard stream of a program, and the log that it goes to."""

    def __init__(self, index: int, descriptor: int, directory: str, keep: int) -> None:
        self.index = index
        self.descriptor = descriptor
        #: None when nobody wants it any more.
        self.log: Log | None = Log(os.path.join(directory, _LOGS[index]), keep, continued=False)
        self._large = False

    def read(self, buffer: memoryview) -> int:
        """Read into the buffer; 0 at the end, -1 if there is nothing yet."""
        try:
            size = os.readv(self.descriptor, [buffer])
        except BlockingIOError:
            return -1
        except OSError:  # EIO: no process has the terminal open
            return 0
        if size >= _FULL and not self._large:
            self._large = True
            try:
                fcntl.fcntl(self.descriptor, _F_SETPIPE_SZ, _LARGE_PIPE)
            except OSError:  # a terminal, or the user has as much as is allowed
                pass
        return size

    @property
    def pending(self) -> int:
        """How many bytes wait in the pipe."""
        size: int = struct.unpack("i", fcntl.ioctl(self.descriptor, termios.FIONREAD, b"\0" * 4))[0]
        return size

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class HolderProgram:
    """A program and its pipes."""

    def __init__(self, number: int, order: wire.ProgramOrder, stdin: bytes) -> None:
        """Start it.

        Raises:
            OSError: it could not be started; the text names what failed.
        """
        self.number = number
        self.name = order.name
        self.label = order.label
        self.directory = order.directory
        self.unsent = bytearray(stdin)
        #: How much of the standard input was taken so far; what of it is not in `unsent` is written.
        self.taken = len(stdin)
        self.stdin_ends = not order.stdin_open
        self.reason = self.detail = ""
        self.end: wire.ProgramEnd | None = None
        self.started = time.monotonic()
        #: When to end it, and when to kill it.
        self.deadline = None if order.timeout is None else self.started + order.timeout
        self.terminal = bool(order.rows)
        needs_stdin = bool(stdin) or order.stdin_open
        if self.terminal:
            self.stdin, ours, theirs = _open_terminal(order)
        else:
            self.stdin, ours, theirs = _open_pipes(needs_stdin)
        try:
            self.pid = _spawn(order, theirs, self.terminal)
        except OSError:
            for descriptor in {self.stdin, *ours} - {-1}:
                os.close(descriptor)
            raise
        finally:
            for descriptor in set(theirs) - {0}:
                os.close(descriptor)
        for descriptor in {self.stdin, *ours} - {-1}:
            os.set_blocking(descriptor, False)
        self.pipes = [OutputPipe(at, one, order.directory, order.keep) for at, one in enumerate(ours)]

    @property
    def grown(self) -> list[int]:
        """The offsets of GROWN."""
        ends = [pipe.log.end if pipe.log else 0 for pipe in self.pipes]
        is_open = self.stdin >= 0 and not self.stdin_ends
        return [*ends, *[0] * (2 - len(ends)), self.taken, self.taken - len(self.unsent), int(is_open)]

    @property
    def open(self) -> bool:
        """Whether a process may still print."""
        return any(pipe.descriptor >= 0 for pipe in self.pipes)

    def take(self, offset: int, data: bytes) -> None:
        """Take bytes for the standard input, once: those before `taken` came already."""
        if offset <= self.taken and not self.stdin_ends and self.stdin >= 0:
            fresh = data[self.taken - offset :]
            self.unsent += fresh
            self.taken += len(fresh)

    def write(self) -> bool:
        """Write to the standard input; whether more is to be written."""
        while self.unsent and self.stdin >= 0:
            try:
                written = os.write(self.stdin, self.unsent[:_WRITE_SIZE])
            except BlockingIOError:
                return True
            except OSError:  # nobody reads it
                self.unsent.clear()
                self.stdin_ends = True
                break
            del self.unsent[:written]
        if self.stdin_ends and self.stdin >= 0:
            return not self._end_stdin()
        return False

    def _end_stdin(self) -> bool:
        if self.terminal:
            try:
                os.write(self.stdin, _END_OF_INPUT)
            except BlockingIOError:
                return False
            except OSError:
                pass
            self.stdin = -1  # the descriptor is that of the output
        else:
            self.close_stdin()
        return True

    def close_stdin(self) -> None:
        if self.stdin >= 0 and not self.terminal:
            os.close(self.stdin)
        self.stdin = -1
        self.unsent.clear()

    def finish(self, status: int, used: struct_rusage) -> None:
        """The process has ended with this status of `wait4`."""
        code = os.waitstatus_to_exitcode(status)
        peak = used.ru_maxrss * 1024
        self.end = wire.ProgramEnd(
            code=code if code >= 0 else None,
            signal=max(0, -code),
            reason=self.reason,
            detail=self.detail,
            ended=time.time(),
            cpu_seconds=used.ru_utime + used.ru_stime,
            # Before it began its program, it was a copy of this process.
            peak_memory=peak if peak > _own_peak() else 0,
        )

    def describe(self) -> wire.HeldProgram:
        logs = [pipe.log.segments if pipe.log else [] for pipe in self.pipes] + [[]]
        return wire.HeldProgram(
            number=self.number,
            name=self.name,
            label=self.label,
            pid=self.pid,
            grown=self.grown,
            end=self.end,
            segments=(logs[0], logs[1]),
        )


class Programs:
    """All programs of the holder. The holder's loop calls it; nothing here waits."""

    def __init__(self, poll: select.poll, send: Callable[[bytes, int, bytes], None]) -> None:
        self._poll = poll
        self._send = send
        self._programs: dict[int, HolderProgram] = {}
        self._running: dict[int, HolderProgram] = {}
        #: What descriptors belong to; without a pipe it is a standard input.
        self._watched: dict[int, tuple[HolderProgram, OutputPipe | None]] = {}
        self._due: set[HolderProgram] = set()
        self._grown: set[HolderProgram] = set()
        self._buffer = memoryview(b"")

    @property
    def running(self) -> bool:
        return bool(self._running)

    def start(self, number: int, payload: bytes) -> None:
        """Start a program."""
        order, stdin = wire.parse_start(payload)
        if not self._buffer:
            self._buffer = memoryview(bytearray(_READ_SIZE))
            raise_limit()
        try:
            program = HolderProgram(number, order, stdin)
        except OSError as error:
            self._send(wire.NOT_STARTED, number, wire.fields(error.errno, error.strerror))
            return
        self._programs[number] = self._running[program.pid] = program
        for pipe in program.pipes:
            self._watch(pipe.descriptor, program, pipe, select.POLLIN)
        if program.deadline is not None:
            self._due.add(program)
        self._send(wire.STARTED, number, wire.fields(program.pid))
        self._write(program)

    def handle(self, descriptor: int, event: int) -> bool:
        """Handle an event of a descriptor; whether it is one of a program."""
        found = self._watched.get(descriptor)
        if found is None:
            return False
        program, pipe = found
        if event & select.POLLOUT or pipe is None:
            self._write(program)
        if pipe is not None and event & ~select.POLLOUT:
            self._read(program, pipe)
        return True

    def obey(self, kind: bytes, number: int, payload: bytes) -> bool:
        """Do what the server wants of a program; whether there is such a program."""
        if kind == wire.START:
            self.start(number, payload)
            return True
        program = self._programs.get(number)
        if program is None:
            return False
        if kind == wire.CLOSE:
            self._kill([program])
            self._forget(program)
            self._send(wire.CLOSED, number, b"")
        elif kind == wire.FORGET:
            self._forget(program)
        elif program.end is None:
            self._obey_running(program, kind, payload)
        return True

    def _obey_running(self, program: HolderProgram, kind: bytes, payload: bytes) -> None:
        if kind == wire.STDIN:
            (offset,) = wire.OFFSET.unpack_from(payload)
            program.take(offset, payload[wire.OFFSET.size :])
            self._write(program)
        elif kind == wire.CLOSE_STDIN:
            program.stdin_ends = True
            self._write(program)
        elif kind == wire.RESIZE and program.terminal and program.open:
            rows, columns = wire.parse_fields(payload)
            set_size(program.pipes[0].descriptor, int(rows), int(columns))
        elif kind == wire.SIGNAL:
            number, reason, detail = wire.parse_fields(payload)
            if reason:
                self._terminate(program, int(number), reason, detail)
            else:
                processes.send_signal(-program.pid, int(number))

    def reaped(self, pid: int, status: int, used: struct_rusage) -> bool:
        """A child has ended; whether it was a program."""
        program = self._running.pop(pid, None)
        if program is None:
            return False
        for pipe in program.pipes:
            self._drain(program, pipe)
        if not program.terminal and program.stdin >= 0:
            self._unwatch(program.stdin)
        program.close_stdin()
        self._due.discard(program)
        self._grown.discard(program)
        program.finish(status, used)
        if program.reason:
            self._kill([program])
        packed = wire.fields(*wire.pack_end(program.end))
        self._send(wire.ENDED, program.number, wire.offsets(*program.grown) + packed)
        return True

    @property
    def deadline(self) -> float | None:
        return min((one.deadline for one in self._due if one.deadline is not None), default=None)

    def overdue(self) -> None:
        """End the programs whose time is over, and kill those that did not end."""
        now = time.monotonic()
        late = [one for one in self._due if one.deadline is not None and now >= one.deadline]
        for program in late:
            if program.reason:
                program.deadline = None
                self._due.discard(program)
                self._kill([program])
            else:
                self._terminate(program, signals.SIGTERM, "timeout", "")

    def terminate_all(self) -> None:
        for program in self._running.values():
            if not program.reason:
                self._terminate(program, signals.SIGTERM, "signal", "The box was stopped.")

    def _terminate(self, program: HolderProgram, number: int, reason: str, detail: str) -> None:
        program.reason = program.reason or reason
        program.detail = program.detail or detail
        program.deadline = time.monotonic() + _GRACE
        self._due.add(program)
        processes.send_signal(-program.pid, number)
        processes.send_signal(-program.pid, signals.SIGCONT)

    def describe(self) -> list[wire.HeldProgram]:
        return [program.describe() for program in self._programs.values()]

    def news(self) -> list[tuple[int, bytes]]:
        """What has changed since the last call: numbers and offsets."""
        grown, self._grown = self._grown, set()
        return [(program.number, wire.offsets(*program.grown)) for program in grown]

    def _write(self, program: HolderProgram) -> None:
        before, stdin = len(program.unsent), program.stdin
        waits = program.write()
        if len(program.unsent) != before or program.stdin != stdin:
            self._grown.add(program)
        if stdin < 0:
            return
        if program.terminal:
            events = select.POLLIN | select.POLLOUT if waits else select.POLLIN
            if stdin in self._watched:
                self._poll.register(stdin, events)
        elif waits:
            self._watch(stdin, program, None, select.POLLOUT)
        else:
            self._unwatch(stdin)

    def _read(self, program: HolderProgram, pipe: OutputPipe) -> int:
        """Log one piece; how large it was, 0 or less if there is none."""
        size = pipe.read(self._buffer)
        if size > 0 and pipe.log is not None:
            for start, path in pipe.log.append(self._buffer[:size]):
                oldest = pipe.log.segments[0][0]
                self._send(wire.PART, program.number, wire.fields(pipe.index, start, path, oldest))
            self._grown.add(program)
        elif size == 0:
            self._unwatch(pipe.descriptor)
            if program.terminal:
                program.stdin = -1
            pipe.close()
            if pipe.log is not None and pipe.log.closable:
                pipe.log.close()
        return size

    def _drain(self, program: HolderProgram, pipe: OutputPipe) -> None:
        """Log what is in the pipe at this moment; a process in the background may print more at any time."""
        pending = pipe.pending if pipe.descriptor >= 0 else 0
        while pending > 0:
            size = self._read(program, pipe)
            if size <= 0:
                return
            pending -= size

    def _watch(self, descriptor: int, program: HolderProgram, pipe: OutputPipe | None, events: int) -> None:
        self._watched[descriptor] = (program, pipe)
        self._poll.register(descriptor, events)

    def _unwatch(self, descriptor: int) -> None:
        if self._watched.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _kill(self, programs: list[HolderProgram]) -> None:
        """Kill what is left of programs: their sessions, descendants, and what has their mark."""
        shells = [(one.pid, one.name, one.end is not None) for one in programs]
        for family in process_tree.families(shells):
            processes.kill(family)

    def _forget(self, program: HolderProgram) -> None:
        """Drop the logs. What processes in the background print from now on is read and dropped."""
        del self._programs[program.number]
        self._grown.discard(program)
        for pipe in program.pipes:
            if pipe.log is not None:
                pipe.log.close()
                if pipe.log.segments:
                    process_tree.remove_tree(pipe.log.directory)
                pipe.log = None
        try:
            os.rmdir(program.directory)
        except OSError:  # it has printed nothing
            pass


def _open_pipes(needs_stdin: bool) -> tuple[int, list[int], tuple[int, int, int]]:
    """Our standard input, our ends of the outputs, and the three streams of the program."""
    made: list[int] = []
    try:
        for _ in range(3 if needs_stdin else 2):
            made += os.pipe()
    except OSError as error:
        for descriptor in made:
            os.close(descriptor)
        raise _failed(error, "holder") from None
    out, out_theirs, err, err_theirs, *stdin = made
    if not stdin:
        return -1, [out, err], (0, out_theirs, err_theirs)  # which is /dev/null in the holder
    return stdin[1], [out, err], (stdin[0], out_theirs, err_theirs)


def _open_terminal(order: wire.ProgramOrder) -> tuple[int, list[int], tuple[int, int, int]]:
    try:
        master, slave = os.openpty()
    except OSError as error:
        raise _failed(error, "holder") from None
    set_size(slave, order.rows, order.columns)
    if order.uid is not None:
        os.fchown(slave, order.uid, -1)
    return master, [master], (slave, slave, slave)


def _spawn(order: wire.ProgramOrder, streams: tuple[int, int, int], terminal: bool) -> int:
    """Start the program.

    Raises:
        OSError: it could not be started; the text says what failed.
    """
    if not terminal and order.file_size is None and (child := _spawn_quickly(order, streams)):
        return child
    try:
        child, problem = control_mode.fork(lambda: _become(order, streams, terminal))
    except OSError as error:
        raise _failed(error, "holder") from None
    if problem:
        os.waitpid(child, 0)
        number, _, what = problem.decode().partition(" ")
        raise OSError(int(number), what)
    return child


def _spawn_quickly(order: wire.ProgramOrder, streams: tuple[int, int, int]) -> int:
    """Start the program as `subprocess` does, without a copy of this process where possible.

    Returns 0 if it could not be started; the reason is found out the slow way.
    """
    import resource

    words = [os.fsencode(word) for word in order.arguments]
    path = os.fsencode(order.environment.get("PATH", os.defpath)).split(b":")
    places = [words[0]] if b"/" in words[0] else [os.path.join(one, words[0]) for one in path]
    variables = [os.fsencode(f"{name}={value}") for name, value in order.environment.items()]
    user = (None, None, None) if order.uid is None else (order.gid, list(order.groups), order.uid)
    problem, report = os.pipe()
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, _inherited or own)  # which the child has as well
    try:
        start: Callable[..., int] = fork_exec
        child = start(
            words, tuple(places), False, (), os.fsencode(order.cwd), variables,
            streams[0], -1, -1, streams[1], -1, streams[2], problem, report,
            True, True, -1, *user, -1, None, True,
        )  # fmt: skip
    except (OSError, TypeError):  # no process to be had, or a Python that has another such function
        os.close(problem)
        return 0
    finally:
        os.close(report)
        resource.setrlimit(resource.RLIMIT_NOFILE, own)
    failed = os.read(problem, 1)  # it is closed when the program starts
    os.close(problem)
    if failed:
        os.waitpid(child, 0)
        return 0
    return child


def _become(order: wire.ProgramOrder, streams: tuple[int, int, int], terminal: bool) -> None:
    """Execute the program, in a child process."""
    control_mode.begin_session(streams)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if order.file_size is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = order.file_size if hard == resource.RLIM_INFINITY else min(order.file_size, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        if order.uid is not None:
            control_mode.switch_user(order.uid, order.gid or 0, list(order.groups))
    except OSError as error:
        raise _failed(error, "user") from None
    try:
        os.chdir(os.fsencode(order.cwd))
    except OSError as error:
        raise _failed(error, "cwd") from None
    environment = {os.fsencode(name): os.fsencode(value) for name, value in order.environment.items()}
    try:
        control_mode.execute([os.fsencode(word) for word in order.arguments], environment)
    except OSError as error:
        raise _failed(error, _what_failed(error, error.filename)) from None


def _what_failed(error: OSError, path: bytes | None) -> str:
    if path and os.path.isdir(path):
        return "directory"
    if path and error.errno == errno.ENOENT and os.path.exists(path):
        return "interpreter"
    return "program"


def _failed(error: OSError, what: str) -> OSError:
    return OSError(error.errno, what)


def _own_peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
