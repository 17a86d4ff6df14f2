"""How many descriptors a server may have open, and the programs that it starts."""

from __future__ import annotations

import contextlib
import resource

#: What this process was started with, since it was changed.
_given: tuple[int, int] | None = None


def raise_limit() -> None:
    """Let this process have as many connections and files open as the system allows it to."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # more than the system can count
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _given = (soft, hard)


def give_back_limit(pid: int) -> None:
    """Let a program that this process has started have the limit that this process was started with.

    Some misbehave with a high one: they look at every number there could be, or use `select`.
    """
    if _given is not None:
        with contextlib.suppress(OSError):  # it has ended, or the system has no such call
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _given)
