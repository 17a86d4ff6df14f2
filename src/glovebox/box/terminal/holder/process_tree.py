"""The processes of a shell, wherever they went, and how they are ended."""

from __future__ import annotations

import os

from glovebox.box.terminal import processes
from glovebox.box.terminal.processes import Process

#: Which shell a process belongs to, in its environment: what leaves the session and its parents still has it.
MARK = "GLOVEBOX_SESSION"
_PR_SET_CHILD_SUBREAPER = 36
#: Looks for processes that forked while others were being killed.
_ROUNDS = 20


def adopt_orphans() -> None:
    """Become the parent of whatever loses its own, so that nothing gets out of sight. Linux only."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # a system without it keeps its orphans
        pass


def reap() -> list[tuple[int, int]]:
    """The children that ended, and their statuses."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended.append((pid, status))


def signal(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def families(shells: list[tuple[int, str, bool]]) -> list[list[Process]]:
    """The processes of shells: in each one's session, its descendants, and those that carry its mark.

    A shell is its process id, its name, and whether it has ended.
    """
    table = processes.Table()
    found = [table.family(shell, ended=ended) for shell, _, ended in shells]
    known = {process.pid for family in found for process in family}
    orphans: dict[str | None, list[int]] = {}
    for pid in _children():
        if pid not in known:
            orphans.setdefault(_mark(pid), []).append(pid)
    for family, (_, name, _) in zip(found, shells):  # noqa: B905  as many of one as of the other
        for pid in orphans.get(name, ()):
            family += table.family(pid, ended=False)
    return found


def end(relatives: list[Process]) -> None:
    """Kill what still runs."""
    processes.end(relatives)


def end_children() -> None:
    """Kill every descendant that is left."""
    for _ in range(_ROUNDS):
        children = _children()
        if not children:
            return
        table = processes.Table()
        for pid in children:
            processes.end(table.family(pid, ended=False))
        for pid in children:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def remove_file(path: str) -> None:
    """Remove a file that may be gone."""
    try:
        os.unlink(path)
    except OSError:
        pass


def remove_tree(path: str) -> None:
    """Remove a directory and everything below it.

    It may be the sandbox user's, who may be changing it just then, so links are never followed.
    """
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name in os.listdir(directory):
                os.unlink(name, dir_fd=directory)
        finally:
            os.close(directory)
        os.rmdir(path)
    except OSError:  # it holds directories, or the server was faster
        import shutil  # takes memory, which most holders can save

        shutil.rmtree(path, ignore_errors=True)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without that file
        return []


def _mark(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return None
    prefix = MARK.encode() + b"="
    values = [variable[len(prefix) :] for variable in variables if variable.startswith(prefix)]
    return values[0].decode("utf-8", "replace") if values else None
