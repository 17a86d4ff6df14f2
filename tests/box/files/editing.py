"""File actions as the executor runs them, for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from glovebox.box.credentials import assume_user
from glovebox.box.events import EventLog
from glovebox.box.executor import Executor
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.machine import complete
from glovebox.box.threads import Threads
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.observations import (
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)


class StillShell:
    """A shell in a directory; its commands are done once `finish` is set."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = str(cwd)
        self.asked = asyncio.Event()
        self.finish = asyncio.Event()
        self.finish.set()

    async def settled(self) -> None:
        self.asked.set()
        await self.finish.wait()


class Files:
    """What a client can do with files, in a few words."""

    def __init__(self, executor: Executor, shell: StillShell) -> None:
        self.shell = shell
        self._executor = executor

    async def read(self, path: Path | str, **args: Any) -> FileReadObservation | ErrorObservation:
        return await self._executor.execute(FileReadAction(path=str(path), **args))

    async def view(self, path: Path | str, view_range: Any = None) -> FileReadObservation | ErrorObservation:
        return await self.read(path, impl_source="oh_aci", view_range=view_range)

    async def write(
        self, path: Path | str, content: str, **args: Any
    ) -> FileWriteObservation | ErrorObservation:
        return await self._executor.execute(FileWriteAction(path=str(path), content=content, **args))

    async def edit(self, path: Path | str, command: str, **args: Any) -> FileEditObservation:
        observation = await self._executor.execute(FileEditAction(path=str(path), command=command, **args))
        assert isinstance(observation, FileEditObservation)
        return observation


@asynccontextmanager
async def files_in(cwd: Path, *, user_id: int | None = None) -> AsyncIterator[Files]:
    """File actions whose shell and workspace are in `cwd`, with the rights of a user if this is root."""
    shell = StillShell(cwd)
    as_user = user_id is not None and os.geteuid() == 0
    threads = Threads("files", 8, initializer=partial(assume_user, user_id or 0) if as_user else None)
    files = LocalFiles(threads, owner=user_id, reads_memory=not as_user)
    actions = FileActions(files, shell=shell, workspace=lambda: str(cwd))
    try:
        yield Files(Executor(actions.handlers(), EventLog()), shell)
    finally:
        await actions.close()
        threads.close()


def read_file(path: str, start: int, end: int) -> str:
    """What the `read` action reads; by a relative path, as binary files are then read too."""
    action = FileReadAction(path=os.path.basename(path), start=start, end=end)
    return complete(_actions()._read, action, os.path.dirname(path)).content


def write_file(path: str, content: str, start: int | None, end: int | None) -> None:
    """What the `write` action does."""
    complete(_actions()._write, path, FileWriteAction(path=path, content=content, start=start, end=end))


def _actions() -> FileActions:
    return FileActions(LocalFiles(), shell=StillShell(Path("/")), workspace=lambda: "/")


def leftovers(directory: Path) -> list[str]:
    """Temporary files that should not be there."""
    return [path.name for path in directory.rglob(".glovebox-*")]


def put(path: Path, content: str | bytes) -> None:
    """Give a file this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def data_of(path: Path) -> bytes:
    """A file's bytes."""
    return path.read_bytes()


def text_of(path: Path) -> str:
    """A file's text, line ends as they are."""
    return path.read_bytes().decode()
