"""The holder's loop: terminals on one side, at most one server on the other."""

from __future__ import annotations

import os
import select
import time

from glovebox.box.terminal.holder import process_tree, program_wire, wire
from glovebox.box.terminal.holder.lean import signals, sockets
from glovebox.box.terminal.holder.listener import Listener
from glovebox.box.terminal.holder.log import Log
from glovebox.box.terminal.holder.programs import Programs
from glovebox.box.terminal.holder.terminal import HolderTerminal, Pty, ShellTerminal
from glovebox.box.terminal.holder.wire import ShellSpec
from glovebox.linux import processes
from glovebox.linux.processes import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Names in the state directory.
ERROR_LOG = "holder.log"
TMUX_SOCKET = "tmux.sock"
#: How long a shell and its jobs may take to end after SIGHUP.
_GRACE = 0.5
#: When more shells than a few end, their processes are searched together, after so long.
_FEW = 4
_TOGETHER = 0.05
_RECEIVE = 65_536
_IN = select.POLLIN
_OUT = select.POLLOUT


class Holder:
    """Owns terminals until the server closes them.

    `patience` is how many seconds it waits for the next server after the connection to one is lost.
    """

    def __init__(
        self,
        poll: select.poll,
        listener: Listener | None,
        *,
        patience: float,
        keep: int,
        open_source: Callable[[ShellSpec], ShellTerminal],
    ) -> None:
        self._patience = patience
        self._keep = keep
        self._open_source = open_source
        self._terminals: dict[int, HolderTerminal] = {}
        self._by_descriptor: dict[int, HolderTerminal] = {}
        self._poll = poll
        self._programs = Programs(poll, self._send)
        self._server: sockets.socket | None = None
        self._frames = wire.Frames()
        self._outbox = bytearray()
        self._abandoned: float | None = None
        #: Terminals to close before the next wait.
        self._dismissed: list[HolderTerminal] = []
        self._quitting = False
        self._wakeup, wake = os.pipe()
        for descriptor in (self._wakeup, wake):
            os.set_blocking(descriptor, False)
        signals.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signals.signal(signals.SIGCHLD, lambda number, frame: None)
        signals.signal(signals.SIGTERM, lambda number, frame: self._quit())
        for ignored in (signals.SIGINT, signals.SIGHUP):  # not SIG_IGN, which programs would inherit
            signals.signal(ignored, lambda number, frame: None)
        for usual in (signals.SIGQUIT, signals.SIGTSTP):
            signals.signal(usual, signals.SIG_DFL)
        signals.pthread_sigmask(signals.SIG_SETMASK, [])
        signals.signal(signals.SIGPIPE, signals.SIG_IGN)
        self._poll.register(self._wakeup, _IN)
        self._listener = listener

    def serve(self, server: sockets.socket) -> None:
        """Hold terminals until it has to quit; begins with a server that is already connected."""
        self._greet(server)
        while not (self._quitting and not self._terminals and not self._programs.running):
            for descriptor, event in self._poll.poll(self._wait()):
                self._handle(descriptor, event)
            dismissed, self._dismissed = self._dismissed, []
            self._close(dismissed)
            self._overdue()
            self._send_news()
        if self._listener is not None:
            self._listener.close()
        if self._server is not None:
            self._server.setblocking(True)
            self._flush()

    # The loop.

    def _handle(self, descriptor: int, event: int) -> None:
        if terminal := self._by_descriptor.get(descriptor):
            if terminal.closing:
                self._unwatch(terminal)
                self._end_soon(terminal)
                return
            if event & _OUT:
                self._type(terminal)
            if event & ~_OUT:
                self._read(terminal)
        elif descriptor == self._wakeup:
            os.read(self._wakeup, 4096)
            self._reap()
        elif self._server is not None and descriptor == self._server.fileno():
            if event & _OUT:
                self._flush()
            if event & ~_OUT:
                self._receive()
        elif self._programs.handle(descriptor, event):
            return
        elif self._listener is not None and (server := self._listener.handle(descriptor)) is not None:
            self._greet(server)

    def _wait(self) -> float | None:
        """Milliseconds until something is due."""
        if self._dismissed:
            return 0
        due = [terminal.deadline for terminal in self._terminals.values() if terminal.deadline is not None]
        due += [one.quiet_until for one in self._terminals.values() if one.dirty and one.quiet_until]
        if self._abandoned is not None:
            due.append(self._abandoned + self._patience)
        if self._programs.deadline is not None:
            due.append(self._programs.deadline)
        if self._listener is not None and self._listener.deadline is not None:
            due.append(self._listener.deadline)
        return max(0.0, min(due) - time.monotonic()) * 1000 + 1 if due else None

    def _overdue(self) -> None:
        now = time.monotonic()
        due = [one for one in self._terminals.values() if one.deadline is not None and now >= one.deadline]
        for terminal in due:
            terminal.deadline = None
            if not terminal.closing:
                self._exit(terminal)
        self._end([terminal for terminal in due if terminal.closing])
        self._programs.overdue()
        if self._listener is not None:
            self._listener.close_late()
        if self._abandoned is not None and now >= self._abandoned + self._patience:
            self._abandoned = None
            self._quit()

    # The terminals.

    def _open(self, number: int, payload: bytes) -> None:
        directory, scratch, spec = wire.parse_open(payload)
        try:
            log = Log(directory, self._keep)
            source = self._open_source(spec)
        except OSError as error:
            self._send(wire.REFUSED, number, wire.fields(str(error)))
            return
        terminal = HolderTerminal(number, spec.name, source, log, scratch, spec.token.encode())
        self._terminals[number] = terminal
        self._watch(terminal, _IN)
        self._send(wire.OPENED, number, wire.fields(source.pid))
        self._read(terminal)

    def _watch(self, terminal: HolderTerminal, events: int) -> None:
        source = terminal.source
        reads, writes = source.fileno(), source.writable_fileno()
        self._by_descriptor[reads] = self._by_descriptor[writes] = terminal
        if reads == writes:
            self._poll.register(reads, events)
        else:
            self._poll.register(reads, _IN)
            if events & _OUT:
                self._poll.register(writes, _OUT)
            else:
                self._unregister(writes)

    def _unwatch(self, terminal: HolderTerminal) -> None:
        for descriptor in [key for key, value in self._by_descriptor.items() if value is terminal]:
            del self._by_descriptor[descriptor]
            self._unregister(descriptor)

    def _unregister(self, descriptor: int) -> None:
        try:
            self._poll.unregister(descriptor)
        except KeyError:
            pass

    def _read(self, terminal: HolderTerminal) -> None:
        if terminal.exited or terminal.closing:
            return
        data = terminal.source.read()
        if data:
            for start, path in terminal.printed(data):
                oldest = terminal.log.segments[0][0]
                self._send(wire.SEGMENT, terminal.number, wire.fields(start, path, oldest))
        elif data is None:
            self._unwatch(terminal)
            if terminal.source.status() is not None:
                self._exit(terminal)
            else:
                # The status follows at once, unless the program closed its terminal and runs on.
                terminal.deadline = time.monotonic() + _GRACE

    def _type(self, terminal: HolderTerminal, data: bytes = b"") -> None:
        waited = bool(terminal.unsent)
        terminal.unsent += data
        while terminal.unsent:
            taken = terminal.source.write(bytes(terminal.unsent[:65_536]))
            if not taken:
                break
            del terminal.unsent[:taken]
        if bool(terminal.unsent) != waited and terminal.source.fileno() in self._by_descriptor:
            self._watch(terminal, _IN | _OUT if terminal.unsent else _IN)

    def _exit(self, terminal: HolderTerminal) -> None:
        """The shell has ended, or has closed its terminal."""
        if not terminal.exited:
            terminal.exited = True
            terminal.deadline = None
            terminal.quiet_until = 0.0
            self._unwatch(terminal)
            self._send_news()
            self._send(wire.EXITED, terminal.number, wire.fields(terminal.source.status()))

    def _reap(self) -> None:
        """Wait for children that have ended: shells, and adopted orphans."""
        for pid, status, used in process_tree.reap():
            if self._programs.reaped(pid, status, used):
                continue
            for terminal in list(self._terminals.values()):
                if terminal.source.pid != pid or not isinstance(terminal.source, Pty):
                    continue
                terminal.source.reaped(status)
                while not terminal.exited and not terminal.closing and terminal.source.status() is not None:
                    self._read(terminal)
                if terminal.closing:
                    self._end_soon(terminal)

    def _close(self, terminals: list[HolderTerminal]) -> None:
        """Hang up shells; after a grace period, `_end` kills what is left of them."""
        for terminal, relatives in self._with_relatives(terminals):
            self._unwatch(terminal)
            gone = terminal.source.status() is not None
            terminal.relatives = relatives
            terminal.source.hang_up()
            if not gone:
                processes.send_signal(terminal.source.pid, signals.SIGHUP)
                processes.send_signal(terminal.source.pid, signals.SIGCONT)
            terminal.deadline = time.monotonic() + (0 if gone else _GRACE)
            if not gone and not isinstance(terminal.source, Pty):
                self._await_end(terminal)

    def _with_relatives(self, terminals: list[HolderTerminal]) -> list[tuple[HolderTerminal, list[Process]]]:
        if not terminals:
            return []
        shells = [(one.source.pid, one.name, one.source.status() is not None) for one in terminals]
        living = [one for one in self._terminals.values() if one not in terminals]
        others = {one.source.pid for one in living if one.source.status() is None}
        return list(zip(terminals, process_tree.families(shells, others)))  # noqa: B905  as many of one as of the other

    def _end_soon(self, terminal: HolderTerminal) -> None:
        crowd = sum(one.closing for one in self._terminals.values()) > _FEW
        soon = time.monotonic() + (_TOGETHER if crowd else 0.0)
        terminal.deadline = soon if terminal.deadline is None else min(soon, terminal.deadline)

    def _await_end(self, terminal: HolderTerminal) -> None:
        """Poll for the end of a shell that is not our child."""
        try:
            terminal.leave = os.pidfd_open(terminal.source.pid)
        except ProcessLookupError:  # gone already
            self._end_soon(terminal)
            return
        except (OSError, AttributeError):  # a system without it
            return
        self._by_descriptor[terminal.leave] = terminal
        self._poll.register(terminal.leave, _IN)

    def _end(self, terminals: list[HolderTerminal]) -> None:
        for terminal, late in self._with_relatives(terminals):
            processes.kill([*terminal.relatives, *late])
            del self._terminals[terminal.number]
            self._unwatch(terminal)
            if terminal.leave >= 0:
                os.close(terminal.leave)
            terminal.log.close()
            process_tree.remove_tree(terminal.scratch)
            self._send(wire.CLOSED, terminal.number)

    def _quit(self) -> None:
        self._quitting = True
        self._programs.terminate_all()
        for terminal in self._terminals.values():
            self._dismiss(terminal)

    def _dismiss(self, terminal: HolderTerminal) -> None:
        """Close a shell, together with others, before the next wait."""
        if not terminal.closing:
            terminal.closing = True
            self._dismissed.append(terminal)

    # The server.

    def _greet(self, server: sockets.socket) -> None:
        """Serve a new server, after the last frames of the one before."""
        if self._server is not None:
            self._receive()
            self._lose_server()
        server.setblocking(False)
        self._server = server
        self._frames = wire.Frames()
        self._outbox.clear()
        self._abandoned = None
        self._poll.register(server.fileno(), _IN)
        for program in self._programs.describe():
            self._send(wire.HELD, program.number, program_wire.pack_held(program))
        held = [terminal.describe() for terminal in self._terminals.values() if not terminal.closing]
        self._send(wire.WELCOME, 0, wire.pack_welcome(os.getpid(), held))

    def _lose_server(self) -> None:
        if self._server is not None:
            self._unregister(self._server.fileno())
            self._server.close()
            self._server = None
            self._abandoned = time.monotonic()

    def _receive(self) -> None:
        while self._server is not None:
            try:
                data = self._server.recv(_RECEIVE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lose_server()
                return
            for kind, number, payload in self._frames.feed(data):
                self._obey(kind, number, payload)
            if len(data) < _RECEIVE:
                return  # most likely that is all, and if not, `poll` reports it

    def _obey(self, kind: bytes, number: int, payload: bytes) -> None:
        terminal = self._terminals.get(number)
        if kind == wire.OPEN:
            self._open(number, payload)
        elif kind == wire.QUIT:
            self._quit()
        elif terminal is None:
            if not self._programs.obey(kind, number, payload) and kind == wire.CLOSE:
                self._send(wire.CLOSED, number)
        elif kind == wire.CLOSE:
            self._dismiss(terminal)
        elif terminal.closing or terminal.exited:
            return
        elif kind in (wire.INPUT, wire.COMMAND):
            (count,) = wire.OFFSET.unpack_from(payload)
            data = payload[wire.OFFSET.size :]
            if kind == wire.COMMAND:
                token, _, data = data.partition(b"\0")
            if count > terminal.inputs:  # a server that reconnects may repeat inputs
                terminal.inputs = count
                if kind == wire.COMMAND:
                    terminal.expect(token)
                self._type(terminal, data)
        elif kind == wire.RESIZE:
            rows, columns = wire.parse_fields(payload)
            terminal.source.resize(int(rows), int(columns))

    def _send(self, kind: bytes, number: int, payload: bytes = b"") -> None:
        if self._server is not None:
            self._outbox += wire.frame(kind, number, payload)
            self._flush()

    def _flush(self) -> None:
        if self._server is None:
            return
        try:
            while self._outbox:
                del self._outbox[: self._server.send(self._outbox)]
        except BlockingIOError:
            pass
        except OSError:
            return  # it is gone, which reading handles
        self._poll.register(self._server.fileno(), _IN | _OUT if self._outbox else _IN)

    def _send_news(self) -> None:
        """Send the ends of the logs; while the server does not read, only the newest is kept for it."""
        if self._server is None or self._outbox:
            return
        for terminal in self._terminals.values():
            if terminal.dirty and (not terminal.quiet_until or time.monotonic() >= terminal.quiet_until):
                terminal.dirty = False
                terminal.quiet_until = 0.0
                news = wire.offsets(terminal.log.end, *terminal.ends.confirmed)
                self._outbox += wire.frame(wire.NEWS, terminal.number, news)
        for number, grown in self._programs.news():
            self._outbox += wire.frame(wire.GROWN, number, grown)
        if self._outbox:
            self._flush()


def main() -> None:
    """Hold terminals for the server that is connected as standard input.

    Without patience there is no next server: the directory is this holder's own, and removed at its end.
    """
    server = sockets.socket(fileno=os.dup(0))
    orders = _orders(server)
    if not orders:
        return
    directory, secret, patience, keep, kind, program = orders
    _detach(directory)
    # Descendants that lose their parent become children of this process, which finds them then.
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    close = None
    open_source: Callable[[ShellSpec], ShellTerminal] = Pty
    if kind == "tmux":
        from glovebox.box.terminal.holder.tmux import TmuxServer

        tmux = TmuxServer(os.path.join(directory, TMUX_SOCKET), program)
        close = tmux.close

        def open_source(spec: ShellSpec) -> ShellTerminal:
            return Pty(spec) if spec.plain else tmux.open(spec)

    poll = select.poll()
    listener = Listener(directory, secret, poll) if float(patience) else None
    holder = Holder(poll, listener, patience=float(patience), keep=int(keep), open_source=open_source)
    try:
        holder.serve(server)
    finally:
        if close is not None:
            close()
        process_tree.end_children()
    if not float(patience):
        process_tree.remove_tree(directory)


def _orders(server: sockets.socket) -> list[str]:
    """Wait for the first frame of the server; empty if the server is gone."""
    frames = wire.Frames()
    while data := server.recv(_RECEIVE):
        for _, _, payload in frames.feed(data):
            return wire.parse_fields(payload)
    return []


def _detach(directory: str) -> None:
    """Close the inherited standard streams; errors go to a file from now on."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(os.path.join(directory, ERROR_LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)
