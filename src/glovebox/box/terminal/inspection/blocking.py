"""What a sleeping process waits for, as its system call tells."""

from __future__ import annotations

import contextlib
import enum
import os
import select
import struct

import msgspec

from glovebox.box.terminal.inspection import tty
from glovebox.box.terminal.processes import Process


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
