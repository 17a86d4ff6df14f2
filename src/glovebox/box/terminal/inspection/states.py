"""What a running command is doing: computing, or waiting for a person, and in which way."""

from __future__ import annotations

import enum
import os
import re

import msgspec

from glovebox.box.terminal import processes
from glovebox.box.terminal.inspection import tty
from glovebox.box.terminal.inspection.blocking import Waits, waits
from glovebox.box.terminal.processes import Process
from glovebox.box.terminal.rendering import render
from glovebox.box.terminal.retention import COLUMNS, ROWS

#: So much of the output is enough to find a prompt in.
_TAIL = 4096
_ENDED = "ZX"


class State(enum.StrEnum):
    """What a command does that has not ended."""

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


class Look(msgspec.Struct, frozen=True):
    """What was seen in one moment."""

    state: State
    #: What stands before the cursor when it waits for input.
    prompt: str = ""
    #: It waits for a line that is not shown: a password. Programs that draw what is typed themselves,
    #: as those with readline do, also turn the terminal's echo off, and are not meant.
    echo_off: bool = False
    #: The name of the foreground program.
    program: str = ""


def look(shell: int, *, alternate_screen: bool, tail: bytes) -> Look | None:
    """See what the command in a shell does; `tail` is the end of its output. `None` if the shell is gone.

    A shell at its own prompt counts as waiting for input, or as `background` if jobs of it run; that
    looks the same as `read -e`.
    """
    everything = processes.everything()
    leader = next((process for process in everything if process.pid == shell), None)
    if leader is None or leader.state in _ENDED:
        return None
    group = [
        process
        for process in everything
        if process.group == leader.foreground and process.state not in _ENDED
    ]
    modes = tty.modes(leader)
    seen = {process: waits(process) for process in group}
    waiting = [process for process in group if _for_input(process, seen[process], modes)]

    if _stopped(seen):
        return Look(State.STOPPED, program=_program(group, leader))
    # A pager or editor that neither waits for keys nor has the screen works on a file or a pipe.
    for process in [*waiting, *(group if alternate_screen else [])]:
        if kind := _kind(process):
            return Look(kind, program=process.name)
    jobs = any(
        process.parent == shell and process.group != leader.group and process.state not in _ENDED + "T"
        for process in everything
    )
    if jobs and leader in group and _idle(leader, group, seen, waiting, modes):
        return Look(State.BACKGROUND, program=leader.name)
    if waiting:
        return Look(
            State.WAITING_FOR_INPUT,
            prompt="" if alternate_screen else render(tail[-_TAIL:], rows=ROWS, columns=COLUMNS)[-1],
            echo_off=modes is not None and modes.canonical and not modes.echo,
            program=waiting[0].name,
        )
    return Look(State.RUNNING, program=_program(group, leader))


def _for_input(process: Process, seen: Waits, modes: tty.Modes | None) -> bool:
    if seen in (Waits.TERMINAL_TOO, Waits.SOMETHING):
        # With whole lines it may as well be a program that passes on what is typed, and waits for its peer.
        return modes is not None and not modes.canonical
    if seen is Waits.UNKNOWN:
        # Another user's program, say `sudo`. It changed the terminal to ask for something.
        return process.state == "S" and modes is not None and not (modes.canonical and modes.echo)
    return seen is Waits.TERMINAL


def _stopped(seen: dict[Process, Waits]) -> bool:
    """Whether nothing goes on before somebody continues a process."""
    stopped = [process.state == "T" for process in seen]
    return any(stopped) and all(process.state == "T" or seen[process] is Waits.CHILDREN for process in seen)


def _idle(
    leader: Process,
    group: list[Process],
    seen: dict[Process, Waits],
    waiting: list[Process],
    modes: tty.Modes | None,
) -> bool:
    """Whether the shell itself is at its prompt, where it draws what is typed, or in `wait`."""
    if waiting:
        return waiting == [leader] and modes is not None and not modes.canonical and not modes.echo
    return group == [leader] and seen[leader] is Waits.CHILDREN


def _program(group: list[Process], shell: Process) -> str:
    """The first of a pipeline; in the shell's own group, what a substitution runs."""
    others = [process for process in group if process != shell]
    first = next((process for process in others if process.pid == process.group), None)
    return (first or (others or [shell])[0]).name


def _kind(process: Process) -> State | None:
    """What kind of program it is, by its name or the name it was called by."""
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            called = os.fsdecode(os.path.basename(file.read(_TAIL).partition(b"\0")[0]))
    except OSError:
        called = ""
    for name in (process.name, called):
        stem = _STEM.match(name)
        if stem and stem[1] in _KINDS:
            return _KINDS[stem[1]]
    return None
