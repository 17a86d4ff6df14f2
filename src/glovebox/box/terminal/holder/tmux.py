"""Shells in tmux, so that people can attach to them; driven through tmux's control mode.

Written for tmux 3.0 and later. A shell that is still running when the holder dies ends with it, or, while
people are attached, when the last of them leaves.
"""

from __future__ import annotations

import os
import select
import sys
import time

from glovebox.box.terminal.holder import control_mode
from glovebox.box.terminal.holder.control_mode import ControlMode, Marks
from glovebox.box.terminal.holder.lean import signals
from glovebox.box.terminal.holder.wire import ShellSpec
from glovebox.linux import processes

_READ_SIZE = 65_536
#: Bytes read at a time; other terminals have their turn after that.
_READ_LIMIT = 262_144
#: Seconds that tmux may take to start a shell, or to end.
_PATIENCE = 10.0
#: Times to try again when tmux ended in the meantime.
_ATTEMPTS = 10
#: Writes of at most this size to a pipe are atomic.
_LINE = select.PIPE_BUF
#: tmux and what it runs for people need little; the shells have their own.
_ENVIRONMENT = {
    b"PATH": b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    b"LC_CTYPE": b"C.UTF-8",
}
#: tmux disconnects clients that are minutes behind, or skips output; this makes it weeks.
_UNHURRIED = "pause-after=4000000"
#: Executes the keeper, with values that tmux has put in the environment.
_KEEPER = 'exec "$0" -I -S "$@" "$TMUX" "$TMUX_PANE"'


def attach_command(socket: str, name: str) -> list[str]:
    """The command with which a person joins a shell; the beginning of its name is enough."""
    return ["tmux", "-S", socket, "attach", "-t", name]


