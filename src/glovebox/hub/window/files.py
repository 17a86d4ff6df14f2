"""The files of a VS Code window: what its editors show, read and changed by orders."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import posixpath
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import msgspec

from glovebox.box.executor import Call
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.actions.paths import answered
from glovebox.box.files.disk.encoding import SAMPLE_SIZE
from glovebox.box.files.disk.path_errors import (
    ChangedMeanwhile,
    FileActionError,
    half_pair,
    no_directory,
    no_parent,
    not_free,
    refusal,
    resolved,
    shell_inside,
)
from glovebox.box.files.disk.paths import DEPTH
from glovebox.box.files.editor.editor import ATTEMPTS
from glovebox.box.machine import FileHandle, MainShell, PathKind, Tree, TreeEntry
from glovebox.box.threads import Threads
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.actions import FileEditAction, FileWriteAction
from glovebox.protocol.base import Observation
from glovebox.protocol.files import FileType, StatObservation
from glovebox.protocol.observations import ErrorObservation, FileEditObservation, FileWriteObservation
from glovebox.protocol.window import (
    PIECE,
    Content,
    Delete,
    Done,
    Entries,
    Entry,
    FailureCode,
    List,
    MakeDirectory,
    Move,
    PathInfo,
    Read,
    Stat,
    Write,
    Written,
)

P = ParamSpec("P")
T = TypeVar("T")
ObservationT = TypeVar("ObservationT", bound=Observation)
Numbers = Mapping[FailureCode, int]

#: Larger files are neither read nor changed in part.
MOST_BYTES = 64 << 20

#: Refusals of a window as errors of a system.
_NO_NUMBERS: Numbers = {}
_OPENING: Numbers = {
    "not_found": errno.ENOENT,
    "not_directory": errno.ENOENT,
    "is_directory": errno.EISDIR,
}
_CREATING: Numbers = {"exists": errno.EEXIST, "is_directory": errno.EEXIST}
_ARRANGING: Numbers = {
    "not_found": errno.ENOENT,
    "not_directory": errno.ENOTDIR,
    "is_directory": errno.EISDIR,
    "exists": errno.EEXIST,
    "not_empty": errno.ENOTEMPTY,
}
_NO_IDS: Mapping[str, str] = {}
#: The most characters of a text that an editor has changed in an answer.
_MOST_SAVED = 10_000
#: What the files that an action has written hold, where that is not what it sent.
_saved: ContextVar[list[bytes]] = ContextVar("saved")
#: The ids that path actions of any box have for refusals.
_ERROR_IDS = {
    "is_directory": "is_a_directory",
    "not_directory": "not_a_directory",
    "exists": "already_exists",
    "bad_pattern": "invalid_pattern",
    "failed": "io_error",
}


class WindowFile:
    """A file of a window: its first piece, and the others when they are needed."""

    is_regular = True
    small = MOST_BYTES

    def __init__(self, hands: Hands, path: str, first: Content) -> None:
        self._hands = hands
        self._first = first
        self.path = path
        self.size = first.size
        #: What `content` read.
        self.data: bytes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def sample(self) -> bytes:
        return self._first.data[:SAMPLE_SIZE]

    async def content(self, most: int) -> bytes | None:
        for attempt in range(ATTEMPTS):
            if attempt:
                self._first = await _read(self._hands, self.path, 0)
            self.size = self._first.size
            if self.size > most:
                return None
            self.data = await self._pieces()
            if self.data is not None:
                return self.data
        raise ChangedMeanwhile("changed_meanwhile", f"{self.path} changes while it is read. Try again.")

    async def _pieces(self) -> bytes | None:
        """All of the file; `None` if it has changed meanwhile."""
        first = self._first
        pieces, got = [first.data], len(first.data)
        while got < first.size:
            piece = await _read(self._hands, self.path, got)
            if (piece.size, piece.unsaved) != (first.size, first.unsaved) or not piece.data:
                return None
            pieces.append(piece.data)
            got += len(piece.data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def lines(self, start: int, end: int, most: int) -> str:
        raise FileActionError(
            "too_large",
            f"{self.path} is too large to be read at once: The file has {self.size:,} bytes. Read a part of "
            "it, for example with sed -n '1,200p'.",
        )


async def _read(hands: Hands, path: str, offset: int, numbers: Numbers = _NO_NUMBERS) -> Content:
    with _refusals(path, numbers):
        return await hands.do(Read(path=path, offset=offset, length=PIECE), Content)


class WindowFiles:
    """Files of a window. Its unsaved changes are read, and never written over."""

    def __init__(self, hands: Hands, threads: Threads) -> None:
        self._hands = hands
        self._threads = threads
        #: A lock and how many hold or want it, of each path in use.
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def run(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return await work(*args, **kwargs)

    look = run

    async def compute(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.run(call, *args, **kwargs)

    @contextlib.asynccontextmanager
    async def lock(self, path: str) -> AsyncIterator[None]:
        lock, wanted = self._locks.get(path) or (asyncio.Lock(), 0)
        self._locks[path] = (lock, wanted + 1)
        try:
            async with lock:
                yield
        finally:
            wanted = self._locks[path][1] - 1
            if wanted:
                self._locks[path] = (lock, wanted)
            else:
                del self._locks[path]

    async def stat(self, path: str, *, follow: bool = True) -> PathKind:
        found = await self._look(path)
        if found.exists:
            return found.type
        if not follow and await self._is_link(path):
            return "other"
        raise _error(errno.ENOENT, path)

    async def describe(self, path: str, *, follow: bool) -> StatObservation:
        if not follow and await self._is_link(path):
            return _described(path, "symlink", PathInfo(exists=True))
        found = await self._look(path)
        if not found.exists:
            raise missing(path)
        if found.type == "other":
            raise FileActionError("not_a_file", f"{path} is neither a file nor a directory. Look with ls -l.")
        return _described(path, found.type, found)

    async def open(self, path: str) -> WindowFile:
        return WindowFile(self._hands, path, await _read(self._hands, path, 0, _OPENING))

    async def replace(self, file: FileHandle, data: bytes) -> None:
        assert isinstance(file, WindowFile)
        assert file.data is not None
        expected = await self._threads.run(lambda: hashlib.sha256(file.data or b"").hexdigest())
        await self._write(Write(path=file.path, data=data, expected=expected))

    async def _write(self, order: Write, numbers: Numbers = _NO_NUMBERS) -> None:
        with _refusals(order.path, numbers):
            written = await self._hands.do(order, Written)
        if written.saved is not None:
            _saved.get().append(written.saved)

    async def splice(self, file: FileHandle, content: str, start: int | None, end: int | None) -> None:
        size = f"The file has {file.size:,} bytes."
        raise FileActionError("", f"{file.path} is too large to be written in part: {size}")

    async def create(self, path: str, data: bytes, *, exclusive: bool) -> None:
        order = Write(path=path, data=data, exclusive=True)
        await self._write(order, _CREATING if exclusive else _NO_NUMBERS)

    async def tree(self, path: str) -> Tree:
        entries = [TreeEntry(path, True)]
        hidden = await self._descend(path, entries, DEPTH)
        entries.sort(key=lambda entry: os.fsencode(entry.path))
        return Tree(entries, hidden, [])

    async def absolute(self, cwd: str, path: str) -> str:
        return absolute(cwd, path)

    async def real(self, path: str) -> str:
        return path

    async def move(self, source: str, target: str, *, overwrite: bool) -> None:
        if source in self._folders():
            raise FileActionError(
                "protected_path", f"{source} is a folder of the workspace. Give a path below it."
            )
        parent = posixpath.dirname(target)
        if not (await self._look(parent)).exists:
            raise no_directory(parent)
        with _refusals(target, _ARRANGING, _ERROR_IDS):
            await self._hands.do(Move(path=source, to=target, overwrite=overwrite), Done)

    async def delete(self, path: str, cwd: str, *, recursive: bool) -> int:
        within = path.rstrip("/") + "/"
        if any(f"{folder}/".startswith(within) for folder in self._folders()):
            raise FileActionError(
                "protected_path", f"{path} is, or holds, a folder of the workspace. Give a path below it."
            )
        if f"{cwd}/".startswith(within):
            raise shell_inside(path)
        try:
            with _refusals(path, _ARRANGING, _ERROR_IDS):
                await self._hands.do(Delete(path=path, recursive=recursive), Done)
        except OSError as error:
            raise refusal(error, path) from error
        return 1

    async def make_directory(self, path: str, *, parents: bool) -> bool:
        found = await self._look(path)
        if found.exists and found.type != "directory":
            raise not_free(path)
        if found.exists:
            return False
        parent = posixpath.dirname(path)
        if not parents and not (await self._look(parent)).exists:
            raise no_parent(parent)
        with _refusals(path, ids=_ERROR_IDS):
            await self._hands.do(MakeDirectory(path=path), Done)
        return True

    async def _descend(self, directory: str, entries: list[TreeEntry], depth: int) -> int:
        """Add what is in a directory; returns how many hidden entries it has."""
        with _refusals(directory):
            found = await self._list(directory)
        for child in found:
            if child.name.startswith("."):
                continue
            path = posixpath.join(directory, child.name)
            entries.append(TreeEntry(path, child.type == "directory"))
            if child.type == "directory" and depth > 1:
                # A link may lead out of the workspace, and a directory may not be readable.
                with contextlib.suppress(FileActionError):
                    await self._descend(path, entries, depth - 1)
        return sum(child.name.startswith(".") for child in found)

    async def _list(self, path: str) -> list[Entry]:
        return (await self._hands.do(List(path=path), Entries)).entries

    async def _look(self, path: str) -> PathInfo:
        with _refusals(path, ids=_ERROR_IDS):
            return await self._hands.do(Stat(path=path), PathInfo)

    async def _is_link(self, path: str) -> bool:
        """Whether a path is a link, as its directory lists it."""
        try:
            found = await self._list(posixpath.dirname(path))
        except OrderRefused:  # it is missing, or the parent of a folder of the workspace
            return False
        name = posixpath.basename(path)
        return any(entry.is_link for entry in found if entry.name == name)

    def _folders(self) -> list[str]:
        return [folder.path.rstrip("/") for folder in self._hands.window.folders]


class WindowFileActions(FileActions):
    """Reads, writes and edits files of a window; answers contain the text if its editors changed it."""

    async def write(self, action: FileWriteAction, call: Call) -> FileWriteObservation | ErrorObservation:
        _saved.set([])
        return _with_saved(await super().write(action, call))

    async def edit(self, action: FileEditAction, call: Call) -> FileEditObservation | ErrorObservation:
        _saved.set([])
        return _with_saved(await super().edit(action, call))


def _with_saved(answer: ObservationT) -> ObservationT:
    """An answer with the text of a file that the window's editor has changed while saving it."""
    if not (saved := _saved.get()):
        return answer
    text = saved[-1].decode("utf-8", "replace")
    if len(text) > _MOST_SAVED:
        text = f"{text[:_MOST_SAVED]}\n[... {len(text) - _MOST_SAVED} more characters]"
    note = f"The window's editor changed the text when it saved the file, which has this now:\n{text}"
    return msgspec.structs.replace(answer, content=f"{answer.content}\n{note}".lstrip())


