"""The processes of a box: finding, pausing and ending all of them. Everything blocks."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

from msgspec import structs

from glovebox.backends.owners import start_of
from glovebox.backends.process.records import BoxDirectory, BoxRecord, Known
from glovebox.linux import processes
from glovebox.linux.processes import Process, ProcessTable

#: The variable with the directory of the box, in the environment of all its processes but the holder.
MARK = "GLOVEBOX_BOX"
#: How often to search for processes that were started while others were being stopped.
_ROUNDS = 50
_PAUSE = 0.01
#: How long a box may take to end by itself.
_GRACE = 5.0
_STOPPED = ("T", "t")


def is_running(known: Known | None) -> bool:
    """Whether a process is there still, and no other has its number."""
    return known is not None and start_of(known.pid) == known.start


def family(directory: BoxDirectory, record: BoxRecord) -> list[Process]:
    """Every process of a box, parents before their children.

    Shells are children of their holder, and the holder is a child of the server. When one of them was
    killed, the rest is found by the environment, and the holder by the directory on its command line.
    """
    table = ProcessTable()
    roots = [process.pid for process in table if not process.ended and _is_of(process.pid, directory)]
    if record.main is not None and is_running(record.main):
        roots.append(record.main.pid)
    found = [process for process in table.tree(roots) if not process.ended]
    return sorted(found, key=lambda process: _depth(process, table))


def signal_all(known: Iterable[Known], number: int) -> None:
    """Send a signal to processes, unless they have ended."""
    for process in known:
        if is_running(process):
            processes.send_signal(process.pid, number)


def _identify(members: list[Process]) -> list[Known]:
    return [Known(pid=one.pid, start=str(one.started)) for one in members]


def pause(directory: BoxDirectory, record: BoxRecord) -> BoxRecord:
    """Stop everything that runs: parents first, or a shell would take its job for stopped by the user."""
    for _ in range(_ROUNDS):
        running = [one for one in family(directory, record) if one.state not in _STOPPED]
        if not running:
            break
        known = _identify(running)
        new = [one for one in known if one not in record.paused]
        record = structs.replace(record, paused=(*record.paused, *new))
        directory.write(record)  # first: the client may be killed, and the next one has to know
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
    """End all processes of a box, at first with SIGTERM."""
    # The first process of a namespace ignores signals until the server handles them.
    deaf = record.is_isolated and not record.url
    server = [] if record.main is None or deaf else [record.main]
    signal_all(server, signal.SIGTERM)
    signal_all(reversed(record.paused), signal.SIGCONT)
    deadline = time.monotonic() + _GRACE
    _await_end(server, deadline)
    if not record.is_isolated:  # a namespace ends with its first process, and nothing is left in it
        left = _identify(family(directory, record))
        signal_all(left, signal.SIGTERM)  # a server that was killed leaves the holder of its shells
        _await_end(left, deadline)
    for _ in range(_ROUNDS):
        left = _identify(family(directory, record))
        if not left:
            break
        signal_all(left, signal.SIGKILL)
        time.sleep(_PAUSE)
    reap(record.child)


def reap(child: Known | None) -> None:
    """Wait for a box that was a child of this process, if it has ended."""
    if child is None:
        return
    process = processes.read(child.pid)
    if process is not None and str(process.started) == child.start and process.ended:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)


def _await_end(known: list[Known], deadline: float) -> None:
    while time.monotonic() < deadline and any(map(is_running, known)):
        time.sleep(_PAUSE)


def _is_of(pid: int, directory: BoxDirectory) -> bool:
    mark = f"{MARK}={directory.path}".encode()
    return mark in processes.environment(pid) or os.fsencode(directory.shells) in processes.arguments(pid)


def _depth(process: Process, table: ProcessTable) -> int:
    depth = 0
    while (parent := table.get(process.parent)) is not None:
        process = parent
        depth += 1
    return depth
