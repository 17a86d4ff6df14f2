"""The control mode of tmux, and the program that keeps a pane of tmux open.

tmux discards undelivered output as soon as the process in a pane ends. So the shell is not that process: this
file, run as a program of its own, is. This keeper starts the shell, waits for its end and stays until the
terminal is closed. Its messages are part of the terminal's output, in order with the rest: sequences that
terminals do not show, with a secret that no other program has.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
    from collections.abc import Callable

    from glovebox.box.terminal.holder.wire import ShellSpec
else:
    import _signal as signals

#: Messages of the keeper: the shell has started (process id), could not start (errno), has ended (status).
STARTED, REFUSED, ENDED = b"P", b"E", b"S"
#: Begins with the character that cancels an unfinished sequence of the shell.
_LEAD = b"\x18\033]1808;"
_CLOSE = b"\a"
#: Status of a child that could not become the shell.
_NOT_STARTED = 127
#: Signals that have their default action in a shell, even if this process or Python ignores them.
RESET = (
    signals.SIGHUP,
    signals.SIGINT,
    signals.SIGQUIT,
    signals.SIGTERM,
    signals.SIGTSTP,
    signals.SIGPIPE,
    signals.SIGXFSZ,
)

#: The limit on descriptors for children, if this process has raised its own.
_inherited: tuple[int, int] | None = None


class ControlMode:
    """Parses the output of a client of tmux, in any pieces, into the output of one pane."""

    def __init__(self) -> None:
        #: The pane, once tmux has named it, and the process id of tmux.
        self.pane = self.server = b""
        #: Why tmux did not make a pane.
        self.refusal = b""
        #: The first message of the client before there was a pane.
        self.complaint = b""
        self._rest = b""
        self._in_reply = False
        self._reply: list[bytes] = []
        self._output = self._extended = b"\n"  # which no line contains

    def feed(self, data: bytes) -> bytes:
        """The bytes that the pane printed according to `data`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        printed = []
        for line in lines:
            if self._in_reply:
                self._read_reply(line)
            elif line.startswith(self._output):
                printed.append(line[len(self._output) :])
            elif line.startswith(self._extended):
                printed.append(line.partition(b" : ")[2])
            elif line.startswith(b"%begin "):
                self._in_reply = True
            elif not self.pane:
                self._read_notification(line)
        escaped = b"".join(printed)
        if b"\\" in escaped:  # control characters and the backslash, as three octal digits
            return escaped.decode("unicode_escape").encode("latin-1")
        return escaped

    def _read_reply(self, line: bytes) -> None:
        if not line.startswith((b"%end ", b"%error ")):
            self._reply.append(line)
            return
        text = b" ".join(self._reply)
        self._in_reply = False
        self._reply.clear()
        if self.pane:
            return
        if line.startswith(b"%error "):
            self.refusal = text
        elif text.startswith(b"%"):
            self.pane, self.server = text.split()
            self._output = b"%output " + self.pane + b" "
            self._extended = b"%extended-output " + self.pane + b" "

    def _read_notification(self, line: bytes) -> None:
        text = line.removeprefix(b"%exit").strip()
        if not text.startswith(b"%"):
            self.complaint = self.complaint or text


class Marks:
    """Extracts the messages of a keeper from the output of the terminal."""

    def __init__(self, secret: bytes) -> None:
        self._prefix = _LEAD + secret + b";"
        self._held = b""

    def split(self, data: bytes) -> tuple[bytes, list[bytes]]:
        """The output without messages, and the messages; an incomplete message is held back."""
        data = self._held + data
        self._held = b""
        printed, messages = [], []
        while (start := data.find(self._prefix)) >= 0 and (end := data.find(_CLOSE, start)) >= 0:
            printed.append(data[:start])
            messages.append(data[start + len(self._prefix) : end])
            data = data[end + 1 :]
        if start < 0:
            start = data.rfind(_LEAD[:1], -len(self._prefix))
        if start >= 0 and (self._prefix.startswith(data[start:]) or data.startswith(self._prefix, start)):
            data, self._held = data[:start], data[start:]
        return b"".join([*printed, data]), messages


def pack(spec: ShellSpec, secret: bytes) -> bytes:
    """The file for a keeper. No word in it can contain a NUL."""
    words = [
        *("" if number is None else str(number) for number in (spec.uid, spec.gid)),
        ",".join(map(str, spec.groups)),
        spec.cwd,
        str(len(spec.arguments)),
        *spec.arguments,
        *(f"{name}={value}" for name, value in spec.environment.items()),
    ]
    return b"\0".join([secret, *map(os.fsencode, words)])


