"""Carries out file actions through an executor, in a directory of the test's own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from glovebox.box.events import EventLog
from glovebox.box.executor import Executor
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.files.actions.search import SearchActions
from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.threads import Threads
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.observations import ErrorObservation

ObservationT = TypeVar("ObservationT", bound=Observation)


class QuietShell:
    """A shell that runs nothing; `when_asked` is what happens while someone waits for it to settle."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.asked = 0
        self.when_asked: Callable[[], Awaitable[None]] | None = None

    async def settled(self) -> None:
        self.asked += 1
        if self.when_asked is not None:
            await self.when_asked()


class Acting:
    """An executor with the file actions, and its shell."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shell = QuietShell(str(directory))
        self._threads = Threads("test", 2)
        search = SearchActions(shell=self.shell, threads=self._threads)
        paths = PathActions(LocalFiles(self._threads), shell=self.shell)
        self._executor = Executor([*search.handlers(), *paths.handlers()], EventLog())

    async def do(self, action: Action[ObservationT]) -> ObservationT:
        """Carry out an action that is expected to work."""
        answer = await self._executor.execute(action)
        assert not isinstance(answer, ErrorObservation), answer.content
        return answer

    async def answer(self, action: Action[ObservationT]) -> ObservationT | ErrorObservation:
        """Carry out an action that may be refused."""
        return await self._executor.execute(action)

    async def refused(self, action: Action[Observation]) -> ErrorObservation:
        """Carry out an action that is expected to be refused."""
        answer = await self._executor.execute(action)
        assert isinstance(answer, ErrorObservation), answer
        assert answer.content
        return answer

    def close(self) -> None:
        self._threads.close()


def plant(directory: Path, files: dict[str, str | bytes]) -> None:
    """Make files with their parents; the first of them is the oldest."""
    for age, (name, content) in enumerate(files.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (1_000_000_000 + age, 1_000_000_000 + age))


def below(directory: Path, paths: list[str]) -> list[str]:
    """Absolute paths as seen from a directory."""
    return [os.path.relpath(path, directory) for path in paths]


def tree(directory: Path) -> dict[str, str]:
    """Every path below a directory with what it is: content, link target, or a slash."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = "/" if path.is_dir() else path.read_text()
    return found


def plant_bytes_name(directory: Path, name: bytes, content: bytes = b"") -> None:
    """Make a file whose name may be no UTF-8."""
    with open(os.path.join(os.fsencode(directory), name), "wb") as file:
        file.write(content)


def _may_read_anything() -> bool:
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0)
        return os.access(file.name, os.R_OK)


#: For tests in which something must be forbidden, as nothing is to root.
needs_permissions = pytest.mark.skipif(_may_read_anything(), reason="nothing is forbidden here")
