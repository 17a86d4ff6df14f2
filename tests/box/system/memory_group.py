"""A real control group with little memory, where one can be made."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.linux.oom import FIRST_NAMESPACE
from tests.support.running import wait_until

ROOT = Path("/sys/fs/cgroup")

#: Grows in steps of a megabyte, slowly enough to be seen.
HUNGRY = (
    f"{sys.executable} -c "
    "'import time; kept = []\nwhile True: kept.append(bytearray(b\"x\") * 1_000_000); time.sleep(0.005)'"
)


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A group whose members may use so many bytes together; skips the test where none can be made."""
    parent = ROOT / "memory" if (ROOT / "memory").is_dir() else ROOT
    group = parent / f"glovebox-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        _limit(group, limit)
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
        wait_until(lambda: _removed(group), what="the control group to be empty")


def readable_log() -> bool:
    """Whether the kernel tells what it kills, in numbers that mean something here."""
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
        return os.readlink("/proc/self/ns/pid") == FIRST_NAMESPACE
    except OSError:
        return False


def enter(group: Path, pid: int) -> None:
    """Put a process into a group; what it starts from now on is in it too."""
    (group / "cgroup.procs").write_text(str(pid))


def _limit(group: Path, limit: int) -> None:
    files = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max")
    known = [group / name for name in files if (group / name).exists()]
    if not known:
        pytest.skip("the memory controller is not there for new control groups")
    try:
        for file in known:
            file.write_text(str(limit))
        if (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0")
    except OSError as error:
        pytest.skip(f"the memory of a control group cannot be limited here: {error}")


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not group.exists()
