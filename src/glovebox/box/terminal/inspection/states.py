"""The state of a running command (computing, or waiting for a person, and how) and of the shell itself."""

from __future__ import annotations

import enum
import os
import re
from typing import NamedTuple

from glovebox.box.terminal.output.buffer import COLUMNS, ROWS
from glovebox.box.terminal.output.rendering import render
from glovebox.linux import processes, tty
from glovebox.linux.processes import Process
from glovebox.linux.tty import TerminalModes, Waits

#: So much of the output is enough to find a prompt in.
_TAIL = 4096


class State(enum.StrEnum):
    """The state of a command that has not ended."""

    RUNNING = "running"
    WAITING_FOR_INPUT = "waiting_for_input"
    PAGER = "pager"
    EDITOR = "editor"
    STOPPED = "stopped"
    BACKGROUND = "background"


_PAGERS = "less more most man pager pg bat batcat moar ov"
_EDITORS = (
    "vi vim nvim view vimdiff ex nano rnano pico emacs emacsclient ed joe jed mg ne micro hx kak mcedit"
)
_KINDS = {
    **dict.fromkeys(_PAGERS.split(), State.PAGER),
    **dict.fromkeys(_EDITORS.split(), State.EDITOR),
}
#: Names have variants: `vim.basic`, `emacs-nox`, `.nano-wrapped`.
_STEM = re.compile(r"[.-]?([^.-]*)")


class StateSample(NamedTuple):
    """The state of a command at one moment."""

    state: State
    #: The text before the cursor when it waits for input.
    prompt: str = ""
    #: It waits for a line that is not shown: a password. Programs that draw the input themselves, as those
    #: with readline do, also turn the terminal's echo off, and are not meant.
    echo_off: bool = False
    #: The name of the foreground program.
    program: str = ""
    #: The shell itself draws the input: its prompt after a command whose end is not known yet, or `read -e`.
    by_shell: bool = False


def look(shell: int, *, alternate_screen: bool, tail: bytes) -> StateSample | None:
    """The state of the command in a shell; `tail` is the end of its output. `None` if the shell is gone.

    A shell at its own prompt counts as waiting for input, or as `background` if it has running jobs;
    `read -e` looks the same.
    """
    everything = processes.everything()
    leader = next((process for process in everything if process.pid == shell), None)
    if leader is None or leader.ended:
        return None
    group = [process for process in everything if process.group == leader.foreground and not process.ended]
    modes = tty.modes(leader)
    seen = {process: tty.waits(process) for process in group}
    waiting = [process for process in group if _for_input(process, seen[process], modes)]

    if _stopped(seen):
        return StateSample(State.STOPPED, program=_program(group, leader))
    # A pager or editor that neither waits for keys nor has the screen works on a file or a pipe.
    for process in [*waiting, *(group if alternate_screen else [])]:
        if kind := _kind(process):
            return StateSample(kind, program=process.name)
    jobs = any(
        process.parent == shell and process.group != leader.group and process.state not in "ZXT"
        for process in everything
    )
    if jobs and leader in group and _idle(leader, group, seen, waiting, modes):
        return StateSample(State.BACKGROUND, program=leader.name)
    if waiting:
        return StateSample(
            State.WAITING_FOR_INPUT,
            prompt="" if alternate_screen else render(tail[-_TAIL:], rows=ROWS, columns=COLUMNS)[-1],
            echo_off=modes is not None and modes.canonical and not modes.echo,
            program=waiting[0].name,
            by_shell=waiting == [leader] and modes is not None and modes.draws_input,
        )
    return StateSample(State.RUNNING, program=_program(group, leader))


def _for_input(process: Process, seen: Waits, modes: TerminalModes | None) -> bool:
    if seen in (Waits.TERMINAL_TOO, Waits.SOMETHING):
        # With whole lines it may as well be a program that forwards its input, and waits for its peer.
        return modes is not None and not modes.canonical
    if seen is Waits.UNKNOWN:
        # Another user's program, say `sudo`. It changed the terminal to ask for something.
        return process.state == "S" and modes is not None and not (modes.canonical and modes.echo)
    return seen is Waits.TERMINAL


def _stopped(seen: dict[Process, Waits]) -> bool:
    """Whether the command makes no progress until a process gets SIGCONT."""
    stopped = [process.state == "T" for process in seen]
    return any(stopped) and all(process.state == "T" or seen[process] is Waits.CHILDREN for process in seen)


def _idle(
    leader: Process,
    group: list[Process],
    seen: dict[Process, Waits],
    waiting: list[Process],
    modes: TerminalModes | None,
) -> bool:
    """Whether the shell itself is at its prompt, where it draws the input, or in `wait`."""
    if waiting:
        return waiting == [leader] and modes is not None and modes.draws_input
    return group == [leader] and seen[leader] is Waits.CHILDREN


def _program(group: list[Process], shell: Process) -> str:
    """The name of the first process of a pipeline; in the shell's own group, of a substitution."""
    others = [process for process in group if process != shell]
    first = next((process for process in others if process.pid == process.group), None)
    return (first or (others or [shell])[0]).name


def _kind(process: Process) -> State | None:
    """Pager or editor, by the name of the program or of its command."""
    command = processes.read_file(f"/proc/{process.pid}/cmdline", _TAIL).partition(b"\0")[0]
    for name in (process.name, os.fsdecode(os.path.basename(command))):
        stem = _STEM.match(name)
        if stem and stem[1] in _KINDS:
            return _KINDS[stem[1]]
    return None


class ShellSample(NamedTuple):
    """The state of a shell at one moment."""

    #: The name of its process, which no other process can change.
    name: str
    #: Addresses of its program in memory, which change when `exec` replaces the program.
    image: tuple[bytes, ...]
    stopped: bool
    #: It is in the foreground of its terminal, alone.
    foreground: bool
    #: It is in the foreground, and sleeps.
    waiting: bool
    #: It is a bash without a script or command to run, so when it waits, it is most likely at its prompt.
    interactive: bool
    #: Its line editor reads keys.
    editing: bool


#: Options with which a bash still has nothing to run.
_HARMLESS = {b"-i", b"-l", b"--login", b"--norc", b"--noprofile", b"--noediting", b"--posix", b"-O"}


def look_at_shell(pid: int) -> ShellSample | None:
    """The state of a shell; `None` if it is unknown. Blocks."""
    try:
        stat = processes.read_stat(pid)
    except OSError:
        return None
    shell = Process(pid, stat)
    if shell.foreground == 0:  # gVisor does not say which group is in the foreground
        return None
    options = {argument for argument in processes.arguments(pid)[1:] if argument}
    modes = tty.modes(shell)
    foreground = shell.group == shell.foreground == pid
    return ShellSample(
        name=shell.name,
        image=tuple(processes.stat_fields(stat)[23:26]),
        stopped=shell.state == "T",
        foreground=foreground,
        waiting=shell.state == "S" and foreground,
        interactive=_executable(pid) == "bash" and options <= _HARMLESS,
        editing=modes is not None and modes.line_editor,
    )


def _executable(pid: int) -> str:
    """The file name of the program that a process runs, independent of its command line."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).partition(" ")[0]
    except OSError:
        return ""
