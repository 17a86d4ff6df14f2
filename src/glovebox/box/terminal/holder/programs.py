"""All programs of the holder that have no shell."""

from __future__ import annotations

import os
import select
import time

from glovebox.box.terminal.holder import control_mode, process_tree, program_wire, wire
from glovebox.box.terminal.holder.lean import signals
from glovebox.box.terminal.holder.program import HolderProgram, OutputPipe
from glovebox.box.terminal.holder.terminal import set_size
from glovebox.linux import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from resource import struct_rusage

_READ_SIZE = 262_144
#: How long a program may take to end after SIGTERM.
_GRACE = 2.0


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
        order, stdin = program_wire.parse_start(payload)
        if not self._buffer:
            self._buffer = memoryview(bytearray(_READ_SIZE))
            control_mode.raise_limit()
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
        if program.reason or program.contained:
            # All at once, so that those that start others all the time do not get away.
            processes.send_signal(-pid, signals.SIGKILL)
            self._kill([program])
        packed = wire.fields(*program_wire.pack_end(program.end))
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

    def describe(self) -> list[program_wire.HeldProgram]:
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
