"""The system call `openat2`, which restricts how a path is walked."""

from __future__ import annotations

import ctypes
import os

NO_MAGIC_LINKS, NO_SYMLINKS = 0x02, 0x04
#: Fail with EAGAIN rather than wait for a disk or a network.
CACHED = 0x20

_AT_FDCWD = -100
_NUMBER = 437  # on every machine but Alpha, where 437 is no call at all
_library = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    """Its argument."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_SIZE = ctypes.c_size_t(ctypes.sizeof(_How))
_CALL = ctypes.c_long(_NUMBER)


def openat2(path: str, flags: int, resolve: int) -> int:
    """A descriptor of what is at a path; relative ones start at the working directory.

    Raises:
        OSError: it cannot be opened; ENOSYS, EPERM or EINVAL where there is no such call.
        ValueError: there can be no such path.
    """
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    how = _How(flags, 0, resolve)
    opened: int = _library.syscall(_CALL, _AT_FDCWD, name, ctypes.byref(how), _SIZE)
    if opened < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem), path)
    return opened
