"""Looks at paths and makes directories. Everything here blocks."""

from __future__ import annotations

import os
import stat
import time

from glovebox.box.files.failures import Refusal, refusal, shown
from glovebox.protocol.files import FileType, MkdirObservation, StatObservation

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
            raise Refusal(
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
                raise Refusal(
                    "not_found", f"{shown(parent)} does not exist. Make it first, or set parents to true."
                ) from error
            missing.append(parent)
        except FileExistsError as error:
            if not os.path.isdir(missing[-1]):
                raise Refusal(
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
