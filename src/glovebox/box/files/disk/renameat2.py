"""The system call that renames in ways the standard library does not offer, where there is one (Linux)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

#: Fail when the target exists.
NOREPLACE = 1
#: Let the two paths change places.
EXCHANGE = 2

_AT_FDCWD = -100


@functools.cache
def renameat2() -> Callable[[str, str, int], None] | None:
    """`rename(source, target, flag)`; None where the C library does not have it."""
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]

    def rename(source: str, target: str, flag: int) -> None:
        if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flag):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), source, None, target)

    return rename
