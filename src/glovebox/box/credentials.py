"""File access with the rights of the sandbox user, in a server that runs as root.

Linux keeps credentials per thread. A thread that has called `assume_user` opens, creates and looks up files
as that user: the kernel checks each step, links included, and root's right to override file modes is gone.
The rest of the server stays as it is. glibc's functions change all threads, hence the calls by number.

The thread must not start processes: they would have the server's rights.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Identity(NamedTuple):
    """A user and the groups it is in."""

    user: int
    group: int
    groups: tuple[int, ...]


class _Numbers(NamedTuple):
    """System calls of a machine."""

    setgroups: int
    setresgid: int
    setresuid: int


_NUMBERS_32_BITS = _Numbers(206, 210, 208)
_NUMBERS = {
    "x86_64": _Numbers(116, 119, 117),
    "ppc64le": _Numbers(81, 169, 164),
    "s390x": _NUMBERS_32_BITS,
}
#: Of all other machines that Linux runs on.
_GENERIC_NUMBERS = _Numbers(159, 149, 147)

#: Such a thread can still change its user (back), and end processes. The other capabilities are dropped: some
#: bypass the modes of files, such as that to read any process through /proc.
_KEPT_CAPABILITIES = 1 << 5 | 1 << 6 | 1 << 7
_CAPABILITY_VERSION = 0x20080522


class _Thread(threading.local):
    #: Makes the calling thread use files as another user; set by `assume_user`.
    become: Callable[[int], None] | None = None
    user = 0


_thread = _Thread()
_UNCHANGED = contextlib.nullcontext()


def assume_user(user_id: int) -> None:
    """Let the calling thread use files with the rights of another user from now on.

    Raises:
        OSError: this process may not do that.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    numbers = _numbers()
    identity = identity_of(user_id)
    members = (ctypes.c_uint32 * len(identity.groups))(*identity.groups)
    _call(library, numbers.setgroups, ctypes.c_size_t(len(members)), members)
    if _set(library.setfsgid, identity.group) and _set(library.setfsuid, user_id):
        _drop_capabilities(library)
        _thread.become = functools.partial(_become, library)
    else:  # gVisor has no ids of the file system; the effective ones do the same
        _call(library, numbers.setresgid, -1, identity.group, -1)
        _call(library, numbers.setresuid, -1, user_id, -1)
        _thread.become = lambda user: _call(library, numbers.setresuid, -1, user, -1)
    _thread.user = user_id


def identity_of(user_id: int) -> Identity:
    """A user with its groups; one without an account has a group of its own number."""
    import pwd

    try:
        entry = pwd.getpwuid(user_id)
    except KeyError:
        return Identity(user_id, user_id, (user_id,))
    return Identity(user_id, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def own_rights() -> contextlib.AbstractContextManager[None]:
    """The server's own rights for a moment, in a thread that has assumed a user; else nothing changes.

    For files that are not the user's: modules that are imported late may be readable by root only.
    """
    become = _thread.become
    return _UNCHANGED if become is None else _as_server(become, _thread.user)


@contextlib.contextmanager
def _as_server(become: Callable[[int], None], user: int) -> Iterator[None]:
    become(0)
    try:
        yield
    finally:
        become(user)


def _numbers() -> _Numbers:
    if sys.maxsize < 1 << 32:
        return _NUMBERS_32_BITS
    return _NUMBERS.get(os.uname().machine, _GENERIC_NUMBERS)


def _set(change: Callable[[int], int], value: int) -> bool:
    """Set an id with a function that returns the former one and never fails; returns whether it worked."""
    change(value)
    return change(-1) == value


def _become(library: Any, user: int) -> None:
    if not _set(library.setfsuid, user):
        raise PermissionError(f"the rights of user {user} cannot be assumed")


def _call(library: Any, number: int, *arguments: Any) -> None:
    import ctypes

    if library.syscall(ctypes.c_long(number), *arguments) != 0:
        problem = ctypes.get_errno()
        raise OSError(problem, f"the rights of the sandbox user cannot be assumed: {os.strerror(problem)}")


def _drop_capabilities(library: Any) -> None:
    """Keep few of root's capabilities in effect; all stay permitted, for `own_rights`."""
    import ctypes

    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same for higher numbers
    if library.capget(header, sets) == 0:
        sets[0] &= _KEPT_CAPABILITIES
        sets[3] = 0
        if library.capset(header, sets) == 0:
            return
    problem = ctypes.get_errno()
    raise OSError(problem, f"the capabilities of root cannot be dropped: {os.strerror(problem)}")
