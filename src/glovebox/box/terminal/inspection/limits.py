"""Limits on what a command may use, and the end of one that goes beyond."""

from __future__ import annotations

import math
import os
import signal
import time

import msgspec

from glovebox.box.terminal.inspection.usage import CommandProcesses, CommandUsage
from glovebox.linux import processes, tty
from glovebox.linux.limits import FileSizeLimit
from glovebox.linux.processes import (
    TICKS_PER_SECOND,
    Process,
    ProcessTable,
    read_file,
    send_signal,
    size_field,
)
from glovebox.protocol.terminal import Limits

#: How long processes may take to die.
_PATIENCE = 1.0
_PAUSE = 0.001
#: How long a shell may take to be stopped; another program, as tmux does, may continue it at once.
_STOP_LIMIT = 0.05
#: A shell that used so much CPU time after it was interrupted has ignored the interrupt.
_IGNORED = TICKS_PER_SECOND // 10
_LARGEST = 2**63 - 1
_FILE_TOO_LARGE = 128 + signal.SIGXFSZ


def problem(limits: Limits) -> str | None:
    """Why limits are invalid, if they are."""
    for name in limits.__struct_fields__:
        value = getattr(limits, name)
        if value is not None and not (math.isfinite(value) and 0 < value <= _LARGEST):
            return f"The limit {name} must be a number greater than 0 and less than 2^63."
    return None


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that a command has exceeded."""

    name: str
    limit: float
    seen: float

    @property
    def text(self) -> str:
        if self.name == "file_size":
            return (
                f"The command was ended because it wrote a file larger than its limit of {_size(self.limit)}."
            )
        if self.name == "memory":
            used, limit = f"used {_size(self.seen)} of memory", _size(self.limit)
        elif self.name == "cpu_seconds":
            used, limit = f"used {self.seen:.2f} s of CPU time", f"{self.limit:g} s"
        else:
            used, limit = f"had {self.seen:.0f} processes", f"{self.limit:.0f}"
        return f"The command was ended because it {used}; its limit is {limit}."


class Warden:
    """Watches one command in a shell, and ends it when it exceeds a limit.

    The shell itself is not killed but interrupted, as by Ctrl-C, so that the rest of a list or loop does not
    run; one that ignores or traps this goes on, and what it starts then is ended at the next check.

    Programs that leave the session and their parent between two checks escape.
    """

    def __init__(self, shell: int, limits: Limits) -> None:
        self._pid = shell
        self._limits = limits
        self._command: CommandProcesses | None = None
        self._exceeded: Exceeded | None = None
        self._interrupted_at = 0
        self._file_size: FileSizeLimit | None = None

    def begin(self) -> None:
        """Start watching; call it before the command begins.

        The limit on file sizes is set for the shell, and its children inherit it. A bash that writes too
        large a file itself is killed, unless it has a trap on XFSZ.

        Raises:
            OSError: the limit on file sizes could not be set.
        """
        shell = processes.read(self._pid)
        if shell is None:
            return
        before = {process.key for process in ProcessTable().family(self._pid, ended=False)}
        self._command = CommandProcesses(shell, lambda process: process.key in before)
        if self._limits.file_size is not None:
            self._file_size = FileSizeLimit(self._pid, self._limits.file_size)

    def check(self) -> Exceeded | None:
        """End the command if it exceeds a limit, and return that; later calls end what is left of it."""
        sight = self._command.look() if self._command else None
        if self._command is None or sight is None:
            return self._exceeded
        if self._exceeded is None:
            self._exceeded = _judge(self._limits, sight, len(sight.alive))
            if self._exceeded is not None:
                self._end(self._command, sight)
        elif sight.alive or sight.shell.ticks - self._interrupted_at >= _IGNORED:
            self._end(self._command, sight)
        return self._exceeded

    def end(self, exit_code: int) -> Exceeded | None:
        """Stop watching; returns the limit that the command exceeded, if any.

        That a file was too large is known from the exit code only, so not if a program ignores the signal, as
        Python does: there, writing fails with an ordinary error.
        """
        if self._file_size is not None:
            self._file_size.restore()
            self._file_size = None
        size = self._limits.file_size
        if self._exceeded is None and size is not None and exit_code == _FILE_TOO_LARGE:
            self._exceeded = Exceeded("file_size", size, size)
        return self._exceeded

    def _end(self, command: CommandProcesses, sight: CommandUsage) -> None:
        """Kill everything but the shell, which must not start other processes meanwhile."""
        # A shell at its prompt is left alone: it would take the interrupt for one of the next command.
        interrupt = not _at_prompt(sight.shell)
        if interrupt:
            send_signal(self._pid, signal.SIGSTOP)
            send_signal(self._pid, signal.SIGINT)
            _await_stop(self._pid)
        try:
            _kill(command)
        finally:
            if interrupt:
                send_signal(self._pid, signal.SIGCONT)
        now = processes.read(self._pid)
        self._interrupted_at = now.ticks if now else 0


class ProgramWarden:
    """Watches a program and everything it starts."""

    def __init__(self, pid: int, limits: Limits) -> None:
        self._limits = limits
        leader = processes.read(pid)
        if leader is not None:  # all that it used counts
            leader.resident = leader.ticks = leader.waited_ticks = 0
        self._processes = CommandProcesses(leader, lambda process: False) if leader else None

    def check(self) -> Exceeded | None:
        """The limit that it exceeds, if any. Blocks."""
        sight = self._processes.look() if self._processes else None
        return _judge(self._limits, sight, len(sight.alive) + 1) if sight else None


def _judge(limits: Limits, sight: CommandUsage, count: int) -> Exceeded | None:
    """The limit that is exceeded by `count` processes that use so much."""
    if limits.processes is not None and count > limits.processes:
        return Exceeded("processes", limits.processes, count)
    seconds = sight.ticks / TICKS_PER_SECOND
    if limits.cpu_seconds is not None and seconds > limits.cpu_seconds:
        return Exceeded("cpu_seconds", limits.cpu_seconds, seconds)
    if limits.memory is not None and sight.resident > limits.memory:
        # Forked processes share most of it; reading how much takes longer.
        used = sight.resident - sum(_shared_with_others(process) for process in sight.alive)
        if used > limits.memory:
            return Exceeded("memory", limits.memory, used)
    return None


def _await_stop(pid: int) -> None:
    """Wait until a shell is stopped; else it may notice that its job was stopped, and go on."""
    until = time.monotonic() + _STOP_LIMIT
    while (now := processes.read(pid)) and now.state != "T" and time.monotonic() < until:
        time.sleep(_PAUSE)


def _kill(command: CommandProcesses) -> None:
    """Kill the processes of a command until none is left, however fast they start others."""
    until = time.monotonic() + _PATIENCE
    stopped: set[tuple[int, int]] = set()
    while (sight := command.look()) and time.monotonic() < until:
        # Processes of other users, say `sudo`, cannot be signalled.
        alive = [process for process in sight.alive if send_signal(process.pid, 0)]
        if not alive:
            break
        fresh = [process for process in alive if process.key not in stopped]
        # Stopped processes start no others; so when there are no new ones, these are all.
        _signal_all(fresh or alive, sight.shell, signal.SIGSTOP if fresh else signal.SIGKILL)
        stopped |= {process.key for process in fresh}
        if not fresh:
            time.sleep(_PAUSE)


def _signal_all(members: list[Process], shell: Process, number: int) -> None:
    """Send a signal to whole groups, which no process escapes by forking; not to the one of the shell."""
    # 0 stands for a group of another namespace, and means our own to the kernel.
    shared = {0, 1, shell.group, os.getpgrp()}
    for group in {process.group for process in members} - shared:
        send_signal(-group, number)
    for process in members:
        if process.group in shared:
            send_signal(process.pid, number)


def _at_prompt(shell: Process) -> bool:
    modes = tty.modes(shell) if shell.foreground == shell.group and shell.state == "S" else None
    return modes is not None and modes.draws_input


def _shared_with_others(process: Process) -> int:
    """How much of a process's memory is accounted to other processes that share it, in bytes."""
    data = read_file(f"/proc/{process.pid}/smaps_rollup")
    return size_field(data, b"Rss") - size_field(data, b"Pss")


def _size(value: float) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= unit:
            return f"{value / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{value:.0f} bytes"
