"""Moves paths. Everything here blocks.

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

from glovebox.box.files.disk.delete import remove_tree
from glovebox.box.files.disk.path_errors import FileActionError, refusal, shown
from glovebox.box.files.disk.renameat2 import NOREPLACE, renameat2
from glovebox.protocol.files import MoveObservation

#: What systems and file systems say that do not know a way of moving.
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK})


def move(source: str, destination: str, *, into_directory: bool, overwrite: bool) -> MoveObservation:
    """Move a path; `into_directory` tells that the destination must be a directory (a slash at its end).

    Raises:
        Refusal: the source is missing, the destination exists, or it cannot be done.
    """
    try:
        status = os.lstat(source)
    except OSError as error:
        raise refusal(error, source) from error
    is_directory = stat.S_ISDIR(status.st_mode)
    target = destination
    if os.path.isdir(destination):
        target = os.path.join(destination, os.path.basename(source))
    elif into_directory and not is_directory:
        raise FileActionError(
            "not_found", f"The directory {shown(destination)} does not exist. Make it with mkdir first."
        )
    _check_places(source, target, is_directory)
    try:
        _move(source, target, status, overwrite)
    except OSError as error:
        raise _reason(error, source, target, overwrite) from error
    return MoveObservation(
        content=f"Moved {shown(source)} to {shown(target)}.", source=shown(source), destination=shown(target)
    )


def _check_places(source: str, target: str, is_directory: bool) -> None:
    if source == "/":
        raise FileActionError("protected_path", "The root directory cannot be moved. Give a path below it.")
    holder = os.path.realpath(os.path.dirname(target))
    if (os.path.realpath(os.path.dirname(source)), os.path.basename(source)) == (
        holder,
        os.path.basename(target),
    ):
        raise FileActionError(
            "invalid_argument", f"{shown(source)} and the destination are the same. Choose another."
        )
    real = os.path.realpath(source)
    if is_directory and os.path.commonpath([real, holder]) == real:
        raise FileActionError(
            "invalid_argument", f"{shown(source)} cannot be moved into itself. Choose another destination."
        )
    try:
        os.stat(f"{holder}/.")
    except FileNotFoundError:
        raise FileActionError(
            "not_found", f"The directory {shown(holder)} does not exist. Make it with mkdir first."
        ) from None
    except OSError as error:
        raise refusal(error, holder) from error


def _move(source: str, target: str, status: os.stat_result, overwrite: bool) -> None:
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


def _reason(error: OSError, source: str, target: str, overwrite: bool) -> FileActionError:
    """What a failed move means, and about which of the two paths."""
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
