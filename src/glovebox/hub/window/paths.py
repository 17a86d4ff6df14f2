"""The `stat`, `move`, `delete` and `mkdir` actions on paths of a window."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from glovebox.box.executor import Call, Handler
from glovebox.box.files.actions.wait_for_shell import answered
from glovebox.box.files.disk.path_errors import FileActionError
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.base import Observation
from glovebox.protocol.files import (
    DeleteAction,
    DeleteObservation,
    FileType,
    MkdirAction,
    MkdirObservation,
    MoveAction,
    MoveObservation,
    StatAction,
    StatObservation,
)
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.window import Delete, Done, Entries, List, MakeDirectory, Move, PathInfo, Stat

ObservationT = TypeVar("ObservationT", bound=Observation)

#: What a window refuses, in the words that file actions of any box have for it.
_ERROR_IDS = {
    "is_directory": "is_a_directory",
    "not_directory": "not_a_directory",
    "exists": "already_exists",
    "bad_pattern": "invalid_pattern",
    "failed": "io_error",
}


async def attempted(
    shell: WindowTerminal, attempt: Callable[[bool], Awaitable[ObservationT]], timeout: float | None
) -> ObservationT | ErrorObservation:
    """Try, and when something is not found try once more after the shell has settled.

    `attempt` is told whether it has. What the window refuses is answered with the id of the refusal.
    """

    async def told(settled: bool) -> ObservationT:
        try:
            return await attempt(settled)
        except OrderRefused as refused:
            raise FileActionError(_ERROR_IDS.get(refused.code, refused.code), str(refused)) from refused

    return await answered(shell, told, timeout)


def absolute(cwd: str, path: str) -> str:
    """The absolute path for one that may be relative to `cwd`, without `.` and `..`.

    Raises:
        Refusal: it cannot be a path.
    """
    if not path:
        raise FileActionError(
            "invalid_argument", "The path is empty. Give a path, or . for the current directory."
        )
    if "\0" in path:
        raise FileActionError(
            "invalid_argument", "The path has a NUL character, which no path can have. Remove it."
        )
    if any("\ud800" <= character <= "\udfff" for character in path):
        raise FileActionError("invalid_argument", "The path has half of a surrogate pair. Correct it.")
    return "/" + posixpath.normpath(posixpath.join(cwd, path)).lstrip("/")


class WindowPaths:
    """Looks at paths of a window and rearranges them."""

    def __init__(self, hands: Hands, terminal: WindowTerminal) -> None:
        self._hands = hands
        self._shell = terminal

    def handlers(self) -> list[Handler]:
        return [self.stat, self.move, self.delete, self.mkdir]

    async def stat(self, action: StatAction, call: Call) -> StatObservation | ErrorObservation:
        """Tell what a path is."""

        async def attempt(settled: bool) -> StatObservation:
            path = absolute(self._shell.cwd, action.path)
            if not action.follow_symlinks and await self._is_link(path):
                return _described(path, "symlink", PathInfo(exists=True))
            found = await self._look(path)
            if not found.exists:
                raise missing(path)
            if found.type == "other":
                raise FileActionError(
                    "not_a_file", f"{path} is neither a file nor a directory. Look with ls -l."
                )
            return _described(path, found.type, found)

        return await attempted(self._shell, attempt, action.timeout)

    async def move(self, action: MoveAction, call: Call) -> MoveObservation | ErrorObservation:
        async def attempt(settled: bool) -> MoveObservation:
            source = absolute(self._shell.cwd, action.source)
            target = absolute(self._shell.cwd, action.destination)
            found = await self._look(source)
            if not found.exists and not await self._is_link(source):
                raise missing(source)
            there = await self._look(target)
            if there.type == "directory" and there.exists:
                target = posixpath.join(target, posixpath.basename(source))
                there = await self._look(target)
            elif action.destination.endswith("/") and found.type != "directory":
                raise FileActionError(
                    "not_found", f"The directory {target} does not exist. Make it with mkdir first."
                )
            await self._check_places(source, target)
            if there.exists:
                await self._check_replaced(target, found, there, overwrite=action.overwrite)
            await self._hands.do(Move(path=source, to=target, overwrite=action.overwrite), Done)
            return MoveObservation(content=f"Moved {source} to {target}.", source=source, destination=target)

        return await attempted(self._shell, attempt, action.timeout)

    async def delete(self, action: DeleteAction, call: Call) -> DeleteObservation | ErrorObservation:
        async def attempt(settled: bool) -> DeleteObservation:
            path = absolute(self._shell.cwd, action.path)
            self._check_not_needed(path)
            try:
                await self._hands.do(Delete(path=path, recursive=action.recursive), Done)
            except OrderRefused as refused:
                if refused.code == "not_empty":
                    hint = f"{path} is a directory that is not empty. Set recursive to delete what is in it."
                    raise FileActionError("not_empty", hint) from refused
                if refused.code != "not_found":
                    raise
                if not (settled and action.missing_ok):
                    raise missing(path) from refused
                content = f"{path} does not exist, so there was nothing to delete."
                return DeleteObservation(content=content, path=path, removed=0)
            return DeleteObservation(content=f"Deleted {path}.", path=path, removed=1)

        return await attempted(self._shell, attempt, action.timeout)

    async def mkdir(self, action: MkdirAction, call: Call) -> MkdirObservation | ErrorObservation:
        async def attempt(settled: bool) -> MkdirObservation:
            path = absolute(self._shell.cwd, action.path)
            found = await self._look(path)
            if found.exists and found.type != "directory":
                raise FileActionError(
                    "already_exists", f"{path} exists and is not a directory. Choose another path."
                )
            if found.exists:
                content = f"The directory {path} was there already."
                return MkdirObservation(content=content, path=path, created=False)
            parent = posixpath.dirname(path)
            if not action.parents and not (await self._look(parent)).exists:
                raise FileActionError(
                    "not_found", f"{parent} does not exist. Make it first, or set parents to true."
                )
            await self._hands.do(MakeDirectory(path=path), Done)
            return MkdirObservation(content=f"Made the directory {path}.", path=path, created=True)

        return await attempted(self._shell, attempt, action.timeout)

    async def _look(self, path: str) -> PathInfo:
        return await self._hands.do(Stat(path=path), PathInfo)

    async def _is_link(self, path: str) -> bool:
        """Whether a path is a link, which only the directory that it is in tells."""
        try:
            found = (await self._hands.do(List(path=posixpath.dirname(path)), Entries)).entries
        except OrderRefused:  # not there, or a folder of the workspace, whose parent is not ours to look at
            return False
        name = posixpath.basename(path)
        return any(entry.is_link for entry in found if entry.name == name)

    async def _check_places(self, source: str, target: str) -> None:
        if source == target:
            raise FileActionError(
                "invalid_argument", f"{source} and the destination are the same. Choose another."
            )
        if target.startswith(source.rstrip("/") + "/"):
            raise FileActionError(
                "invalid_argument", f"{source} cannot be moved into itself. Choose another destination."
            )
        if source in self._folders():
            raise FileActionError(
                "protected_path", f"{source} is a folder of the workspace. Give a path below it."
            )
        parent = posixpath.dirname(target)
        if not (await self._look(parent)).exists:
            raise FileActionError(
                "not_found", f"The directory {parent} does not exist. Make it with mkdir first."
            )

    async def _check_replaced(
        self, target: str, found: PathInfo, there: PathInfo, *, overwrite: bool
    ) -> None:
        """A file takes the place of a file, a directory that of an empty one, and only if that is meant."""
        if not overwrite:
            hint = f"{target} already exists. Set overwrite to replace it, or choose another."
            raise FileActionError("already_exists", hint)
        if there.type != "directory" and found.type == "directory":
            hint = f"{target} is a file, which a directory cannot replace. Delete it first."
            raise FileActionError("not_a_directory", hint)
        if there.type == "directory" and found.type != "directory":
            hint = f"{target} is a directory, which a file cannot replace. Delete it first."
            raise FileActionError("is_a_directory", hint)
        if there.type == "directory" and (await self._hands.do(List(path=target), Entries)).entries:
            raise FileActionError("not_empty", f"{target} is a directory that is not empty. Delete it first.")

    def _check_not_needed(self, path: str) -> None:
        """Keep the floor under the shell and the window."""
        within = path.rstrip("/") + "/"
        if any(f"{folder}/".startswith(within) for folder in self._folders()):
            raise FileActionError(
                "protected_path", f"{path} is, or holds, a folder of the workspace. Give a path below it."
            )
        if f"{self._shell.cwd}/".startswith(within):
            raise FileActionError(
                "protected_path",
                f"The shell is in {path}. Change to another directory first, or delete what is in it.",
            )

    def _folders(self) -> list[str]:
        return [folder.path.rstrip("/") for folder in self._hands.window.folders]


def missing(path: str) -> FileActionError:
    """Nothing is at a path."""
    return FileActionError("not_found", f"{path} does not exist. Check the path, or find it with glob.")


def _described(path: str, kind: FileType, found: PathInfo) -> StatObservation:
    """What is known of a path: a window tells neither modes nor owners."""
    content = f"{path}: {kind}"
    if kind != "symlink":
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.modified))
        content += f", {found.size} bytes, modified {when}"
    if found.unsaved:
        content += ", open in an editor with changes that are not saved"
    return StatObservation(
        content=content,
        path=path,
        type=kind,
        size=found.size,
        mode="",
        uid=-1,
        gid=-1,
        owner=None,
        group=None,
        modified=found.modified,
    )
