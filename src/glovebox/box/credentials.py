"""File access with the rights of the sandbox user, in a server that runs as root.

Linux keeps credentials per thread. A thread that has called `assume_user` opens, creates and looks up files
as that user: the kernel checks each step, links included, and root's right to override file modes is gone.
The rest of the server stays as it is. glibc's `setgroups` changes all threads, hence the call by number.
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd

#: `setgroups`, by machine; the others that Linux runs on use the generic number.
_SETGROUPS = {"x86_64": 116, "i686": 206, "armv7l": 206, "s390x": 206}
_GENERIC_SETGROUPS = 159


def assume_user(user_id: int) -> None:
    """Let the calling thread use files with the rights of another user from now on.

    Raises:
        OSError: this process may not do that.
    """
    library = ctypes.CDLL(None, use_errno=True)
    primary, groups = _groups(user_id)
    members = (ctypes.c_uint32 * len(groups))(*groups)
    number = _SETGROUPS.get(platform.machine(), _GENERIC_SETGROUPS)
    if library.syscall(ctypes.c_long(number), ctypes.c_size_t(len(groups)), members) != 0:
        problem = ctypes.get_errno()
        raise OSError(problem, f"the groups of user {user_id} cannot be assumed: {os.strerror(problem)}")
    # These two return the former id and never fail: asking again tells whether they took effect.
    library.setfsgid(primary)
    library.setfsuid(user_id)
    if library.setfsgid(-1) != primary or library.setfsuid(-1) != user_id:
        raise PermissionError(f"the rights of user {user_id} cannot be assumed")


def _groups(user_id: int) -> tuple[int, list[int]]:
    """The primary group and all groups of a user; one without an account has a group of its own number."""
    try:
        entry = pwd.getpwuid(user_id)
    except KeyError:
        return user_id, [user_id]
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)
