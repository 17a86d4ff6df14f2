"""Files and directories, as the endpoints below `/files` describe them, and the bodies of their requests."""

from __future__ import annotations

from typing import Literal

from glovebox.protocol.base import Message

FileKind = Literal["file", "directory", "link", "fifo", "socket", "device"]
ChangeKind = Literal["created", "modified", "deleted", "moved"]
ArchiveFormat = Literal["tar", "zip"]


class FileInfo(Message):
    """What is at a path. Bytes of a name that are not UTF-8 are shown as U+FFFD."""

    path: str
    name: str
    kind: FileKind
    size: int
    #: Permission bits: 420 is 0644.
    mode: int
    #: The name of the user, null if it has none.
    owner: str | None
    group: str | None
    uid: int
    gid: int
    #: When the content last changed, in seconds since 1970.
    modified: float
    #: Changes with the file; for `If-Match` and `If-None-Match`. Only files have one.
    etag: str | None = None
    #: Where a link leads, as written in it.
    target: str | None = None


class FileList(Message):
    """A page of a directory's entries; ask for the next with `after` set to `next`."""

    entries: list[FileInfo]
    #: Null on the last page.
    next: str | None = None
    #: Directories of this page whose entries may not be read.
    skipped: int = 0


class PathExists(Message):
    """Whether something is at a path, and what; links are followed."""

    exists: bool
    kind: FileKind | None = None


class Mkdir(Message, forbid_unknown_fields=True):
    """A directory to make. It may be there already."""

    path: str
    #: Make those above it, too.
    parents: bool = False
    #: Permission bits of the new directory; by default the umask decides.
    mode: int | None = None


class Remove(Message, forbid_unknown_fields=True):
    """A path to remove: a file, a link itself, or a directory."""

    path: str
    #: A directory with everything in it.
    recursive: bool = False
    missing_ok: bool = False


class Removed(Message):
    """How many entries were removed."""

    removed: int


class Rename(Message, forbid_unknown_fields=True):
    """A path to move; `target` is its new path, not a directory to put it into."""

    source: str
    target: str
    #: Replace a file by a file, or an empty directory by a directory.
    overwrite: bool = False


class Chmod(Message, forbid_unknown_fields=True):
    """New permission bits or a new owner (`user`, `user:group` or `:group`; names or numbers)."""

    path: str
    mode: int | None = None
    owner: str = ""
    #: A directory with everything in it; links are left alone.
    recursive: bool = False


class Unpacked(Message):
    """How much of an archive was unpacked into a directory."""

    path: str
    files: int
    #: Entries that must not be unpacked: links that lead outside, names with `..`, pipes, devices.
    skipped: int


class WatchReady(Message):
    """A watch has begun."""

    path: str
    #: How many directories are watched.
    directories: int


class FileChange(Message):
    """Something happened to a path; `moved` has the new path, and `source` where it was."""

    path: str
    change: ChangeKind
    kind: FileKind | None = None
    source: str | None = None
