"""Resource limits of this process and of others."""

from __future__ import annotations

import contextlib
import resource

#: The limit on descriptors this process was started with, if it was raised.
_inherited: tuple[int, int] | None = None


def raise_limit() -> None:
    """Raise this process's limit on open descriptors as far as the system allows."""
    global _inherited
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # more than the system can count
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _inherited = (soft, hard)


def give_back_limit(pid: int) -> None:
    """Give a child process the limit on open descriptors that this process was started with.

    Some programs misbehave with a high one: they try every possible number, or use `select`.
    """
    if _inherited is not None:
        with contextlib.suppress(OSError):  # it has ended, or the system has no such call
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _inherited)


class FileSizeLimit:
    """A limit on the size of files that a process and those it starts from now on may write."""

    def __init__(self, pid: int, size: int) -> None:
        """Set it.

        Raises:
            OSError: the system does not allow it.
        """
        self._pid = pid
        self._before, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        self._size = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (self._size, hard))

    def restore(self) -> None:
        """Set the limit from before, unless the process has changed it."""
        with contextlib.suppress(OSError):
            soft, hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
            if soft == self._size:
                resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (self._before, hard))
