"""Terminals of the holder: pseudo-terminals with a shell, and the log and pending input of each."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time

from glovebox.box.terminal.holder import control_mode, wire
from glovebox.box.terminal.holder.lean import Protocol, signals
from glovebox.box.terminal.holder.log import Log
from glovebox.linux.processes import Process, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_READ_SIZE = 65_536
#: Bytes read at a time; other terminals have their turn after that.
_READ_LIMIT = 262_144
#: After a shorter read there is most likely no more; if there is, `poll` reports it at once.
_SHORT = 1_024
#: How long news of output waits for the end of the command, and news of the end for the prompt: most commands
#: take less, and one frame costs less than two.
_QUIET = 0.002
_PROMPT_QUIET = 0.001
_PROMPT_END = b"\033]1807;B;"
#: News of so much output does not wait.
_MUCH = 4_096
#: More than the bytes of an end mark up to the status; a mark may be torn between two reads.
_MARK_SIZE = 64
#: How many ends of one token are remembered: more than one if people use the shell as well.
_MOST_ENDS = 100


class ShellTerminal(Protocol):
    """A terminal with a shell in it. Nothing here blocks."""

    @property
    def pid(self) -> int:
        """The shell's process id, which is also its session's."""

    def fileno(self) -> int:
        """A descriptor that is readable when `read` has a result."""

    def read(self) -> bytes | None:
        """New output of the terminal; empty if there is none yet, None at its end."""

    def write(self, data: bytes) -> int:
        """Type bytes; how many were taken (0: try again when `writable_fileno` is writable)."""

    def writable_fileno(self) -> int:
        """The descriptor to wait for when `write` took less than it was given."""

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal; the foreground program gets SIGWINCH."""

    def status(self) -> int | None:
        """The exit status of a shell that has ended (128 + signal if killed), or None if unknown."""

    def hang_up(self) -> None:
        """Close the terminal. The shell gets SIGHUP; a second call does nothing."""


class Pty:
    """A program with its own session and controlling terminal, a child of this process."""

    def __init__(self, spec: wire.ShellSpec) -> None:
        """Start it; a directory that cannot be entered becomes the home.

        Raises:
            OSError: there is no such program, or no terminal or process to be had.
        """
        master, slave = os.openpty()
        try:
            set_size(slave, spec.rows, spec.columns)
            if spec.uid is not None:
                os.fchown(slave, spec.uid, -1)
            self._pid = _spawn_quickly(spec, master, slave) or control_mode.spawn(
                lambda: _become(spec, slave), spec.arguments[0]
            )
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self._master = master
        self._status: int | None = None
        self._exited = False
        os.set_blocking(master, False)

    @property
    def pid(self) -> int:
        return self._pid

    def fileno(self) -> int:
        return self._master

    writable_fileno = fileno

    def read(self) -> bytes | None:
        """New output; None when no process has the terminal open any more, or the shell is gone."""
        pieces: list[bytes] = []
        size = 0
        while size < _READ_LIMIT:
            try:
                piece = os.read(self._master, _READ_SIZE)
            except BlockingIOError:
                break
            except OSError:  # EIO: no process has the terminal open
                piece = b""
            if not piece:
                return b"".join(pieces) or None
            pieces.append(piece)
            size += len(piece)
            if len(piece) < _SHORT:
                break
        if not pieces and self._exited:
            return None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write(self, data: bytes) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # no process will read it

    def resize(self, rows: int, columns: int) -> None:
        set_size(self._master, rows, columns)

    def status(self) -> int | None:
        return self._status

    def reaped(self, status: int) -> None:
        """The shell has ended with this status of `waitpid`."""
        code = os.waitstatus_to_exitcode(status)
        self._status = code if code >= 0 else 128 - code
        self._exited = True

    def hang_up(self) -> None:
        if self._master >= 0:
            os.close(self._master)
            self._master = -1


def set_size(descriptor: int, rows: int, columns: int) -> None:
    """Set the size of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _spawn_quickly(spec: wire.ShellSpec, master: int, slave: int) -> int:
    """Start a shell as this user without a copy of this process; 0 if that is not possible here.

    A process that leads a session and has no terminal gets the first one that it opens.
    """
    if spec.uid is not None:
        return 0
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    ]
    try:
        program = next(filter(os.path.isfile, _places(spec)))
        child = control_mode.with_own_limit(
            lambda: _spawn_in(
                spec.cwd,
                lambda: os.posix_spawn(
                    program,
                    spec.arguments,
                    spec.environment,
                    file_actions=streams,
                    setsid=True,
                    setsigmask=[],
                    setsigdef=control_mode.RESET,
                ),
            )
        )
    except (OSError, StopIteration, NotImplementedError):  # the other way finds out why, or finds a way
        return 0
    if _in_foreground(child, master):
        return child
    os.kill(child, signals.SIGKILL)
    os.waitpid(child, 0)
    return 0


def _places(spec: wire.ShellSpec) -> list[bytes]:
    path = spec.environment.get("PATH", os.defpath)
    return control_mode.places(os.fsencode(spec.arguments[0]), os.fsencode(path))


def _spawn_in(directory: str, spawn: Callable[[], int]) -> int:
    """Start a process in a directory: it inherits that of this process, which has one thread."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir(directory)
        return spawn()
    finally:
        os.fchdir(here)
        os.close(here)


