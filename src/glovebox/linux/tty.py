"""The terminal of another process: its modes, and whether processes wait for input from it."""

from __future__ import annotations

import contextlib
import enum
import os
import select
import struct
import termios
from typing import NamedTuple

from glovebox.linux.processes import Process, read_file

#: The device /dev/tty.
_OWN_TERMINAL = os.makedev(5, 0)
_PTS_MAJOR = 136
#: Where a shell has its terminal; the last is bash's own copy, which redirections leave alone.
_SHELL_DESCRIPTORS = (0, 255)


class TerminalModes(NamedTuple):
    """How a terminal treats input."""

    #: Whether a program gets whole lines, edited by the terminal.
    canonical: bool
    echo: bool
    #: Whether the Enter key gives a line feed (ICRNL).
    enter_is_line_feed: bool = True

    @property
    def draws_input(self) -> bool:
        """Whether the program reads single keys and shows the input itself."""
        return not (self.canonical or self.echo)

    @property
    def line_editor(self) -> bool:
        """Whether a line editor reads keys, as at the prompt of a shell.

        Line editors want the Enter key unchanged, which most other programs that read single keys do not.
        """
        return self.draws_input and not self.enter_is_line_feed


def modes(shell: Process) -> TerminalModes | None:
    """The modes of a shell's terminal; `None` if it has none or it cannot be opened."""
    device = _device(shell.terminal)
    paths = [f"/proc/{shell.pid}/fd/{number}" for number in _SHELL_DESCRIPTORS]
    if os.major(device) == _PTS_MAJOR:
        paths.insert(0, f"/dev/pts/{os.minor(device)}")
    for path in paths:
        try:
            if os.stat(path).st_rdev != device:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            attributes = termios.tcgetattr(descriptor)
        except termios.error:  # it hung up just now
            return None
        finally:
            os.close(descriptor)
        local, inbound = attributes[3], attributes[0]
        return TerminalModes(
            canonical=bool(local & termios.ICANON),
            echo=bool(local & termios.ECHO),
            enter_is_line_feed=bool(inbound & termios.ICRNL),
        )
    return None


def has_open(process: Process, descriptor: int) -> bool | None:
    """Whether a descriptor of a process is its terminal; `None` without the permission to know."""
    try:
        device = os.stat(f"/proc/{process.pid}/fd/{descriptor}").st_rdev
    except PermissionError:
        return None
    except OSError:
        return False
    return process.terminal != 0 and device in (_device(process.terminal), _OWN_TERMINAL)


def _device(number: int) -> int:
    """The device number for the terminal field of /proc/PID/stat."""
    return os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))


class Waits(enum.Enum):
    """What a thread waits for. Of the threads of a process, the first in this order counts."""

    #: It reads the terminal, or polls nothing but the terminal.
    TERMINAL = enum.auto()
    #: It polls the terminal among other descriptors.
    TERMINAL_TOO = enum.auto()
    #: It polls descriptors, and whether the terminal is among them is unknown.
    SOMETHING = enum.auto()
    CHILDREN = enum.auto()
    UNKNOWN = enum.auto()
    ELSEWHERE = enum.auto()


class _Calls(NamedTuple):
    """The numbers of system calls of an architecture."""

    read: frozenset[int]
    poll: frozenset[int]
    select: frozenset[int]
    epoll: frozenset[int]
    wait: frozenset[int]
    #: Continues another call after the process was stopped.
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
#: Prefixes of the kernel functions a thread sleeps in, for when its system call is not readable.
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
#: Further threads and polled descriptors are ignored.
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
    calls = _CALLS.get(_MACHINE)
    words = read_file(f"/proc/{process.pid}/task/{task}/syscall").split()
    if not words or calls is None:
        return _place(process, task)
    if words[0] in (b"running", b"-1"):
        return Waits.ELSEWHERE
    number, *arguments = int(words[0]), *(int(word, 16) for word in words[1:])
    if number == calls.restart:
        return _place(process, task)
    if number in calls.read:
        return Waits.TERMINAL if has_open(process, arguments[0]) else Waits.ELSEWHERE
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
    """What a thread waits for, less exactly, from the kernel function it sleeps in."""
    name = read_file(f"/proc/{process.pid}/task/{task}/wchan").decode("ascii", "replace")
    if not name:
        return Waits.UNKNOWN
    found = next((kind for place, kind in _PLACES.items() if name.startswith(place)), Waits.ELSEWHERE)
    # Readers of sockets sleep in the same function; those of a terminal nearly always have it as stdin.
    if found is Waits.TERMINAL and has_open(process, 0) is False:
        return Waits.ELSEWHERE
    return found


def _watching(process: Process, descriptors: set[int] | None) -> Waits:
    if descriptors is None:
        return Waits.SOMETHING
    terminals = {number for number in descriptors if has_open(process, number)}
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
    info = read_file(f"/proc/{pid}/fdinfo/{descriptor}")
    if not info:
        return None
    entries = [line.split() for line in info.splitlines() if line.startswith(b"tfd:")]
    return {int(entry[1]) for entry in entries if int(entry[3], 16) & select.EPOLLIN}


def _memory(pid: int, address: int, size: int) -> bytes | None:
    """Some of a process's memory; `None` without the permission to trace it."""
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
