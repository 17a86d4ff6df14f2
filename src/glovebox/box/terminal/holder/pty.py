"""A shell on a pseudo-terminal of the holder's own."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from glovebox.box.terminal.holder import control_mode
from glovebox.box.terminal.holder.wire import ShellSpec

_READ_SIZE = 65_536
#: Bytes read at a time; other terminals have their turn after that.
_READ_LIMIT = 262_144
#: After a shorter read there is most likely no more; if there is, `poll` reports it at once.
_SHORT = 1_024


class Pty:
    """A program with its own session and controlling terminal, a child of this process."""

    def __init__(self, spec: ShellSpec) -> None:
        """Start it; a directory that cannot be entered becomes the home.

        Raises:
            OSError: there is no such program, or no terminal or process to be had.
        """
        master, slave = os.openpty()
        try:
            _set_size(slave, spec.rows, spec.columns)
            if spec.uid is not None:
                os.fchown(slave, spec.uid, -1)
            self._pid = control_mode.spawn(lambda: _become(spec, slave), spec.arguments[0])
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
        _set_size(self._master, rows, columns)

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


def _set_size(descriptor: int, rows: int, columns: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _become(spec: ShellSpec, slave: int) -> None:
    groups = ",".join(map(str, spec.groups)).encode()
    user = (b"", b"", b"") if spec.uid is None else (b"%d" % spec.uid, b"%d" % (spec.gid or 0), groups)
    control_mode.become(
        [os.fsencode(argument) for argument in spec.arguments],
        {os.fsencode(name): os.fsencode(value) for name, value in spec.environment.items()},
        os.fsencode(spec.cwd),
        user,
        slave,
    )