@contextlib.contextmanager
def _refusals(path: str, numbers: Numbers = _NO_NUMBERS, ids: Mapping[str, str] = _NO_IDS) -> Iterator[None]:
    """Raise a window's refusal as the error of a system if it has a number, else as the answer."""
    try:
        yield
    except OrderRefused as refused:
        if refused.code in numbers:
            raise _error(numbers[refused.code], path) from refused
        changed = refused.code in ("changed_meanwhile", "exists")
        error = ChangedMeanwhile if changed else FileActionError
        raise error(ids.get(refused.code, refused.code), str(refused)) from refused


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


async def attempted(
    shell: MainShell, attempt: Callable[[bool], Awaitable[ObservationT]], timeout: float | None
) -> ObservationT | ErrorObservation:
    """As `answered`, for orders to a window: its refusals are answered with their ids."""

    async def answer(settled: bool) -> ObservationT:
        try:
            return await attempt(settled)
        except OrderRefused as refused:
            raise FileActionError(_ERROR_IDS.get(refused.code, refused.code), str(refused)) from refused

    return await answered(shell, answer, timeout)


def absolute(cwd: str, path: str) -> str:
    """The absolute path for one that may be relative to `cwd`, without `.` and `..`.

    Raises:
        FileActionError: it cannot be a path.
    """
    if any("\ud800" <= character <= "\udfff" for character in path):
        raise half_pair()
    return resolved(cwd, path, real=posixpath.normpath)


def missing(path: str) -> FileActionError:
    """Nothing is at a path."""
    return refusal(_error(errno.ENOENT, path), path)


async def names(hands: Hands, path: str) -> list[str]:
    """Directories first, each with a trailing `/`, then the rest; empty if there is nothing to list.

    A link counts as what it leads to, and not at all if that does not exist.

    Raises:
        OrderRefused: the window refuses.
        WindowError: the window does not answer.
    """
    try:
        found = (await hands.do(List(path=path), Entries)).entries
    except OrderRefused as refused:
        if refused.code in ("not_found", "not_directory"):
            return []
        raise
    directories = [f"{entry.name}/" for entry in found if entry.type == "directory"]
    files = [
        entry.name
        for entry in found
        if entry.type != "directory" and not (entry.is_link and entry.type == "other")
    ]
    return sorted(directories, key=_order) + sorted(files, key=_order)


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name


def _described(path: str, kind: FileType, found: PathInfo) -> StatObservation:
    """The answer to `stat`; a window knows neither modes nor owners."""
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
