"""Deletes paths. Everything here blocks."""

from __future__ import annotations

import os
import stat

from glovebox.box.files.failures import Refusal, refusal, shown
from glovebox.protocol.files import DeleteObservation

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete(path: str, cwd: str, *, recursive: bool) -> DeleteObservation:
    """Delete a file, a link, or a directory.

    Raises:
        Refusal: it is missing, protected, not empty, or cannot be deleted.
    """
    if path == "/":
        raise Refusal("protected_path", "The root directory cannot be deleted. Give a path below it.")
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            removed = 1
        else:
            _check_not_inside(path, cwd)
            removed = _remove_directory(path, recursive)
    except OSError as error:
        raise refusal(error, path) from error
    things = f" and the {removed - 1} entries in it" if removed > 1 else ""
    return DeleteObservation(content=f"Deleted {shown(path)}{things}.", path=shown(path), removed=removed)


def _check_not_inside(path: str, cwd: str) -> None:
    """Keep the floor under the shell."""
    real = os.path.realpath(path)
    if os.path.commonpath([real, os.path.realpath(cwd)]) == real:
        raise Refusal(
            "protected_path",
            f"The shell is in {shown(path)}. Change to another directory first, or delete what is in it.",
        )


def _remove_directory(path: str, recursive: bool) -> int:
    if recursive:
        return remove_tree(path)
    os.rmdir(path)
    return 1


def remove_tree(path: str) -> int:
    """Remove a directory and all that is in it, following no link; tell how many entries went.

    Raises:
        Refusal: something in it cannot be removed; what was removed before that stays so.
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
        raise Refusal(failed.error_id, failed.message + done) from error
    except RecursionError as error:
        raise Refusal(
            "too_deep", f"{shown(path)} is nested too deeply. {tree.removed} entries were deleted; use rm -r."
        ) from error
    return tree.removed


class _Tree:
    """Removes a tree by file descriptors, so that no directory can be swapped for a link on the way."""

    def __init__(self, path: str) -> None:
        #: Where it is at work, for saying what went wrong.
        self.at = path
        self.removed = 0

    def remove(self, name: str, holder: int) -> None:
        """Remove the directory `name` of the open directory `holder`, and count what went."""
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
