"""Opens a file by its path without following a link anywhere on the way.

Linux has `openat2` for this. Where it is missing or forbidden (before 5.6, or under some seccomp filters),
the path is walked one directory at a time. Either way the descriptor is what is checked and used, never the
path a second time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat

from glovebox.linux.openat2 import NO_MAGIC_LINKS, NO_SYMLINKS, openat2

#: The path is walked if `openat2` fails like this.
_NOT_AVAILABLE = (errno.ENOSYS, errno.EPERM)
#: File systems in which files are made up by the kernel when they are read.
_KERNEL_FILE_SYSTEMS = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x1CD1,  # devpts
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x62656570,  # configfs
        0x6165676C,  # pstore
        0xDE5E81E4,  # efivarfs
        0xCAFE4A11,  # bpf
        0x6E736673,  # nsfs
        0xF97CFF8C,  # selinuxfs
        0x19800202,  # mqueue
    }
)
#: The first field of `struct statfs`, the kind of file system; the structure is smaller than this.
_KIND = ctypes.c_uint if platform.machine() == "s390x" else ctypes.c_long
_STATFS_SIZE = 512

_library = ctypes.CDLL(None, use_errno=True)


def open_without_links(path: str, flags: int) -> int:
    """A descriptor of what is at an absolute path. Blocks.

    Raises:
        OSError: it cannot be opened; ELOOP if a part of the path is a link.
        ValueError: there can be no such path.
    """
    flags |= os.O_CLOEXEC
    try:
        return openat2(path, flags, NO_MAGIC_LINKS | NO_SYMLINKS)
    except OSError as error:
        if error.errno not in _NOT_AVAILABLE:
            raise
    return walk(path, flags)


def walk(path: str, flags: int) -> int:
    """The same without `openat2`: each part of the path is opened in the directory before it.

    Raises:
        OSError: it cannot be opened; ELOOP if a part of the path is a link.
        ValueError: there can be no such path.
    """
    *directories, last = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    only_directory = os.O_DIRECTORY if path.endswith(("/", "/.")) else 0
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in directories:
        here = _enter(here, part, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return _enter(here, last, flags | only_directory)


def _enter(directory: int, name: str, flags: int) -> int:
    """A part of a path, opened in a directory, which is closed."""
    try:
        # With O_DIRECTORY the error is the same for a link and for anything else that is no directory.
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        opened = os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)
    if stat.S_ISLNK(os.fstat(opened).st_mode):  # it became one meanwhile, and O_PATH opens links themselves
        os.close(opened)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return opened


def is_of_kernel(descriptor: int) -> bool:
    """Whether a file is in /proc, /sys, /dev or their like, wherever these are mounted. Blocks."""
    status = ctypes.create_string_buffer(_STATFS_SIZE)
    if _library.fstatfs(descriptor, status) != 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
    if _KIND.from_buffer(status).value & 0xFFFFFFFF in _KERNEL_FILE_SYSTEMS:
        return True
    # What is mounted at /dev is of an ordinary kind, and in small containers nothing is.
    return os.path.ismount("/dev") and os.fstat(descriptor).st_dev == os.stat("/dev").st_dev
