"""The bundle that belongs to this version of Glovebox, made when it is first needed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import glovebox
from glovebox.bundle.archive import manifest
from glovebox.bundle.packages import constraints, own_distribution
from glovebox.bundle.pythons import mark
from glovebox.bundle.subprocesses import BrokenOff, Stop
from glovebox.client.backend import ProgressReport, RuntimeStatus
from glovebox.errors import NoBundle
from glovebox.settings.host import HostSettings

#: What a box needs of this package.
EXTRAS = ("box",)
#: Earlier bundles that are kept: someone may go back and forth between two versions.
KEPT = 2
#: How often a lock that another holds is tried again, in seconds.
LOOK = 0.1


async def ensure(settings: HostSettings, report: ProgressReport) -> Path:
    """The bundle to put into images: named by the settings, or that of this version.

    The first call of a version makes it; that takes a while, which is reported.

    Raises:
        NoBundle: there is none and it cannot be made; the text says what to do.
    """
    if settings.bundle:
        given = Path(settings.bundle)
        await asyncio.to_thread(manifest, given)
        return given
    path = await asyncio.to_thread(_place, settings.cache, EXTRAS)
    if not path.exists():
        await _make(path, report)
    return path


async def _make(path: Path, report: ProgressReport) -> None:
    report.status(RuntimeStatus.BUILDING_RUNTIME, "Making the runtime for images. This is done once.")
    loop = asyncio.get_running_loop()
    stop = Stop()

    def tell(step: str, done: int, total: int) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(report.progress, f"runtime: {step}", done, total)

    def work() -> None:
        from glovebox.bundle.build import build

        with contextlib.suppress(BrokenOff), _alone(path, stop):
            if not path.exists():
                _forget_unfinished(path)
                build(path, extras=EXTRAS, tell=tell, stop=stop)
                _forget_others(path)

    try:
        await asyncio.to_thread(work)
    finally:
        stop.set()


def _place(cache: Path, extras: tuple[str, ...]) -> Path:
    """The path of the bundle of this version, which depends on its sources. Blocks briefly."""
    return cache / f"bundle-{glovebox.__version__}-{fingerprint(extras)}.tar"


@functools.cache
def fingerprint(extras: tuple[str, ...]) -> str:
    """A digest of what the bundle depends on: the sources, what they need, and the machine.

    It is found out once, like the sources are loaded once.
    """
    whole = hashlib.sha256()
    for text in (platform.machine(), mark(), *platform.libc_ver(), *extras):
        whole.update(text.encode() + b"\0")
    own = own_distribution()
    whole.update((own.read_text("METADATA") or "").encode())
    whole.update((own.read_text("entry_points.txt") or "").encode())
    if versions := constraints():
        whole.update(versions.read_bytes())
    # Without pathlib, which would take longer than all the rest.
    root = os.path.dirname(glovebox.__file__)
    for parent, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(parent, name)
            whole.update(os.fsencode(path.removeprefix(root)) + b"\0")
            with open(path, "rb", buffering=0) as file:
                whole.update(file.read())
    return whole.hexdigest()[:16]


@contextlib.contextmanager
def _alone(path: Path, stop: Stop) -> Iterator[None]:
    """One at a time makes a bundle; the others find it made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.parent / "bundle.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NoBundle(f"The runtime for images cannot be kept in {path.parent}: {error}") from error
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                stop.check(LOOK)
        yield
    finally:
        os.close(lock)


def _forget_unfinished(path: Path) -> None:
    """Remove what killed builds left; the lock is held, so no other build runs."""
    for left in path.parent.glob(".bundle-*.tar-*"):
        shutil.rmtree(left, ignore_errors=True)


def _forget_others(path: Path) -> None:
    """Remove bundles of older versions; a process that reads one can go on reading it."""
    others = [other for other in path.parent.glob("bundle-*.tar") if other != path]
    for other in sorted(others, key=lambda one: one.stat().st_mtime, reverse=True)[KEPT:]:
        other.unlink(missing_ok=True)
