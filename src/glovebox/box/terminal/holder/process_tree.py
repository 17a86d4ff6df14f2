"""The processes of shells, also those that left their session, and the children of the holder."""

from __future__ import annotations

import os

from glovebox.linux import processes
from glovebox.linux.processes import Process, ProcessTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
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


def families(shells: list[tuple[int, str, bool]], others: Collection[int] = ()) -> list[list[Process]]:
    """The processes of shells: in each one's session, its descendants, and those with its mark.

    A shell is its process id, its name, and whether it has ended. `others` are shells that may have the same
    name.
    """
    if _are_alone(shells, others):
        return [[] if ended else list(filter(None, [processes.read(pid)])) for pid, _, ended in shells]
    table = ProcessTable()
    found = [table.family(shell, ended=ended) for shell, _, ended in shells]
    known = {process.pid for family in found for process in family}
    orphans: dict[str | None, list[int]] = {}
    for pid in processes.children(os.getpid()):
        if pid not in known and pid not in others:
            orphans.setdefault(_mark(pid), []).append(pid)
    for family, (_, name, _) in zip(found, shells):  # noqa: B905  as many of one as of the other
        for pid in orphans.get(name, ()):
            family += table.family(pid, ended=False)
    return found


def _are_alone(shells: list[tuple[int, str, bool]], others: Collection[int]) -> bool:
    """Whether shells have no processes but themselves; found out without a look at every process.

    What they started is below them, or has lost its parent and become a child of this process. The list of
    those does not change while it is read, as this process alone reaps them.
    """
    for pid, _, ended in shells:
        shell = None if ended else processes.read(pid)
        if not ended and (shell is None or shell.threads > 1 or _has_children(pid)):
            return False
    if not _has_children(os.getpid()):  # or the system does not say
        return False
    leaders, names = {pid for pid, _, _ in shells}, {name for _, name, _ in shells}
    orphans = set(processes.children(os.getpid())).difference(leaders, others)
    for orphan in filter(None, map(processes.read, orphans)):
        if orphan.session in leaders or _mark(orphan.pid) in names:
            return False
    return True


def _has_children(pid: int) -> bool:
    """Whether a process has children, as far as the system says that."""
    return bool(processes.children(pid)) or not os.path.exists(f"/proc/{pid}/task/{pid}/children")


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