def _in_foreground(child: int, master: int) -> bool:
    """Whether a process has the terminal, as far as the system says that."""
    try:
        return os.tcgetpgrp(master) == child
    except OSError:
        return False


def _become(spec: wire.ShellSpec, slave: int) -> None:
    groups = ",".join(map(str, spec.groups)).encode()
    user = (b"", b"", b"") if spec.uid is None else (b"%d" % spec.uid, b"%d" % (spec.gid or 0), groups)
    control_mode.become(
        [os.fsencode(argument) for argument in spec.arguments],
        {os.fsencode(name): os.fsencode(value) for name, value in spec.environment.items()},
        os.fsencode(spec.cwd),
        user,
        slave,
    )


class EndMarks:
    """Distinguishes end marks that the shell itself printed from those of other programs.

    Only a process itself can write its name (/proc/PID/comm). Before each mark the shell writes there the
    status of the mark, and how many ends it has reported for this token, modulo 10. So if there are as many
    new marks as ends, they are the shell's. If there are more, other programs have printed some, and only the
    newest with the right status counts.
    """

    def __init__(self, pid: int) -> None:
        self._path = f"/proc/{pid}/comm"
        self._mark = self._name = self._before = b""
        self._reported = 0
        self._newest = -1
        #: Offsets of marks that may be the shell's.
        self._found: list[int] = []
        #: Offsets of marks that are the shell's.
        self.confirmed: list[int] = []

    def expect(self, token: bytes) -> None:
        """Look for the ends of the command with this token from now on."""
        mark = b"\033]1807;D;" + token + b"\x1f" if token else b""
        if mark != self._mark:
            self._mark = mark
            self._name = b"bash:" + token[:4] + b":"
            self._reported = 0
            self._found = []
            self.confirmed = []

    def find(self, data: bytes, offset: int) -> bool:
        """Search the output at `offset`; whether there is another mark of the shell's."""
        before, mark = self._before, self._mark
        self._before = data[-_MARK_SIZE:] if len(data) >= _MARK_SIZE else (before + data)[-_MARK_SIZE:]
        if not mark or (mark not in data and mark not in before + data[:_MARK_SIZE]):
            return False
        data, offset = before + data, offset - len(before)
        self._collect(data, offset)
        status, _, count = (
            read_file(self._path, _MARK_SIZE).rstrip(b"\n").removeprefix(self._name).partition(b":")
        )
        ends = (int(count) - self._reported) % 10 if count.isdigit() else 0
        found = self._found
        if ends <= len(found):  # else the other marks follow, or were lost
            newest = data.rfind(mark + status + b"\x1f")
            if not ends or newest < 0:
                return False
            if ends < len(found):
                found = [offset + newest]
        self.confirmed = [*self.confirmed, *found][-_MOST_ENDS:]
        self._reported = (self._reported + min(ends, len(self._found))) % 10
        self._found = []
        return True

    def _collect(self, data: bytes, offset: int) -> None:
        at = data.find(self._mark)
        while at >= 0:
            if offset + at > self._newest:
                self._newest = offset + at
                self._found = [*self._found[1 - _MOST_ENDS :], self._newest]
            at = data.find(self._mark, at + 1)


class HolderTerminal:
    """A shell in the holder."""

    def __init__(
        self, number: int, name: str, source: ShellTerminal, log: Log, scratch: str, token: bytes = b""
    ) -> None:
        self.number = number
        self.name = name
        self.source = source
        self.log = log
        #: The directory of the shell's files, removed with the shell.
        self.scratch = scratch
        self.inputs = 0
        self.unsent = bytearray()
        #: The server has no news of the newest output yet.
        self.dirty = False
        self.exited = False
        #: Until when to wait for the status of a shell that closed its terminal, or for the end of a shell.
        self.deadline: float | None = None
        self.closing = False
        #: A pidfd of a shell that is not our child, while it is being closed.
        self.leave = -1
        self.relatives: list[Process] = []
        #: Until then, or until the command has ended, news waits.
        self.quiet_until = 0.0
        self.ends = EndMarks(source.pid)
        self.ends.expect(token)

    def expect(self, token: bytes) -> None:
        """A command begins; if it ends soon, there is one frame of news about all its output."""
        self.quiet_until = time.monotonic() + _QUIET
        self.ends.expect(token)

    def printed(self, data: bytes) -> list[tuple[int, str]]:
        """Log output of the shell; returns the new files of the log."""
        self.dirty = True
        ended = self.ends.find(data, self.log.end)
        if _PROMPT_END in data or len(data) >= _MUCH:
            self.quiet_until = 0.0
        elif ended:
            self.quiet_until = time.monotonic() + _PROMPT_QUIET
        return self.log.append(data)

    def describe(self) -> wire.HeldTerminal:
        """The description for a new server, after a check of the log."""
        self.log.check()
        return wire.HeldTerminal(
            number=self.number,
            name=self.name,
            pid=self.source.pid,
            inputs=self.inputs,
            end=self.log.end,
            ends=self.ends.confirmed,
            exited=self.exited,
            status=self.source.status(),
            segments=self.log.segments,
        )
