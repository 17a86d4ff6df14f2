"""Limits on what a command may use, and the end of one that goes beyond."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import time

import msgspec

from glovebox.box.terminal import processes
from glovebox.box.terminal.inspection import tty
from glovebox.box.terminal.inspection.command import TICKS_PER_SECOND, CommandProcesses, CommandUsage
from glovebox.box.terminal.processes import Process
from glovebox.protocol.terminal import Limits

#: How long processes may take to die.
_PATIENCE = 1.0
_PAUSE = 0.001
#: How long a shell may take to be stopped; somebody else, as tmux does, may continue it at once.
_STOP_LIMIT = 0.05
#: A shell that used so much CPU time after it was interrupted did not listen.
_UNHEARD = TICKS_PER_SECOND // 10
_LARGEST = 2**63 - 1
_FILE_TOO_LARGE = 128 + signal.SIGXFSZ


def problem(limits: Limits) -> str | None:
    """What is wrong with limits, if anything."""
    for name in limits.__struct_fields__:
        value = getattr(limits, name)
        if value is not None and not (math.isfinite(value) and 0 < value <= _LARGEST):
            return f"The limit {name} must be a number greater than 0 and less than 2^63."
    return None


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that a command went beyond."""

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
    """Watches one command in a shell, and ends it when it goes beyond its limits.

    The shell itself is not killed but interrupted, as by Ctrl-C, so that the rest of a list or loop does not
    run; one that ignores or traps this goes on, and what it starts then is ended at the next check.

    Not seen are programs that leave the session and their parent between two checks.
    """

    def __init__(self, shell: int, limits: Limits) -> None:
        self._pid = shell
        self._limits = limits
        self._command: CommandProcesses | None = None
        self._exceeded: Exceeded | None = None
        self._interrupted_at = 0
        #: The soft limits on file sizes: the one before, and ours.
        self._file_sizes: tuple[int, int] | None = None

    def begin(self) -> None:
        """Start watching; call it before the command begins.

        The limit on file sizes is one of the shell, which what it starts inherits. A bash that writes too
        large a file itself ends because of it, unless it has a trap on XFSZ.

        Raises:
            OSError: the limit on file sizes could not be set.
        """
        shell = processes.read(self._pid)
        if shell is None:
            return
        before = {(process.pid, process.started) for process in processes.family(self._pid, ended=False)}
        self._command = CommandProcesses(shell, lambda process: (process.pid, process.started) in before)
        if self._limits.file_size is not None:
            soft, hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
            ours = (
                self._limits.file_size
                if hard == resource.RLIM_INFINITY
                else min(self._limits.file_size, hard)
            )
            resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (ours, hard))
            self._file_sizes = soft, ours

    def check(self) -> Exceeded | None:
        """End the command if it is beyond a limit, and say which one; after that, whatever is left of it."""
        sight = self._command.look() if self._command else None
        if self._command is None or sight is None:
            return self._exceeded
        if self._exceeded is None:
            self._exceeded = self._judge(sight)
            if self._exceeded is not None:
                self._end(self._command, sight)
        elif sight.alive or sight.shell.ticks - self._interrupted_at >= _UNHEARD:
            self._end(self._command, sight)
        return self._exceeded

    def end(self, exit_code: int) -> Exceeded | None:
        """Stop watching; what the command went beyond, if anything.

        That a file was too large is known from the exit code only, so not if a program ignores the signal, as
        Python does: there, writing fails with an ordinary error.
        """
        if self._file_sizes is not None:
            before, ours = self._file_sizes
            self._file_sizes = None
            with contextlib.suppress(OSError):
                soft, hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
                if soft == ours:  # else the command has set its own
                    resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (before, hard))
        size = self._limits.file_size
        if self._exceeded is None and size is not None and exit_code == _FILE_TOO_LARGE:
            self._exceeded = Exceeded("file_size", size, size)
        return self._exceeded

    def _judge(self, sight: CommandUsage) -> Exceeded | None:
        limits, alive = self._limits, sight.alive
        if limits.processes is not None and len(alive) > limits.processes:
            return Exceeded("processes", limits.processes, len(alive))
        seconds = sight.ticks / TICKS_PER_SECOND
        if limits.cpu_seconds is not None and seconds > limits.cpu_seconds:
            return Exceeded("cpu_seconds", limits.cpu_seconds, seconds)
        if limits.memory is not None and sight.resident > limits.memory:
            # Processes that were forked share most of it; counting that right takes longer.
            used = sight.resident - sum(_shared_with_others(process) for process in alive)
            if used > limits.memory:
                return Exceeded("memory", limits.memory, used)
        return None

    def _end(self, command: CommandProcesses, sight: CommandUsage) -> None:
        """Kill everything but the shell, which must not start anything else meanwhile."""
        # A shell at its prompt is left alone: it would take the interrupt for one of the next command.
        interrupt = not _at_prompt(sight.shell)
        if interrupt:
            _signal(self._pid, signal.SIGSTOP)
            _signal(self._pid, signal.SIGINT)
            _await_stop(self._pid)
        try:
            _kill(command)
        finally:
            if interrupt:
                _signal(self._pid, signal.SIGCONT)
        now = processes.read(self._pid)
        self._interrupted_at = now.ticks if now else 0


def _await_stop(pid: int) -> None:
    """Wait until a shell is stopped; else it may still see that its job was, and takes that for the end."""
    until = time.monotonic() + _STOP_LIMIT
    while (now := processes.read(pid)) and now.state != "T" and time.monotonic() < until:
        time.sleep(_PAUSE)


def _kill(command: CommandProcesses) -> None:
    """Kill the processes of a command until none is left, however fast they start others."""
    until = time.monotonic() + _PATIENCE
    stopped: set[tuple[int, int]] = set()
    while (sight := command.look()) and time.monotonic() < until:
        alive = [process for process in sight.alive if _signal(process.pid, 0)]
        if not alive:
            break
        fresh = [process for process in alive if (process.pid, process.started) not in stopped]
        # What is stopped starts nothing; so when a look shows nothing new, these are all.
        _signal_all(fresh or alive, sight.shell, signal.SIGSTOP if fresh else signal.SIGKILL)
        stopped |= {(process.pid, process.started) for process in fresh}
        if not fresh:
            time.sleep(_PAUSE)


def _signal_all(members: list[Process], shell: Process, number: int) -> None:
    """Send a signal to whole groups, which nobody escapes by forking; not to the one of the shell."""
    # 0 is a group that cannot be named here, and means our own to the kernel.
    shared = {0, 1, shell.group, os.getpgrp()}
    for group in {process.group for process in members} - shared:
        _signal(-group, number)
    for process in members:
        if process.group in shared:
            _signal(process.pid, number)


def _signal(pid: int, number: int) -> bool:
    """Send a signal; whether it was taken. One of another user, say `sudo`, takes none from us."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _at_prompt(shell: Process) -> bool:
    modes = tty.modes(shell) if shell.foreground == shell.group and shell.state == "S" else None
    return modes is not None and not modes.canonical and not modes.echo


def _shared_with_others(process: Process) -> int:
    """How much of a process's memory is accounted for by others that have it too, in bytes."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file.read().splitlines()[1:]]
    except OSError:
        return 0
    sizes = {words[0]: int(words[1]) * 1024 for words in lines}
    return sizes.get(b"Rss:", 0) - sizes.get(b"Pss:", 0)


def _size(value: float) -> str:
    """A number of bytes for people."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= unit:
            return f"{value / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{value:.0f} bytes"
