"""What a running command is doing: computing, or waiting for a person, and in which way."""

from __future__ import annotations

import contextlib
import enum
import os
import re
import select
import struct

import msgspec

from glovebox.box.terminal import processes
from glovebox.box.terminal.inspection import tty
from glovebox.box.terminal.output.buffer import COLUMNS, ROWS
from glovebox.box.terminal.output.rendering import render
from glovebox.box.terminal.processes import Process

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


class StateSample(msgspec.Struct, frozen=True):
    """What was seen in one moment."""

    state: State
    #: What stands before the cursor when it waits for input.
    prompt: str = ""
    #: It waits for a line that is not shown: a password. Programs that draw what is typed themselves,
    #: as those with readline do, also turn the terminal's echo off, and are not meant.
    echo_off: bool = False
    #: The name of the foreground program.
    program: str = ""


def look(shell: int, *, alternate_screen: bool, tail: bytes) -> StateSample | None:
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
        return StateSample(State.STOPPED, program=_program(group, leader))
    # A pager or editor that neither waits for keys nor has the screen works on a file or a pipe.
    for process in [*waiting, *(group if alternate_screen else [])]:
        if kind := _kind(process):
            return StateSample(kind, program=process.name)
    jobs = any(
        process.parent == shell and process.group != leader.group and process.state not in _ENDED + "T"
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
        )
    return StateSample(State.RUNNING, program=_program(group, leader))


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


class Waits(enum.Enum):
    """What a process waits for, the most telling of its threads first."""

    #: It reads the terminal, or watches nothing but the terminal.
    TERMINAL = enum.auto()
    #: It watches the terminal among other things.
    TERMINAL_TOO = enum.auto()
    #: It watches something, and whether that is the terminal cannot be known.
    SOMETHING = enum.auto()
    CHILDREN = enum.auto()
    UNKNOWN = enum.auto()
    ELSEWHERE = enum.auto()


class _Calls(msgspec.Struct, frozen=True):
    """The numbers of system calls on one kind of machine."""

    read: frozenset[int]
    poll: frozenset[int]
    select: frozenset[int]
    epoll: frozenset[int]
    wait: frozenset[int]
    #: What goes on with a call after the process was stopped, without saying which.
    restart: int


_CALLS = {
    "x86_64": _Calls(
        read=frozenset({0, 17, 19, 295, 327}),
        poll=frozenset({7, 271}),
        select=frozenset({23, 270}),
        epoll=frozenset({232, 281, 441}),
        wait=frozenset({61, 247}),
        restart=219,
    ),
    "aarch64": _Calls(
        read=frozenset({63, 65, 67, 69, 286}),
        poll=frozenset({73}),
        select=frozenset({72}),
        epoll=frozenset({22, 441}),
        wait=frozenset({95, 260}),
        restart=128,
    ),
}
_MACHINE = os.uname().machine
#: Where in the kernel a process sleeps, by the beginning of the name, if the system call is a secret.
_PLACES = {
    "n_tty_read": Waits.TERMINAL,
    "wait_woken": Waits.TERMINAL,
    "poll_schedule_timeout": Waits.SOMETHING,
    "do_poll": Waits.SOMETHING,
    "do_select": Waits.SOMETHING,
    "ep_poll": Waits.SOMETHING,
    "do_epoll_wait": Waits.SOMETHING,
    "do_wait": Waits.CHILDREN,
    "0": Waits.UNKNOWN,
}
#: More threads, or watched descriptors, are not looked at.
_MOST_THREADS = 64
_MOST_DESCRIPTORS = 4096
_POLL_ENTRY = struct.Struct("ihh")


def waits(process: Process) -> Waits:
    """What a process waits for; `ELSEWHERE` includes that it does not wait."""
    if process.state in "Tt" or (process.state != "S" and process.threads == 1):
        return Waits.ELSEWHERE
    tasks = [str(process.pid)]
    if process.threads > 1:
        with contextlib.suppress(OSError):
            tasks = os.listdir(f"/proc/{process.pid}/task")[:_MOST_THREADS]
    return min((_task_waits(process, task) for task in tasks), key=lambda found: found.value)


def _task_waits(process: Process, task: str) -> Waits:
    text = _text(f"/proc/{process.pid}/task/{task}/syscall")
    calls = _CALLS.get(_MACHINE)
    words = text.split() if text is not None and calls is not None else []
    if not words or calls is None:
        return _place(process, task)
    if words[0] in ("running", "-1"):
        return Waits.ELSEWHERE
    number, *arguments = int(words[0]), *(int(word, 16) for word in words[1:])
    if number == calls.restart:
        return _place(process, task)
    if number in calls.read:
        return Waits.TERMINAL if tty.has_open(process, arguments[0]) else Waits.ELSEWHERE
    if number in calls.wait:
        return Waits.CHILDREN
    if number in calls.poll:
        return _watching(process, _polled(process.pid, arguments[0], arguments[1]))
    if number in calls.select:
        return _watching(process, _selected(process.pid, arguments[0], arguments[1]))
    if number in calls.epoll:
        return _watching(process, _epolled(process.pid, arguments[0]))
    return Waits.ELSEWHERE


def _place(process: Process, task: str) -> Waits:
    """The same from the name of the kernel function it sleeps in, which says less."""
    name = _text(f"/proc/{process.pid}/task/{task}/wchan")
    if not name:
        return Waits.UNKNOWN
    found = next((kind for place, kind in _PLACES.items() if name.startswith(place)), Waits.ELSEWHERE)
    # A socket is waited for in the same function; whoever reads a terminal nearly always has it as input.
    if found is Waits.TERMINAL and tty.has_open(process, 0) is False:
        return Waits.ELSEWHERE
    return found


def _watching(process: Process, descriptors: set[int] | None) -> Waits:
    if descriptors is None:
        return Waits.SOMETHING
    terminals = {number for number in descriptors if tty.has_open(process, number)}
    if not terminals:
        return Waits.ELSEWHERE
    return Waits.TERMINAL if terminals == descriptors else Waits.TERMINAL_TOO


def _polled(pid: int, address: int, count: int) -> set[int] | None:
    data = _memory(pid, address, min(count, _MOST_DESCRIPTORS) * _POLL_ENTRY.size)
    if data is None:
        return None
    entries = _POLL_ENTRY.iter_unpack(data)
    return {number for number, events, _ in entries if number >= 0 and events & select.POLLIN}


def _selected(pid: int, count: int, address: int) -> set[int] | None:
    count = min(count, _MOST_DESCRIPTORS)
    # Whole words, as the process has them; on a little-endian machine bytes are in the order of their bits.
    data = _memory(pid, address, (count + 63) // 64 * 8) if address else b""
    if data is None:
        return None
    return {number for number in range(min(count, len(data) * 8)) if data[number // 8] >> number % 8 & 1}


def _epolled(pid: int, descriptor: int) -> set[int] | None:
    text = _text(f"/proc/{pid}/fdinfo/{descriptor}")
    if text is None:
        return None
    entries = [line.split() for line in text.splitlines() if line.startswith("tfd:")]
    return {int(entry[1]) for entry in entries if int(entry[3], 16) & select.EPOLLIN}


def _memory(pid: int, address: int, size: int) -> bytes | None:
    """Some of a process's memory; only for those who may trace it."""
    try:
        descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.pread(descriptor, size, address)
    except (OSError, OverflowError):
        return None
    finally:
        os.close(descriptor)
    return data if len(data) == size else None


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return None
