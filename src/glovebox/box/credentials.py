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

#: `setgroups`, `setresgid`, `setresuid`, by machine; the others that Linux runs on use the generic numbers.
_CALLS = {
    "x86_64": (116, 119, 117),
    "i686": (206, 210, 208),
    "armv7l": (206, 210, 208),
    "s390x": (206, 210, 208),
}
_GENERIC_CALLS = (159, 149, 147)


def assume_user(user_id: int) -> None:
    """Let the calling thread use files with the rights of another user from now on.

    Raises:
        OSError: this process may not do that.
    """
    library = ctypes.CDLL(None, use_errno=True)
    setgroups, setresgid, setresuid = _CALLS.get(platform.machine(), _GENERIC_CALLS)
    primary, groups = _groups(user_id)
    _call(library, setgroups, ctypes.c_size_t(len(groups)), (ctypes.c_uint32 * len(groups))(*groups))
    library.setfsgid(primary)
    library.setfsuid(user_id)
    # Both return the former id and never fail: asking again tells whether they took effect.
    if (library.setfsgid(-1), library.setfsuid(-1)) != (primary, user_id):
        # gVisor has no such ids. The effective ones serve too, though signals are then the user's as well.
        _call(library, setresgid, *map(ctypes.c_int, (-1, primary, -1)))
        _call(library, setresuid, *map(ctypes.c_int, (-1, user_id, -1)))


def _call(library: ctypes.CDLL, number: int, *arguments: object) -> None:
    if library.syscall(ctypes.c_long(number), *arguments) != 0:
        problem = ctypes.get_errno()
        raise OSError(problem, f"the rights of the sandbox user cannot be assumed: {os.strerror(problem)}")


def _groups(user_id: int) -> tuple[int, list[int]]:
    """The primary group and all groups of a user; one without an account has a group of its own number."""
    try:
        entry = pwd.getpwuid(user_id)
    except KeyError:
        return user_id, [user_id]
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)
