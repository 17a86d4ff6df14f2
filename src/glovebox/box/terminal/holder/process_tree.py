"""The processes of shells, also those that left their session, and the children of the holder."""

from __future__ import annotations

import os

from glovebox.linux import processes
from glovebox.linux.processes import Process, ProcessTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from resource import struct_rusage

#: The variable with the name of the shell a process belongs to; it stays when a process leaves its session.
MARK = "GLOVEBOX_SESSION"
#: How often to search for processes that forked while others were being killed.
_ROUNDS = 20


def reap() -> Iterator[tuple[int, int, struct_rusage]]:
    """The children that have ended, their statuses and what they used."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, status, used


def families(shells: list[tuple[int, str, bool]]) -> list[list[Process]]:
    """The processes of shells: in each one's session, its descendants, and those with its mark.

    A shell is its process id, its name, and whether it has ended.
    """
    table = ProcessTable()
    found = [table.family(shell, ended=ended) for shell, _, ended in shells]
    known = {process.pid for family in found for process in family}
    orphans: dict[str | None, list[int]] = {}
    for pid in processes.children(os.getpid()):
        if pid not in known:
            orphans.setdefault(_mark(pid), []).append(pid)
    for family, (_, name, _) in zip(found, shells):  # noqa: B905  as many of one as of the other
        for pid in orphans.get(name, ()):
            family += table.family(pid, ended=False)
    return found


def end_children() -> None:
    """Kill every descendant that is left."""
    for _ in range(_ROUNDS):
        children = processes.children(os.getpid())
        if not children:
            return
        table = ProcessTable()
        for pid in children:
            processes.kill(table.family(pid, ended=False))
        for pid in children:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
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


def _mark(pid: int) -> str | None:
    prefix = MARK.encode() + b"="
    values = [one[len(prefix) :] for one in processes.environment(pid) if one.startswith(prefix)]
    return values[0].decode("utf-8", "replace") if values else None
