"""The `stat`, `move`, `delete` and `mkdir` actions."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from glovebox.box.executor import Call, Handler
from glovebox.box.files.disk.path_errors import FileActionError, no_directory, refusal, shown
from glovebox.box.machine import Files, MainShell, PathKind
from glovebox.protocol.base import Observation
from glovebox.protocol.files import (
    DeleteAction,
    DeleteObservation,
    MkdirAction,
    MkdirObservation,
    MoveAction,
    MoveObservation,
    StatAction,
    StatObservation,
)
from glovebox.protocol.observations import ErrorObservation

ObservationT = TypeVar("ObservationT", bound=Observation)


async def answered(
    shell: MainShell, attempt: Callable[[bool], Awaitable[ObservationT]], timeout: float | None
) -> ObservationT | ErrorObservation:
    """Try, and when something is not found try once more after the shell has settled.

    `attempt` gets whether it has, and resolves paths itself: the shell may be elsewhere by then.
    """
    try:
        try:
            return await attempt(False)
        except FileActionError as refused:
            if refused.error_id != "not_found":
                raise
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await shell.settled()
        return await attempt(True)
    except FileActionError as refused:
        return refused.observation()


class PathActions:
    """Describes and rearranges paths.

    Like reading and writing, these actions do not wait for the shell unless something is missing.
    """

    def __init__(self, files: Files, *, shell: MainShell) -> None:
        self._files = files
        self._shell = shell

    def handlers(self) -> list[Handler]:
        return [self.stat, self.move, self.delete, self.mkdir]

    async def stat(self, action: StatAction, call: Call) -> StatObservation | ErrorObservation:
        async def attempt(cwd: str, settled: bool) -> StatObservation:
            path = await self._files.absolute(cwd, action.path)
            return await self._files.describe(path, follow=action.follow_symlinks)

        return await self._answered(attempt, action.timeout)

    async def move(self, action: MoveAction, call: Call) -> MoveObservation | ErrorObservation:
        async def attempt(cwd: str, settled: bool) -> MoveObservation:
            source = await self._files.absolute(cwd, action.source)
            target = await self._files.absolute(cwd, action.destination)
            try:
                kind = await self._files.stat(source, follow=False)
            except OSError as error:
                raise refusal(error, source) from error
            if await self._is_directory(target):
                target = os.path.join(target, os.path.basename(source))
            elif action.destination.endswith("/") and kind != "directory":
                raise no_directory(target)
            await check_places(self._files, source, target, kind)
            try:
                await self._files.move(source, target, overwrite=action.overwrite)
            except OSError as error:
                raise move_refusal(error, source, target, action.overwrite) from error
            content = f"Moved {shown(source)} to {shown(target)}."
            return MoveObservation(content=content, source=shown(source), destination=shown(target))

        return await self._answered(attempt, action.timeout)

    async def delete(self, action: DeleteAction, call: Call) -> DeleteObservation | ErrorObservation:
        async def attempt(cwd: str, settled: bool) -> DeleteObservation:
            path = await self._files.absolute(cwd, action.path)
            try:
                removed = await self._files.delete(path, cwd, recursive=action.recursive)
            except FileActionError as refused:
                if not (settled and action.missing_ok and refused.error_id == "not_found"):
                    raise
                content = f"{shown(path)} does not exist, so there was nothing to delete."
                return DeleteObservation(content=content, path=shown(path), removed=0)
            things = f" and the {removed - 1} entries in it" if removed > 1 else ""
            content = f"Deleted {shown(path)}{things}."
            return DeleteObservation(content=content, path=shown(path), removed=removed)

        return await self._answered(attempt, action.timeout)

    async def mkdir(self, action: MkdirAction, call: Call) -> MkdirObservation | ErrorObservation:
        async def attempt(cwd: str, settled: bool) -> MkdirObservation:
            path = await self._files.absolute(cwd, action.path)
            made = await self._files.make_directory(path, parents=action.parents)
            directory = f"directory {shown(path)}"
            content = f"Made the {directory}." if made else f"The {directory} was there already."
            return MkdirObservation(content=content, path=shown(path), created=made)

        return await self._answered(attempt, action.timeout)

    async def _answered(
        self, attempt: Callable[[str, bool], Coroutine[Any, Any, ObservationT]], timeout: float | None
    ) -> ObservationT | ErrorObservation:
        async def run(settled: bool) -> ObservationT:
            return await self._files.run(attempt, self._shell.cwd, settled)

        return await answered(self._shell, run, timeout)

    async def _is_directory(self, path: str) -> bool:
        try:
            return await self._files.stat(path) == "directory"
        except OSError:
            return False


async def check_places(files: Files, source: str, target: str, kind: PathKind) -> None:
    """That a path can be moved to another.

    Raises:
        FileActionError: it is the root, the same path, or a directory above the other.
    """
    if source == "/":
        raise FileActionError("protected_path", "The root directory cannot be moved. Give a path below it.")
    (parent, name), (above, former) = os.path.split(target), os.path.split(source)
    parent = await files.real(parent)
    if (await files.real(above), former) == (parent, name):
        raise FileActionError(
            "invalid_argument", f"{shown(source)} and the destination are the same. Choose another."
        )
    real = await files.real(source)
    if kind == "directory" and os.path.commonpath([real, parent]) == real:
        raise FileActionError(
            "invalid_argument",
            f"{shown(source)} cannot be moved into itself. Choose another destination.",
        )


def move_refusal(error: OSError, source: str, target: str, overwrite: bool) -> FileActionError:
    """The answer to a failed move, which may be about either of the two paths."""
    where = shown(target)
    if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and overwrite:
        return FileActionError("not_empty", f"{where} is a directory that is not empty. Delete it first.")
    if error.errno == errno.EEXIST:
        return FileActionError(
            "already_exists", f"{where} already exists. Set overwrite to replace it, or choose another."
        )
    if error.errno == errno.EISDIR:
        return FileActionError(
            "is_a_directory", f"{where} is a directory, which a file cannot replace. Delete it first."
        )
    if error.errno == errno.ENOTDIR:
        return FileActionError(
            "not_a_directory", f"{where} is a file, which a directory cannot replace. Delete it first."
        )
    if error.errno in (errno.ENOENT, errno.EBUSY):
        return refusal(error, source)
    return refusal(error, error.filename2 or error.filename or target)
