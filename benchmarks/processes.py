"""Processes: work in a child, the family of a server, and the end of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

import psutil

#: Every server is started with this variable, so that even a daemon that left its parent is found.
MARK = "GLOVEBOX_BENCH_MARK"

T = TypeVar("T")


def in_child(work: Callable[[], T], error: type[Exception], limit: float) -> T:
    """Do the work in a forked process and return what it returned.

    Raises:
        error: the work raised it, or the process ended or hung without an answer.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_report, args=(work, error, there), daemon=True)
    child.start()
    there.close()
    try:
        if not here.poll(limit):
            raise error(f"no result within {limit:.0f} s")
        succeeded, value = here.recv()
    except EOFError:
        raise error("the process for it ended without a result") from None
    finally:
        here.close()
        _finish(child)
    if not succeeded:
        raise error(value)
    result: T = value
    return result


def _report(work: Callable[[], T], error: type[Exception], out: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        out.send((True, work()))
    except error as problem:
        out.send((False, str(problem)))


def _finish(child: BaseProcess) -> None:
    """A child that has reported ends by itself at once; one that hangs is killed."""
    child.join(0.5)
    if child.is_alive():
        child.kill()
        child.join()


def free_port() -> int:
    """A TCP port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def family(pid: int | None, mark: str) -> set[psutil.Process]:
    """A process, its descendants, and whatever else carries its mark in the environment."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        if process.pid != os.getpid() and (process.pid == pid or _has_mark(process, mark)):
            found.add(process)
    for process in list(found):
        try:
            found.update(process.children(recursive=True))
        except psutil.Error:
            continue
    return living(found)


def living(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Those that still run (a zombie does not)."""
    return {process for process in processes if _lives(process)}


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False  # not ours to look at, or gone


def end(processes: Iterable[psutil.Process], patience: float = 2.0) -> None:
    """End exactly these processes: first politely, then for certain."""
    left = list(processes)
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for process in left:
            try:
                send(process)
            except psutil.Error:
                continue
        _, left = psutil.wait_procs(left, timeout=patience)
        if not left:
            return
