"""Whether a user may enter a directory, found out by root without becoming that user.

Becoming that user for a moment would change who may look at this process. The holder loads this module: hence
no imports beyond these.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_OPEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_enterable(path: str, uid: int, groups: Collection[int]) -> int:
    """A descriptor of a directory that a user in these groups can certainly enter; -1 if that is in doubt.

    Each directory on the way is opened first and looked at then, so that none can be replaced in between.
    Links, access control lists and what is not there are doubts.
    """
    if not path.startswith("/"):
        return -1
    here = os.open("/", _OPEN)
    for name in path.split("/"):
        try:
            if not _lets_in(here, uid, groups) or name == "..":
                raise PermissionError
            below = os.open(name or ".", _OPEN, dir_fd=here)
        except OSError:
            os.close(here)
            return -1
        os.close(here)
        here = below
    if _lets_in(here, uid, groups):
        return here
    os.close(here)
    return -1


def _lets_in(directory: int, uid: int, groups: Collection[int]) -> bool:
    seen = os.fstat(directory)
    bit = 0o100 if seen.st_uid == uid else 0o010 if seen.st_gid in groups else 0o001
    return bool(seen.st_mode & bit) and not _has_access_list(directory)


def _has_access_list(directory: int) -> bool:
    try:
        names = os.listxattr(f"/proc/self/fd/{directory}")
    except OSError as error:
        return error.errno != errno.ENOTSUP
    return any(name.startswith("system.") for name in names)
