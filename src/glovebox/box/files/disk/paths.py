"""Moves, deletes and lists paths. Everything here blocks.

Within a file system a move is one step of the system, which also refuses to replace anything when asked to
(`renameat2`, or a hard link where that is missing). Only a directory on a system without `renameat2` is
checked for first and then renamed. Between file systems the copy is made out of sight, beside its
destination, and appears there whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable

from glovebox.box.files.disk.atomic import NOREPLACE, renameat2
from glovebox.box.files.disk.path_errors import FileActionError, no_directory, refusal, shell_inside, shown
from glovebox.box.machine import Tree, TreeEntry

#: Errors of systems and file systems that do not know a way of moving.
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK})
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: How many levels of a tree are listed.
DEPTH = 2
#: More entries than this are never shown: each takes some characters.
MAX_ENTRIES = 16_000


def move(source: str, target: str, *, overwrite: bool) -> None:
    """Move a path.

    Raises:
        OSError: it could not be done, and nothing has changed.
        FileActionError: the target has no directory, or the source could not be copied or removed.
    """
    parent = os.path.realpath(os.path.dirname(target))
    try:
        os.stat(f"{parent}/.")
    except FileNotFoundError:
        raise no_directory(parent) from None
    except OSError as error:
        raise refusal(error, parent) from error
    status = os.lstat(source)
    rename: Callable[[str, str], None] = _replace if overwrite else _rename_exclusively
    try:
        rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if not overwrite and os.path.lexists(target):  # sooner than after a long copy
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
        _move_across(source, target, status, rename)


def _replace(source: str, target: str) -> None:
    os.rename(source, target)
    # Of two names of the same file a rename leaves both.
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.lstat(source), os.lstat(target)):
            os.unlink(source)


def _rename_exclusively(source: str, target: str) -> None:
    """Rename, and fail when the target exists."""
    rename = renameat2()
    if rename is not None:
        try:
            return rename(source, target, NOREPLACE)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    if not os.path.isdir(source) or os.path.islink(source):
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return os.unlink(source)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    return os.rename(source, target)


def _move_across(
    source: str, target: str, status: os.stat_result, rename: Callable[[str, str], None]
) -> None:
    """Copy beside the target, rename, then remove the source."""
    parent, name = os.path.split(target)
    hidden = tempfile.mkdtemp(prefix=".move-", dir=parent)
    try:
        copy = os.path.join(hidden, name)
        try:
            _copy(source, copy)
        except RecursionError as error:
            raise FileActionError("too_deep", f"{shown(source)} is nested too deeply. Use mv.") from error
        rename(copy, target)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    try:
        if stat.S_ISDIR(status.st_mode):
            remove_tree(source)
        else:
            os.unlink(source)
    except (OSError, FileActionError) as error:
        reason = refusal(error, source) if isinstance(error, OSError) else error
        raise FileActionError(
            reason.error_id,
            f"{shown(source)} was copied to {shown(target)}, but could not be deleted then: {reason.message}",
        ) from error


def _copy(source: str, target: str) -> None:
    """Copy anything but sockets and devices, with its owner (where that is allowed), mode and times."""
    status = os.lstat(source)
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        os.mkdir(target, 0o700)
        with os.scandir(source) as scan:
            names = [entry.name for entry in scan]
        for name in names:
            _copy(os.path.join(source, name), os.path.join(target, name))
    elif stat.S_ISREG(mode):
        shutil.copyfile(source, target, follow_symlinks=False)
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISFIFO(mode):
        os.mkfifo(target, 0o600)
    else:
        raise FileActionError(
            "not_a_file", f"{shown(source)} is a socket or device, which cannot change file systems."
        )
    with contextlib.suppress(PermissionError):
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=False)


def delete(path: str, cwd: str | None, *, recursive: bool) -> int:
    """Delete a file, a link, or a directory that is not above `cwd`; returns how many entries that were.

    Raises:
        FileActionError: it is missing, protected, not empty, or cannot be deleted.
    """
    if path == "/":
        raise FileActionError("protected_path", "The root directory cannot be deleted. Give a path below it.")
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return 1
        real = os.path.realpath(path)
        if cwd is not None and os.path.commonpath([real, os.path.realpath(cwd)]) == real:
            raise shell_inside(path)
        if recursive:
            return remove_tree(path)
        os.rmdir(path)
    except OSError as error:
        raise refusal(error, path) from error
    return 1


def remove_tree(path: str) -> int:
    """Remove a directory and all that is in it, following no link; returns how many entries that were.

    Raises:
        FileActionError: something in it cannot be removed; what was removed before that stays so.
    """
    parent, name = os.path.split(path)
    tree = _Tree(path)
    try:
        holder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            tree.remove(name, holder)
        finally:
            os.close(holder)
    except OSError as error:
        failed = refusal(error, tree.at)
        done = f" {tree.removed} entries were deleted before that." if tree.removed else ""
        raise FileActionError(failed.error_id, failed.message + done) from error
    except RecursionError as error:
        raise FileActionError(
            "too_deep", f"{shown(path)} is nested too deeply. {tree.removed} entries were deleted; use rm -r."
        ) from error
    return tree.removed


class _Tree:
    """Removes a tree by file descriptors, so that no directory can be swapped for a link on the way."""

    def __init__(self, path: str) -> None:
        #: The entry that it removes at the moment, for errors.
        self.at = path
        self.removed = 0

    def remove(self, name: str, holder: int) -> None:
        """Remove the directory `name` of the open directory `holder`, and count what was removed."""
        here = self.at
        descriptor = os.open(name, _DIRECTORY_FLAGS, dir_fd=holder)
        try:
            with os.scandir(descriptor) as scan:
                entries = list(scan)
            for entry in entries:
                self.at = os.path.join(here, entry.name)
                try:
                    if entry.is_dir(follow_symlinks=False):
                        self.remove(entry.name, descriptor)
                    else:
                        os.unlink(entry.name, dir_fd=descriptor)
                        self.removed += 1
                except FileNotFoundError:
                    pass  # someone else was faster
            self.at = here
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=holder)
        self.removed += 1


def list_tree(root: str) -> Tree:
    """What is below `root` and not hidden, in the order of the paths' bytes; links are followed.

    Of more than `MAX_ENTRIES`, the first ones.
    """
    entries = [TreeEntry(root, True)]
    problems: list[str] = []
    hidden = _descend((root,), entries, problems)
    entries.sort(key=_order)
    return Tree([TreeEntry(shown(path), directory) for path, directory in entries], hidden, problems)


def _descend(line: tuple[str, ...], entries: list[TreeEntry], problems: list[str]) -> int:
    """Add what is in the last directory of `line`, which begins at the root; return how much was hidden."""
    directory = line[-1]
    hidden = 0
    try:
        with os.scandir(directory) as scan:
            for child in scan:
                if child.name.startswith("."):
                    hidden += 1
                else:
                    _add(child, line, entries, problems)
                if len(entries) > 2 * MAX_ENTRIES:
                    entries.sort(key=_order)
                    del entries[MAX_ENTRIES:]
    except OSError as error:
        problems.append(_problem(directory, error))
    return hidden


def _add(
    child: os.DirEntry[str], line: tuple[str, ...], entries: list[TreeEntry], problems: list[str]
) -> None:
    path = f"{line[-1].rstrip('/')}/{child.name}"
    try:
        is_directory = child.is_dir()
        ancestor = _ancestor(path, line) if is_directory and child.is_symlink() else None
    except OSError as error:
        problems.append(_problem(path, error))
        return
    entries.append(TreeEntry(path, is_directory))
    if ancestor is not None:
        problems.append(
            f"File system loop detected; ‘{shown(path)}’ is part of the same file system loop as "
            f"‘{shown(ancestor)}’."
        )
    elif is_directory and len(line) < DEPTH:
        _descend((*line, path), entries, problems)


def _order(entry: TreeEntry) -> bytes:
    return os.fsencode(entry.path)


def _ancestor(path: str, line: tuple[str, ...]) -> str | None:
    """The directory above that a link leads back to."""
    return next((directory for directory in line if os.path.samefile(directory, path)), None)


def _problem(path: str, error: OSError) -> str:
    return f"‘{shown(path)}’: {error.strerror}"
