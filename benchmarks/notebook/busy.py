"""A machine that has no core to spare."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context


@contextmanager
def all_cores_busy() -> Iterator[list[int]]:
    """One spinning process for each core this process may use; the list has their ids."""
    context = get_context("fork")
    children = [
        context.Process(target=_spin, args=(os.getpid(),), daemon=True) for _ in os.sched_getaffinity(0)
    ]
    for child in children:
        child.start()
    try:
        yield [child.pid for child in children if child.pid is not None]
    finally:
        for child in children:
            child.kill()
            child.join()


def _spin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while os.getppid() == parent:  # nobody else would end it when the benchmark is killed
        for _ in range(1_000_000):
            pass