class TmuxServer:
    """A tmux at the address `socket`, which runs while there are shells in it.

    Its clients are children of this process, which has to reap them.
    """

    def __init__(self, socket: str, program: str = "tmux") -> None:
        self.socket = socket
        self._program = program
        #: The clients, one for each shell.
        self._clients: set[int] = set()

    def open(self, spec: ShellSpec) -> TmuxSource:
        """Start a shell; a directory that cannot be entered becomes the home.

        Raises:
            FileNotFoundError: there is no tmux, or no such program to run in it.
            OSError: tmux refused, with its reason, or the program could not be started.
        """
        attempts = _ATTEMPTS
        while True:
            try:
                return self._open(spec)
            except ConnectionResetError:  # it was about to end, as the last shell had ended
                attempts -= 1
                if not attempts:
                    raise

    def _open(self, spec: ShellSpec) -> TmuxSource:
        # Not on the command line, which every process can read.
        path = f"{self.socket}.{spec.name}"
        secret = b"%d" % int.from_bytes(os.urandom(16), "big")
        _discard(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(control_mode.pack(spec, secret))
            return TmuxSource(self, spec, Marks(secret), self._command("-C", *_commands(spec, path)))
        finally:
            _discard(path)

    def attend(self, command: list[str], stdin: int, stdout: int) -> int:
        client = _spawn(command, stdin, stdout)
        self._clients.add(client)
        return client

    def dismiss(self, client: int) -> None:
        """End a client, and its shell with it unless people are attached.

        A client whose output is not read would never end, nor would tmux.
        """
        self._clients.discard(client)
        try:
            os.waitid(os.P_PID, client, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # is it still our child?
            os.kill(client, signals.SIGKILL)
        except (ChildProcessError, ProcessLookupError):
            pass

    def end(self, pane: str, server: str) -> None:
        """Tell tmux to close the terminal of a shell, if it is still the same tmux."""
        same = f"#{{==:#{{pid}},{server}}}"
        null = os.open(os.devnull, os.O_RDWR)
        try:
            _spawn(self._command("if-shell", "-F", "-t", pane, same, f"kill-session -t {pane}"), null, null)
        finally:
            os.close(null)

    def close(self) -> None:
        """End tmux; all its shells are hung up."""
        for client in list(self._clients):
            self.dismiss(client)
        null = os.open(os.devnull, os.O_RDONLY)
        done, running = os.pipe()
        try:
            _spawn(self._command("kill-server"), null, running)
        finally:
            os.close(null)
            os.close(running)
        with open(done, "rb", buffering=0) as said:
            deadline = time.monotonic() + _PATIENCE
            while _readable(done, deadline) and said.read(_READ_SIZE):
                pass  # it may print that there is none

    def _command(self, *arguments: str) -> list[str]:
        return [self._program, "-S", self.socket, "-f", os.devnull, *arguments]


class TmuxSource:
    """A shell in a session of tmux, seen by a client of tmux that is a child of this process."""

    def __init__(self, server: TmuxServer, spec: ShellSpec, marks: Marks, command: list[str]) -> None:
        self._server = server
        self._tmux = ControlMode()
        self._marks = marks
        self._pid = 0
        self._status: int | None = None
        self._over = False
        #: Commands that tmux was too busy for.
        self._owed: list[bytes] = []
        theirs, self._commands = os.pipe()
        self._output, theirs_too = os.pipe()
        try:
            self._client = server.attend(command, theirs, theirs_too)
        except OSError:
            os.close(self._commands)
            os.close(self._output)
            raise
        finally:
            os.close(theirs)
            os.close(theirs_too)
        os.set_blocking(self._commands, False)
        os.set_blocking(self._output, False)
        try:
            #: Output from before the shell was known to run.
            self._early = self._start(spec.arguments[0])
        except OSError:
            self._leave()  # which ends a shell that has started after all
            raise

    @property
    def pid(self) -> int:
        return self._pid

    def fileno(self) -> int:
        return self._output

    def writable_fileno(self) -> int:
        return self._commands

    def read(self) -> bytes | None:
        """New output; None when the shell or tmux has ended.

        The first call may have a result without new output of tmux.
        """
        early, self._early = self._early, b""
        printed = early + self._receive()
        self._flush()
        return None if self._over and not printed else printed

    def write(self, data: bytes) -> int:
        """Type bytes, even while a person scrolls back."""
        pane = self._tmux.pane
        # In a mode, as when a person scrolls back, tmux would take input for commands of its own.
        start = b"copy-mode -q -t %b\nsend-keys -t %b -H " % (pane, pane)
        room = (_LINE - len(start)) // 3
        taken = 0
        while taken < len(data) and self._flush():
            piece = data[taken : taken + room]
            if not self._send(start + piece.hex(" ").encode() + b"\n"):
                break
            taken += len(piece)
        return taken

    def resize(self, rows: int, columns: int) -> None:
        self._owed.append(b"resize-window -t %b -x %d -y %d\n" % (self._tmux.pane, columns, rows))
        self._flush()

    def status(self) -> int | None:
        return self._status

    def hang_up(self) -> None:
        """Close the terminal, also for people who are attached."""
        if self._output < 0:
            return
        ended = self._over and self._status is not None
        self._leave()
        if ended:
            return
        try:
            self._server.end(self._tmux.pane.decode(), self._tmux.server.decode())
        except OSError:  # there is no tmux any more
            pass

    def _leave(self) -> None:
        self._server.dismiss(self._client)
        os.close(self._commands)
        os.close(self._output)
        self._commands = self._output = -1
        self._over = True

    def _start(self, program: str) -> bytes:
        """Wait until the shell runs; returns its output until then."""
        printed = []
        deadline = time.monotonic() + _PATIENCE
        while not self._pid:
            if not _readable(self._output, deadline):
                raise TimeoutError("tmux did not start a shell in time")
            printed.append(self._receive(program))
            if self._over and not self._pid:
                if self._tmux.refusal:
                    raise OSError(f"tmux: {os.fsdecode(self._tmux.refusal)}")
                raise ConnectionResetError(f"tmux: {os.fsdecode(self._tmux.complaint) or 'ended at once'}")
        return b"".join(printed)

    def _receive(self, program: str = "") -> bytes:
        """Read the output of tmux; returns the output of the terminal."""
        received: list[bytes] = []
        size = 0
        while size < _READ_LIMIT and not self._over:
            try:
                piece = os.read(self._output, _READ_SIZE)
            except BlockingIOError:
                break
            self._over = not piece
            received.append(piece)
            size += len(piece)
        printed, marks = self._marks.split(self._tmux.feed(b"".join(received)))
        for mark in marks:
            number = int(mark[1:])
            if mark.startswith(control_mode.REFUSED):
                raise OSError(number, os.strerror(number), program)
            if mark.startswith(control_mode.STARTED):
                self._pid = number
            else:
                self._status = number
                # The client ends with the session, and its end is what can be waited for.
                self._owed.append(b"kill-session -t %b\n" % self._tmux.pane)
        return printed

    def _flush(self) -> bool:
        """Send pending commands; whether all were sent. If not, the next output of tmux causes a retry."""
        while self._owed and self._send(self._owed[0]):
            del self._owed[0]
        return not self._owed

    def _send(self, line: bytes) -> bool:
        """Send one command as a whole; whether that was possible."""
        try:
            os.write(self._commands, line)
        except BlockingIOError:
            return False
        except OSError:
            pass  # tmux has ended
        return True


def _commands(spec: ShellSpec, path: str) -> list[str]:
    size = ["-x", str(spec.columns), "-y", str(spec.rows)]
    names = ["-s", spec.name, "-n", os.path.basename(spec.arguments[0])]
    keeper = ["/bin/sh", "-c", _KEEPER, sys.executable, control_mode.__file__, path]
    return [
        *("set-option", "-g", "status", "off", ";"),
        *("set-option", "-g", "destroy-unattached", "on", ";"),
        *("new-session", *names, *size, "-P", "-F", "#{pane_id} #{pid}", *keeper, ";"),
        *("resize-window", *size, ";"),  # from now on, whatever the size of a person's terminal
        *("refresh-client", "-f", _UNHURRIED),
    ]


def _spawn(command: list[str], stdin: int, stdout: int) -> int:
    """Start a program that does not outlive this process.

    Raises:
        OSError: it could not be started.
    """
    parent = os.getpid()

    def run() -> None:
        os.setsid()
        for theirs, ours in ((stdin, 0), (stdout, 1), (stdout, 2)):
            os.dup2(theirs, ours)
        # Elsewhere than on Linux, a client sees that its pipe is closed.
        processes.prctl(processes.PR_SET_PDEATHSIG, signals.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        control_mode.execute([os.fsencode(word) for word in command], _ENVIRONMENT)

    return control_mode.spawn(run, command[0])


def _readable(descriptor: int, deadline: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _discard(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
