"""What happens below a directory, by the kernel's inotify. Everything here blocks, but never waits.

inotify watches single directories, by number. So each directory of a tree gets a watch, and so does each that
appears; what was put into it before is found by listing it. A directory that is moved keeps its watch.
Watches are added with the rights of the calling thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator
from typing import Any

from glovebox.box.files.disk.atomic import PREFIX
from glovebox.box.files.disk.metadata import kind_of
from glovebox.box.files.disk.path_errors import shown
from glovebox.box.threads import Releasable
from glovebox.errors import FileError, TooManyWatches
from glovebox.protocol.file_info import ChangeKind, FileChange, FileKind

#: The most directories that one watch covers; each takes about a kilobyte of the kernel's memory.
MOST_DIRECTORIES = 65_536
#: More changed paths than this at once are an overflow.
MOST_CHANGES = 10_000

_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIRECTORY = (
    0x400, 0x800, 0x2000, 0x4000, 0x8000, 0x40000000,
)  # fmt: skip
_ONLY_DIRECTORIES, _DONT_FOLLOW, _EXCLUDE_UNLINKED = 0x01000000, 0x02000000, 0x04000000
_MASK = (
    _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_DIRECTORIES | _EXCLUDE_UNLINKED
)  # fmt: skip
_GONE = _DELETE_SELF | _MOVE_SELF | _UNMOUNT
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16
_MOST_READS = 64
_HIDDEN = PREFIX.encode()


class _Directory:
    """A directory with a watch."""

    __slots__ = ("below", "name", "parent")

    def __init__(self, name: bytes, parent: _Directory | None) -> None:
        self.name = name
        self.parent = parent
        #: The numbers of the watches of directories in it.
        self.below: dict[bytes, int] = {}

    def path(self) -> bytes:
        names: list[bytes] = []
        at: _Directory | None = self
        while at is not None:
            names.append(at.name)
            at = at.parent
        return os.path.join(*reversed(names))


class Changes:
    """What happened to paths, each once, in the order in which they were first touched."""

    def __init__(self) -> None:
        #: By path: what happened, whether it is a directory, and where it was before.
        self._found: dict[bytes, tuple[ChangeKind, bool, bytes]] = {}
        #: What was moved from where, until it is known where to.
        self._leaving: dict[int, tuple[bytes, bool]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def created(self, path: bytes, is_directory: bool) -> None:
        before = self._found.get(path)
        self._found[path] = (
            "modified" if before and before[0] == "deleted" else "created",
            is_directory,
            b"",
        )

    def modified(self, path: bytes, is_directory: bool) -> None:
        if self._found.get(path, ("deleted",))[0] == "deleted":
            self._found[path] = ("modified", is_directory, b"")

    def deleted(self, path: bytes, is_directory: bool) -> None:
        change, _, source = self._found.pop(path, ("modified", False, b""))
        if change != "created":
            self._found[source or path] = ("deleted", is_directory, b"")

    def leaving(self, path: bytes, is_directory: bool, cookie: int) -> None:
        self._leaving[cookie] = (path, is_directory)

    def arrived(self, path: bytes, is_directory: bool, cookie: int) -> bytes | None:
        """Something was moved here; from where, if that is known."""
        source = self._leaving.pop(cookie, (None, False))[0]
        if source is None or _is_hidden(source):  # the latter: a file was written, and takes its place now
            self.created(path, is_directory)
        elif _is_hidden(path):  # which made room for the new file
            self._found[source] = ("modified", is_directory, b"")
        else:
            change, _, first = self._found.pop(source, ("moved", False, b""))
            if change == "created":
                self.created(path, is_directory)
            else:
                self._found[path] = ("moved", is_directory, first or source)
        return source

    def left(self) -> Iterator[tuple[bytes, bool]]:
        """What was moved out of sight, which counts as deleted."""
        for path, is_directory in self._leaving.values():
            self.deleted(path, is_directory)
            yield path, is_directory
        self._leaving.clear()

    def listed(self) -> list[FileChange]:
        return [
            FileChange(
                path=shown(os.fsdecode(path)),
                change=change,
                kind="directory" if is_directory else _kind(path, change),
                source=shown(os.fsdecode(source)) if source else None,
            )
            for path, (change, is_directory, source) in self._found.items()
            if not _is_hidden(path)
        ]


def _is_hidden(path: bytes) -> bool:
    """Whether it is a temporary file of the box, whose comings and goings are no changes."""
    return os.path.basename(path).startswith(_HIDDEN)


def _kind(path: bytes, change: ChangeKind) -> FileKind | None:
    try:
        return None if change == "deleted" else kind_of(os.lstat(path))
    except OSError:  # gone again
        return None


class DirectoryWatch(Releasable):
    """A directory, or everything below it, or a single file.

    Raises:
        OSError: nothing is at the path, or it may not be read.
        TooManyWatches: there are more directories than can be watched.
    """

    def __init__(self, path: str, *, recursive: bool) -> None:
        super().__init__()
        self.path = path
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
        self._recursive = recursive and is_directory
        #: The name of the file to watch, which is done by its directory: files get replaced.
        self._only = b"" if is_directory else os.fsencode(os.path.basename(path))
        self._root = os.fsencode(path if is_directory else os.path.dirname(path))
        self._library: Any = ctypes.CDLL(None, use_errno=True)
        self._watched: dict[int, _Directory] = {}
        self.is_over = False
        self.fd = self._opened()
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._begin()
            undo.pop_all()

    @property
    def directories(self) -> int:
        return len(self._watched)

    def _release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def collect(self) -> list[FileChange] | None:
        """What has happened since the last call; None if too much has, so that changes are missing.

        After that the watch is complete again. `is_over` is set when the directory itself is gone.
        """
        changes = Changes()
        with self.in_use():
            try:
                complete = self._read_all(changes)
                for path, is_directory in changes.left():
                    if is_directory:
                        self._forget(path)
            except TooManyWatches:
                complete = False
            if complete:
                return changes.listed()
            self._restart()
        return None

    def _opened(self) -> int:
        flags = os.O_CLOEXEC | os.O_NONBLOCK
        try:
            descriptor: int = self._library.inotify_init1(flags)
        except AttributeError:
            raise FileError("Watching files needs Linux.") from None
        if descriptor < 0:
            raise self._failure(self._root)
        return descriptor

    def _failure(self, path: bytes) -> OSError | TooManyWatches:
        number = ctypes.get_errno()
        if number in (errno.ENOSPC, errno.EMFILE, errno.ENFILE):
            return TooManyWatches(
                "The system watches as many directories as it can (fs.inotify.max_user_watches and "
                "max_user_instances). Watch fewer."
            )
        return OSError(number, os.strerror(number), os.fsdecode(path))

    def _begin(self) -> None:
        number = self._add_watch(self._root, follow=True)
        root = self._watched[number] = _Directory(self._root, None)
        self._root_number = number
        if self._recursive:
            self._add_below(root, None)

    def _restart(self) -> None:
        """Watch anew what is there now."""
        self._release()
        self._watched.clear()
        try:
            self.fd = self._opened()
            self._begin()
        except (OSError, FileError):
            self.is_over = True

    def _add_watch(self, path: bytes, *, follow: bool) -> int:
        if len(self._watched) >= MOST_DIRECTORIES:
            raise TooManyWatches(f"There are more than {MOST_DIRECTORIES} directories to watch.")
        number: int = self._library.inotify_add_watch(
            self.fd, path, ctypes.c_uint32(_MASK | (0 if follow else _DONT_FOLLOW))
        )
        if number < 0:
            raise self._failure(path)
        return number

    def _add_below(self, top: _Directory, changes: Changes | None) -> None:
        """Watch the directories in a directory; `changes` gets what is found, if it is new."""
        waiting = [top]
        while waiting:
            directory = waiting.pop()
            path = directory.path()
            try:
                with os.scandir(path) as scan:
                    for entry in scan:
                        is_directory = entry.is_dir(follow_symlinks=False)
                        if changes is not None:
                            changes.created(entry.path, is_directory)
                        if is_directory and (below := self._add(directory, entry.name)) is not None:
                            waiting.append(below)
            except OSError:  # gone, or not ours to read
                continue

    def _add(self, parent: _Directory, name: bytes) -> _Directory | None:
        """Watch a directory in another; None if that is watched, is gone, or may not be."""
        if name in parent.below:
            return None
        directory = _Directory(name, parent)
        try:
            number = self._add_watch(directory.path(), follow=False)
        except OSError:
            return None
        parent.below[name] = number
        self._watched[number] = directory
        return directory

    def _read_all(self, changes: Changes) -> bool:
        """Read what there is; False if some of it is missing, or it is too much."""
        for _ in range(_MOST_READS):
            try:
                data = os.read(self.fd, _BUFFER)
            except BlockingIOError:
                return True
            at = 0
            while at < len(data):
                number, mask, cookie, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                if mask & _OVERFLOW:
                    return False
                directory = self._watched.get(number)
                if directory is not None:
                    name = data[at : at + length].rstrip(b"\0")
                    self._take(directory, number, mask, cookie, name, changes)
                at += length
            if len(changes) > MOST_CHANGES:
                return False
        return True

    def _take(
        self, directory: _Directory, number: int, mask: int, cookie: int, name: bytes, changes: Changes
    ) -> None:
        if not name or mask & (_GONE | _IGNORED):
            self._take_own(directory, number, mask, changes)
            return
        if self._only and name != self._only:
            return
        path, is_directory = os.path.join(directory.path(), name), bool(mask & _IS_DIRECTORY)
        if mask & _DELETE:
            changes.deleted(path, is_directory)
        elif mask & _MOVED_FROM:
            changes.leaving(path, is_directory, cookie)
        elif mask & (_MODIFY | _ATTRIB):
            changes.modified(path, is_directory)
        elif mask & _CREATE:
            changes.created(path, is_directory)
            self._arrived(directory, name, None, changes, is_directory)
        elif mask & _MOVED_TO:
            source = changes.arrived(path, is_directory, cookie)
            self._arrived(directory, name, source, changes, is_directory)

    def _take_own(self, directory: _Directory, number: int, mask: int, changes: Changes) -> None:
        """Something happened to a watched directory itself."""
        if mask & _IGNORED:
            del self._watched[number]
            parent = directory.parent
            if parent is not None and parent.below.get(directory.name) == number:
                del parent.below[directory.name]
        elif mask & _GONE and directory.parent is None:
            changes.deleted(self._root, is_directory=True)
            self.is_over = True

    def _arrived(
        self, parent: _Directory, name: bytes, source: bytes | None, changes: Changes, is_directory: bool
    ) -> None:
        """Watch a directory that has appeared, or has been moved here from `source`."""
        if not (is_directory and self._recursive):
            return
        number = None if source is None else self._taken_out(source)
        if number is not None:
            moved = self._watched[number]
            moved.parent, moved.name = parent, name
            parent.below[name] = number
        elif (new := self._add(parent, name)) is not None:
            self._add_below(new, changes if source is None else None)

    def _taken_out(self, path: bytes) -> int | None:
        """The number of the watch of a directory, which is no longer in its place."""
        at: _Directory | None = self._watched.get(self._root_number)
        *above, name = path[len(self._root) :].strip(b"/").split(b"/")
        for step in above:
            at = self._watched.get(at.below.get(step, -1)) if at is not None else None
        return at.below.pop(name, None) if at is not None else None

    def _forget(self, path: bytes) -> None:
        """Watch a directory no more that was moved out of sight, nor what is below it."""
        number = self._taken_out(path)
        waiting = [] if number is None else [number]
        while waiting:
            number = waiting.pop()
            directory = self._watched.pop(number, None)
            if directory is not None:
                self._library.inotify_rm_watch(self.fd, number)
                waiting += directory.below.values()
