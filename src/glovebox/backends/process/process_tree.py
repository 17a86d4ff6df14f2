"""The processes of a box, wherever they went, and how they are stopped and ended. Everything blocks."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from glovebox.backends.owners import start_of
from glovebox.backends.process.records import BoxDirectory, BoxRecord, Known

#: The directory of the box, in the environment of everything in it but the holder of its shells.
MARK = "GLOVEBOX_BOX"
#: Looks for processes that were started while others were being stopped.
_ROUNDS = 50
_PAUSE = 0.01
#: How long a box may take to end by itself.
_GRACE = 5.0
_ENDED = ("Z", "X")
_STOPPED = ("T", "t")


class ListedProcess(NamedTuple):
    """A process as the kernel lists it."""

    pid: int
    parent: int
    state: str
    start: str


def is_running(known: Known | None) -> bool:
    """Whether a process is there still, and no other has its number."""
    return known is not None and start_of(known.pid) == known.start


def family(directory: BoxDirectory, record: BoxRecord) -> list[ListedProcess]:
    """Every process of a box, parents before their children.

    Shells are children of their holder, and the holder is a child of the server. When one of them was
    killed, what is left is known by its environment, and the holder by the directory it was given.
    """
    processes = _all()
    roots = [pid for pid in processes if _is_of(pid, directory)]
    if record.main is not None and is_running(record.main):
        roots.append(record.main.pid)
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    members = set(roots)
    waiting = list(members)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in members]
        members.update(new)
        waiting += new
    found = [processes[pid] for pid in members if pid in processes]
    return sorted(found, key=lambda process: _depth(process, processes))


def signal_all(processes: Iterable[Known | ListedProcess], number: int) -> None:
    """Send a signal to processes, unless they have ended."""
    for process in processes:
        if start_of(process.pid) == process.start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def pause(directory: BoxDirectory, record: BoxRecord) -> BoxRecord:
    """Stop everything that runs: parents first, or a shell would take its job for stopped by the user."""
    for _ in range(_ROUNDS):
        running = [one for one in family(directory, record) if one.state not in _STOPPED]
        if not running:
            break
        known = [Known(pid=one.pid, start=one.start) for one in running]
        new = [one for one in known if one not in record.paused]
        record = structs.replace(record, paused=(*record.paused, *new))
        directory.write(record)  # before it is done: who comes after a kill has to know
        signal_all(known, signal.SIGSTOP)
        time.sleep(_PAUSE)
    return record


def go_on(directory: BoxDirectory, record: BoxRecord) -> BoxRecord:
    """Continue what `pause` has stopped, children first, and nothing that was stopped before."""
    signal_all(reversed(record.paused), signal.SIGCONT)
    record = structs.replace(record, paused=())
    directory.write(record)
    return record


def end(directory: BoxDirectory, record: BoxRecord) -> None:
    """End everything of a box: it is asked first."""
    asked = _asked(family(directory, record), record)
    signal_all(asked, signal.SIGTERM)
    signal_all(reversed(record.paused), signal.SIGCONT)
    deadline = time.monotonic() + _GRACE
    _await_end(asked, deadline)
    if not record.spec.isolation:  # a namespace ends with its first process, and nothing is left in it
        left = family(directory, record)
        signal_all(left, signal.SIGTERM)  # a server that was killed leaves the holder of its shells
        _await_end(left, deadline)
    for _ in range(_ROUNDS):
        left = family(directory, record)
        if not left:
            break
        signal_all(left, signal.SIGKILL)
        time.sleep(_PAUSE)
    reap(record.child)


def reap(child: Known | None) -> None:
    """Take leave of a box that was a child of this process and has ended."""
    if child is None:
        return
    status = status_of(child.pid)
    if status is not None and status.start == child.start and status.state in _ENDED:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)


def _asked(members: list[ListedProcess], record: BoxRecord) -> list[ListedProcess]:
    """The server, if it is there and can hear: the first process of a namespace is deaf until it is ready."""
    if record.main is None or (record.spec.isolation and not record.url):
        return []
    return [one for one in members if (one.pid, one.start) == (record.main.pid, record.main.start)]


def _await_end(processes: list[ListedProcess], deadline: float) -> None:
    while time.monotonic() < deadline:
        processes = [one for one in processes if start_of(one.pid) == one.start]
        if not processes:
            return
        time.sleep(_PAUSE)


def _is_of(pid: int, directory: BoxDirectory) -> bool:
    mark = f"{MARK}={directory.path}".encode()
    return mark in _words(pid, "environ") or os.fsencode(directory.shells) in _words(pid, "cmdline")


def _words(pid: int, what: str) -> list[bytes]:
    """A list that the kernel has of a process; empty if it has ended, or does not show it: servers do not."""
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _all() -> dict[int, ListedProcess]:
    """Every process that has not ended."""
    found = (status_of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {one.pid: one for one in found if one is not None and one.state not in _ENDED}


def status_of(pid: int) -> ListedProcess | None:
    """A process, also one that has ended and that nobody has taken leave of."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name comes second, in parentheses, and may have anything in it.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return ListedProcess(pid, int(fields[1]), fields[0], fields[19])


def _depth(process: ListedProcess, processes: dict[int, ListedProcess]) -> int:
    depth = 0
    while (parent := processes.get(process.parent)) is not None:
        process = parent
        depth += 1
    return depth