def keep(path: str, tmux: str, pane: str) -> None:
    """Keep a pane open. The file at `path`, written by `pack`, is removed."""
    with open(path, "rb") as file:
        secret, uid, gid, groups, cwd, count, *words = file.read().split(b"\0")
    os.unlink(path)
    arguments = words[: int(count)]
    environment = dict(word.split(b"=", 1) for word in words[int(count) :])
    environment |= {b"TMUX": os.fsencode(tmux), b"TMUX_PANE": os.fsencode(pane)}
    # The shell becomes the leader of a session on this terminal. Giving a terminal up sends SIGHUP.
    signals.signal(signals.SIGHUP, signals.SIG_IGN)
    fcntl.ioctl(0, termios.TIOCNOTTY)
    child, problem = fork(lambda: become(arguments, environment, cwd, (uid, gid, groups), 0))
    _say(secret, REFUSED + problem.split()[0] if problem else STARTED + b"%d" % child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    termios.tcflow(1, termios.TCOON)  # a user may have stopped the output
    _say(secret, ENDED + b"%d" % (code if code >= 0 else 128 - code))
    terminal = select.poll()
    terminal.register(0, 0)  # nothing but the hang-up
    terminal.poll()


def _say(secret: bytes, words: bytes) -> None:
    os.write(1, _LEAD + secret + b";" + words + _CLOSE)


def fork(run: Callable[[], None]) -> tuple[int, bytes]:
    """Fork a child that calls `run`, which executes a program; its id, and errno and text of a failure."""
    problem, report = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            try:
                _set_limit(_inherited)
                run()
            except OSError as error:
                os.write(report, b"%d %b" % (error.errno or 0, str(error.strerror).encode()))
            finally:
                os._exit(_NOT_STARTED)
    except OSError:
        os.close(problem)
        raise
    finally:
        os.close(report)
    with open(problem, "rb") as pipe:  # it is closed when the program starts
        return child, pipe.read()


def spawn(run: Callable[[], None], program: str) -> int:
    """Fork a child as `fork` does; its process id.

    Raises:
        OSError: the program could not be started.
    """
    child, problem = fork(run)
    if problem:
        os.waitpid(child, 0)
        number = int(problem.split()[0])
        raise OSError(number, os.strerror(number), program)
    return child


def become(
    arguments: list[bytes],
    environment: dict[bytes, bytes],
    cwd: bytes,
    user: tuple[bytes, bytes, bytes],
    terminal: int,
) -> None:
    """Execute a shell on a terminal, in a child process.

    Raises:
        OSError: it could not be started.
    """
    begin_session((terminal, terminal, terminal))
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    uid, gid, groups = user
    if uid and gid:
        os.fchown(0, int(uid), -1)
        switch_user(int(uid), int(gid), [int(group) for group in groups.split(b",") if group])
    for directory in (cwd, environment.get(b"HOME", b""), b"/"):
        try:
            os.chdir(directory)
            break
        except OSError:
            continue
    execute(arguments, environment)


def raise_limit() -> None:
    """Raise this process's limit on descriptors, not that of its children: every program takes some."""
    global _inherited
    import resource

    if _inherited is None:
        _inherited = _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            _set_limit((hard, hard))
        except (OSError, ValueError):  # more than the system can count
            pass


def with_own_limit(spawn: Callable[[], int]) -> int:
    """Start a process that does not have the raised limit of this one."""
    _set_limit(_inherited)
    try:
        return spawn()
    finally:
        if _inherited is not None:
            _set_limit((_inherited[1], _inherited[1]))


def _set_limit(limit: tuple[int, int] | None) -> None:
    if limit is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def begin_session(streams: tuple[int, int, int]) -> None:
    """In a child process: a session of its own, default signals, and these standard streams."""
    for number in RESET:
        signals.signal(number, signals.SIG_DFL)
    signals.pthread_sigmask(signals.SIG_SETMASK, [])
    os.setsid()
    for target, source in enumerate(streams):
        os.dup2(source, target)


def switch_user(uid: int, gid: int, groups: list[int]) -> None:
    """Become another user for good."""
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)


def places(name: bytes, path: bytes) -> list[bytes]:
    """Where a program may be."""
    return [name] if b"/" in name else [os.path.join(directory, name) for directory in path.split(b":")]


def execute(arguments: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Like `os.execvpe`, which imports a module that the new user may not be allowed to read."""
    problem: OSError | None = None
    for place in places(arguments[0], environment.get(b"PATH", os.defpath.encode())):
        try:
            os.execve(place, arguments, environment)  # noqa: S606
        except OSError as error:
            error.filename = place
            if problem is None or isinstance(problem, FileNotFoundError):
                problem = error
    if problem:
        raise problem


if __name__ == "__main__":
    try:
        keep(*sys.argv[1:])
    except (OSError, termios.error):  # the terminal was closed
        pass
