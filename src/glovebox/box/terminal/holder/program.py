"""A program of the holder that has no shell: how it starts, its two logs, its standard input and its end."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
import time
from _posixsubprocess import fork_exec

from glovebox.box.terminal.holder import control_mode, program_wire
from glovebox.box.terminal.holder.log import Log
from glovebox.box.terminal.holder.terminal import set_size
from glovebox.linux.traversal import open_enterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from resource import struct_rusage

#: How large a pipe becomes that was full.
_FULL = 65_536
_LARGE_PIPE = 1 << 20
_F_SETPIPE_SZ = 1031
_WRITE_SIZE = 65_536
_END_OF_INPUT = b"\x04"
_LOGS = ("out", "err")


class OutputPipe:
    """A standard stream of a program, and the log that it goes to."""

    def __init__(self, index: int, descriptor: int, directory: str, keep: int) -> None:
        self.index = index
        self.descriptor = descriptor
        #: None once it is no longer wanted.
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

    def __init__(self, number: int, order: program_wire.ProgramOrder, stdin: bytes) -> None:
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
        self.end: program_wire.ProgramEnd | None = None
        self.started = time.monotonic()
        #: When to end it, and when to kill it.
        self.deadline = None if order.timeout is None else self.started + order.timeout
        self.terminal = bool(order.rows)
        self.contained = order.contained
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
        """Write to the standard input; whether there is more to write."""
        while self.unsent and self.stdin >= 0:
            try:
                written = os.write(self.stdin, self.unsent[:_WRITE_SIZE])
            except BlockingIOError:
                return True
            except OSError:  # it has no reader
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
        self.end = program_wire.ProgramEnd(
            code=code if code >= 0 else None,
            signal=max(0, -code),
            reason=self.reason,
            detail=self.detail,
            ended=time.time(),
            cpu_seconds=used.ru_utime + used.ru_stime,
            # Before it began its program, it was a copy of this process.
            peak_memory=peak if peak > _own_peak() else 0,
        )

    def describe(self) -> program_wire.HeldProgram:
        logs = [pipe.log.segments if pipe.log else [] for pipe in self.pipes] + [[]]
        return program_wire.HeldProgram(
            number=self.number,
            name=self.name,
            label=self.label,
            pid=self.pid,
            grown=self.grown,
            end=self.end,
            segments=(logs[0], logs[1]),
        )


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


def _open_terminal(order: program_wire.ProgramOrder) -> tuple[int, list[int], tuple[int, int, int]]:
    try:
        master, slave = os.openpty()
    except OSError as error:
        raise _failed(error, "holder") from None
    set_size(slave, order.rows, order.columns)
    if order.uid is not None:
        os.fchown(slave, order.uid, -1)
    return master, [master], (slave, slave, slave)


def _spawn(order: program_wire.ProgramOrder, streams: tuple[int, int, int], terminal: bool) -> int:
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


def _spawn_quickly(order: program_wire.ProgramOrder, streams: tuple[int, int, int]) -> int:
    """Start the program as `subprocess` does, without a copy of this process where possible.

    Returns 0 if it could not be started; the reason is found out the slow way. This way enters the directory
    before it becomes the user, who must be allowed to.
    """
    if order.uid is None:
        return _fork_exec(order, streams, os.fsencode(order.cwd))
    groups = {order.gid or 0, *order.groups}
    directory = open_enterable(order.cwd, order.uid, groups)
    if directory < 0:
        return 0
    try:
        return _fork_exec(order, streams, b"/proc/self/fd/%d" % directory)
    finally:
        os.close(directory)


def _fork_exec(order: program_wire.ProgramOrder, streams: tuple[int, int, int], cwd: bytes) -> int:
    switches = order.uid is not None
    user = (order.gid or 0, list(order.groups), order.uid) if switches else (None, None, None)
    words = [os.fsencode(word) for word in order.arguments]
    path = os.fsencode(order.environment.get("PATH", os.defpath))
    places = tuple(control_mode.places(words[0], path))
    variables = [os.fsencode(f"{name}={value}") for name, value in order.environment.items()]
    problem, report = os.pipe()
    start: Callable[..., int] = fork_exec
    try:
        child = control_mode.with_own_limit(
            lambda: start(
                words, places, False, (), cwd, variables,
                streams[0], -1, -1, streams[1], -1, streams[2], problem, report,
                True, True, -1, *user, -1, None, True,
            )
        )  # fmt: skip
    except (OSError, TypeError):  # no process to be had, or a Python that has another such function
        os.close(problem)
        return 0
    finally:
        os.close(report)
    failed = os.read(problem, 1)  # it is closed when the program starts
    os.close(problem)
    if failed:
        os.waitpid(child, 0)
        return 0
    return child


def _become(order: program_wire.ProgramOrder, streams: tuple[int, int, int], terminal: bool) -> None:
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
