"""Walks a tree of files: what of it goes into an archive."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from glovebox.errors import TransferError

_Identity = tuple[int, int]


class TreeItem(NamedTuple):
    """A regular file or a directory; or a link, if the walk keeps links."""

    path: str
    #: Its path from where the walk began; that of a directory ends with a slash.
    name: str
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def is_executable(self) -> bool:
        return stat.S_ISREG(self.status.st_mode) and bool(self.status.st_mode & stat.S_IXUSR)

    @property
    def size(self) -> int:
        """The length of the content that an archive has of it."""
        return self.status.st_size if stat.S_ISREG(self.status.st_mode) else 0


def refuse(entry: os.DirEntry[str], status: os.stat_result) -> str:
    """The reason against every link: by default, a walk follows none."""
    return "a link"


def fail(directory: str, error: OSError) -> None:
    """Give up when a directory cannot be listed."""
    raise TransferError(f"{directory} cannot be read: {error.strerror or error}") from error


def walk_tree(
    root: str,
    prefix: str = "",
    *,
    refuse_link: Callable[[os.DirEntry[str], os.stat_result], str] = refuse,
    left_out: Callable[[str, str], None] = lambda path, reason: None,
    unreadable: Callable[[str, OSError], None] = fail,
    keep_links: bool = False,
) -> Iterator[TreeItem]:
    """The files and directories below a directory: first the files, then directory by directory.

    A link counts as what it leads to unless `refuse_link` gives a reason against it; a directory is never
    entered below itself. With `keep_links`, a link is an item of its own. `left_out` is called with a path
    and the reason for anything else that is not in the tree, `unreadable` for directories that cannot be
    listed.

    Raises:
        TransferError: a directory cannot be listed, unless `unreadable` does something else.
    """
    status = os.stat(root)
    waiting: list[tuple[str, str, frozenset[_Identity]]] = [(root, prefix, frozenset({_identity(status)}))]
    while waiting:
        directory, name, above = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            unreadable(directory, error)
            continue
        below: list[TreeItem] = []
        for entry in listed:
            if keep_links and entry.is_symlink():
                yield TreeItem(entry.path, name + entry.name, entry.stat(follow_symlinks=False))
                continue
            item = _look_at(entry, name, refuse_link, left_out)
            if item is None:
                continue
            if not item.is_directory:
                yield item
            elif _identity(item.status) not in above:
                below.append(item)
        yield from below
        waiting += [(one.path, one.name, above | {_identity(one.status)}) for one in reversed(below)]


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


def _look_at(
    entry: os.DirEntry[str],
    prefix: str,
    refuse_link: Callable[[os.DirEntry[str], os.stat_result], str],
    left_out: Callable[[str, str], None],
) -> TreeItem | None:
    reason = ""
    try:
        status = entry.stat()
    except OSError as error:  # gone, a link to nothing, or links that lead in a circle
        left_out(entry.path, error.strerror or str(error))
        return None
    is_directory = stat.S_ISDIR(status.st_mode)
    if not is_directory and not stat.S_ISREG(status.st_mode):
        reason = "neither a file nor a directory"
    elif entry.is_symlink():
        reason = refuse_link(entry, status)
    if reason:
        left_out(entry.path, reason)
        return None
    return TreeItem(entry.path, f"{prefix}{entry.name}/" if is_directory else prefix + entry.name, status)
