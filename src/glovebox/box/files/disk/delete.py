"""Deletes paths. Everything here blocks."""

from __future__ import annotations

import os
import stat
import time

from glovebox.box.files.disk.path_errors import FileActionError, refusal, shown
from glovebox.protocol.files import DeleteObservation, FileType, MkdirObservation, StatObservation

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete(path: str, cwd: str, *, recursive: bool) -> DeleteObservation:
    """Delete a file, a link, or a directory.

    Raises:
        Refusal: it is missing, protected, not empty, or cannot be deleted.
    """
    if path == "/":
        raise FileActionError("protected_path", "The root directory cannot be deleted. Give a path below it.")
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
        raise FileActionError(
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
        raise FileActionError(failed.error_id, failed.message + done) from error
    except RecursionError as error:
        raise FileActionError(
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


_TYPES: dict[int, FileType] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block_device",
    stat.S_IFCHR: "character_device",
}


def describe(path: str, *, follow_symlinks: bool) -> StatObservation:
    """What a path is.

    Raises:
        Refusal: it cannot be looked at.
    """
    try:
        status = os.stat(path, follow_symlinks=follow_symlinks)
        target = shown(os.readlink(path)) if stat.S_ISLNK(status.st_mode) else None
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise FileActionError(
                "not_found",
                f"{shown(path)} is a link to {shown(os.readlink(path))}, which does not exist. "
                "Set follow_symlinks to false to look at the link.",
            ) from error
        raise refusal(error, path) from error
    except OSError as error:
        raise refusal(error, path) from error
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), "file")
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    owner, group = _user_name(status.st_uid), _group_name(status.st_gid)
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(status.st_mtime))
    leads = f" to {target}" if target is not None else ""
    return StatObservation(
        content=f"{shown(path)}: {kind.replace('_', ' ')}{leads}, {status.st_size} bytes, mode {mode}, "
        f"owner {owner or status.st_uid}:{group or status.st_gid}, modified {when}",
        path=shown(path),
        type=kind,
        size=status.st_size,
        mode=mode,
        uid=status.st_uid,
        gid=status.st_gid,
        owner=owner,
        group=group,
        modified=status.st_mtime,
        target=target,
    )


def _user_name(uid: int) -> str | None:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _group_name(gid: int) -> str | None:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None


def make_directory(path: str, *, parents: bool) -> MkdirObservation:
    """Make a directory unless it is there.

    Raises:
        Refusal: something else is there, or it cannot be made.
    """
    created = _made(path, parents)
    content = (
        f"Made the directory {shown(path)}." if created else f"The directory {shown(path)} was there already."
    )
    return MkdirObservation(content=content, path=shown(path), created=created)


def _made(path: str, parents: bool) -> bool:
    # Upwards to the first directory that can be made, then down again; no check can be outrun.
    missing = [path]
    while missing:
        try:
            os.mkdir(missing[-1])
        except FileNotFoundError as error:
            parent = os.path.dirname(missing[-1])
            if not parents or parent == missing[-1]:
                raise FileActionError(
                    "not_found", f"{shown(parent)} does not exist. Make it first, or set parents to true."
                ) from error
            missing.append(parent)
        except FileExistsError as error:
            if not os.path.isdir(missing[-1]):
                raise FileActionError(
                    "already_exists",
                    f"{shown(missing[-1])} exists and is not a directory. Choose another path.",
                ) from error
            if missing.pop() == path:
                return False
        except OSError as error:
            raise refusal(error, missing[-1]) from error
        else:
            missing.pop()
    return True
