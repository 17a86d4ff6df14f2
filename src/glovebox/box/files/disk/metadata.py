"""What is at a path, and the entries of directories in pages. Everything here blocks."""

from __future__ import annotations

import base64
import binascii
import heapq
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from glovebox.box.files.disk.path_errors import shown
from glovebox.errors import BadPath
from glovebox.protocol.file_info import FileInfo, FileKind, FileList

_KINDS: dict[int, FileKind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
}


def kind_of(status: os.stat_result) -> FileKind:
    """What kind of thing was looked at."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "file")


def etag_of(status: os.stat_result) -> str:
    """A strong validator: another file, another content and another mode give another one."""
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return '"' + "-".join(f"{number:x}" for number in numbers) + '"'


class Accounts:
    """The names of users and groups, each looked up once."""

    def __init__(self) -> None:
        self._users: dict[int, str | None] = {}
        self._groups: dict[int, str | None] = {}

    def user(self, number: int) -> str | None:
        import pwd

        return _remembered(self._users, pwd.getpwuid, number)

    def group(self, number: int) -> str | None:
        import grp

        return _remembered(self._groups, grp.getgrgid, number)


def account_name(account: Callable[[int], Sequence[Any]], number: int) -> str | None:
    """The name that an account of the system has, if there is one."""
    try:
        return str(account(number)[0])
    except KeyError:
        return None


def _remembered(
    names: dict[int, str | None], account: Callable[[int], Sequence[Any]], number: int
) -> str | None:
    if number not in names:
        names[number] = account_name(account, number)
    return names[number]


def file_info(path: str, *, follow: bool = False, accounts: Accounts | None = None) -> FileInfo:
    """What is at a path; of a link itself, unless it is followed.

    Raises:
        OSError: nothing is there, or it may not be looked at.
    """
    status = os.stat(path, follow_symlinks=follow)
    target = shown(os.readlink(path)) if stat.S_ISLNK(status.st_mode) else None
    return described(path, status, target, accounts or Accounts())


def described(path: str, status: os.stat_result, target: str | None, accounts: Accounts) -> FileInfo:
    """The same of what has been looked at."""
    kind, name = kind_of(status), shown(path)
    return FileInfo(
        path=name,
        name=os.path.basename(name) or name,
        kind=kind,
        size=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        owner=accounts.user(status.st_uid),
        group=accounts.group(status.st_gid),
        uid=status.st_uid,
        gid=status.st_gid,
        modified=status.st_mtime,
        etag=etag_of(status) if kind == "file" else None,
        target=target,
    )


def list_page(root: str, *, depth: int, limit: int, after: str) -> FileList:
    """Entries below a directory, in the order of the bytes of their names, each directory before its own.

    Of a directory no more names are held than a page has. Links are not followed, apart from `root`.

    Raises:
        OSError: `root` may not be listed.
        BadPath: `after` does not come from an earlier page.
    """
    walk = _Walk(root, depth, limit + 1)
    names = list(walk.below(os.fsencode(root), _decoded(after)))
    accounts = Accounts()
    entries = []
    for name in names[:limit]:
        try:
            entries.append(file_info(os.path.join(root, os.fsdecode(name)), accounts=accounts))
        except FileNotFoundError:
            continue  # removed meanwhile
    more = base64.urlsafe_b64encode(names[limit - 1]).decode() if len(names) > limit else None
    return FileList(entries=entries, next=more, skipped=walk.skipped)


def _decoded(cursor: str) -> list[bytes]:
    try:
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).split(b"/") if cursor else []
    except (binascii.Error, UnicodeEncodeError):
        raise BadPath("`after` is not the `next` of an earlier page.") from None


class _Walk:
    """Finds the next names of a tree, as paths from its root."""

    def __init__(self, root: str, depth: int, most: int) -> None:
        self._root = os.fsencode(root)
        self._depth = depth
        self._left = most
        self.skipped = 0

    def below(
        self, directory: bytes, after: list[bytes], prefix: bytes = b"", level: int = 1
    ) -> Iterator[bytes]:
        """The names in a directory that come after those of a page, which ended at the path `after`."""
        first = after[0] if after else b""
        for name, is_directory in self._smallest(directory, first, level):
            path = prefix + name
            if name != first:
                if not self._left:
                    return
                self._left -= 1
                yield path
            if is_directory and level < self._depth:
                rest = after[1:] if name == first else []
                yield from self.below(os.path.join(directory, name), rest, path + b"/", level + 1)

    def _smallest(self, directory: bytes, first: bytes, level: int) -> list[tuple[bytes, bool]]:
        try:
            with os.scandir(directory) as scan:
                found = (
                    (entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan if entry.name >= first
                )
                return heapq.nsmallest(self._left + 1, found)
        except OSError:
            if level == 1:
                raise
            self.skipped += 1
            return []
