"""Paths as actions name them, and the errors that agents get about them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from glovebox.errors import ActionError

if TYPE_CHECKING:  # the editor is also used in kernels, whose Python need not have what messages are made of
    from glovebox.protocol.observations import ErrorObservation


class FileActionError(ActionError):
    """A file action that is answered with an error observation, not with a failure of the request."""

    def __init__(self, error_id: str, content: str) -> None:
        super().__init__(content)
        self.error_id = error_id

    def observation(self) -> ErrorObservation:
        from glovebox.protocol.observations import ErrorObservation

        return ErrorObservation(content=self.message, error_id=self.error_id)


class ChangedMeanwhile(FileActionError):
    """The file is not as it was read: read it and make the change again."""


_SENTENCES: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("not_found", "{path} does not exist. Check the path, or find it with glob."),
    errno.EEXIST: (
        "already_exists",
        "{path} already exists. Choose another path, or overwrite or delete it.",
    ),
    errno.ENOTDIR: (
        "not_a_directory",
        "A part of {path} that should be a directory is not one. Check the path.",
    ),
    errno.EISDIR: ("is_a_directory", "{path} is a directory. Give the path of a file."),
    errno.EACCES: (
        "permission_denied",
        "Permission denied for {path}. Choose another path or change its mode.",
    ),
    errno.EPERM: ("permission_denied", "The system does not permit this for {path}. Choose another path."),
    errno.ENOTEMPTY: (
        "not_empty",
        "{path} is a directory that is not empty. Set recursive to delete what is in it.",
    ),
    errno.ENOSPC: ("no_space", "There is no space left on the device of {path}. Delete something first."),
    errno.EDQUOT: ("no_space", "The disk quota for {path} is used up. Delete something first."),
    errno.EROFS: ("read_only", "{path} is on a read-only file system. Choose another path."),
    errno.ELOOP: (
        "symlink_loop",
        "The symbolic links of {path} lead in a circle. Delete or change one of them.",
    ),
    errno.ENAMETOOLONG: ("name_too_long", "{path} is too long, or one of its names is. Shorten it."),
    errno.EBUSY: ("busy", "{path} is in use by the system, as a mount point for example. Unmount it first."),
    errno.ENXIO: (
        "not_a_file",
        "{path} is a socket, or a device that is not there. Give the path of a file.",
    ),
    errno.ETXTBSY: ("busy", "{path} is a program that is running. Stop it first."),
}


def refusal(error: OSError, path: str) -> FileActionError:
    """The answer to an error of the operating system about a path."""
    code, sentence = _SENTENCES.get(
        error.errno or 0,
        ("io_error", f"The system could not do this to {{path}}: {error.strerror or error}."),
    )
    return FileActionError(code, sentence.format(path=shown(path)))


def shown(path: str) -> str:
    """A path as text that can be sent: bytes that are no UTF-8 become the replacement character."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def too_large(path: str, size: int, most: int) -> FileActionError:
    """An answer would be longer than the limit."""
    return FileActionError(
        "too_large",
        f"File is too large: {path} would be answered with {max(size, most + 1):,} bytes, and at most "
        f"{most:,} are read at once. Read fewer lines, with start and end, use a command such as head, or "
        "download the file.",
    )


def no_directory(path: str) -> FileActionError:
    """The directory that something should go into is missing."""
    return FileActionError(
        "not_found", f"The directory {shown(path)} does not exist. Make it with mkdir first."
    )


def no_parent(path: str) -> FileActionError:
    """The parent of a new directory is missing."""
    return FileActionError(
        "not_found", f"{shown(path)} does not exist. Make it first, or set parents to true."
    )


def not_free(path: str) -> FileActionError:
    """Something that is no directory is where one should be made."""
    return FileActionError(
        "already_exists", f"{shown(path)} exists and is not a directory. Choose another path."
    )


def shell_inside(path: str) -> FileActionError:
    """The shell needs the directory."""
    return FileActionError(
        "protected_path",
        f"The shell is in {shown(path)}. Change to another directory first, or delete what is in it.",
    )


def half_pair() -> FileActionError:
    """The path cannot be encoded."""
    return FileActionError("invalid_argument", "The path has half of a surrogate pair. Correct it.")


def normal(path: str) -> str:
    """The path without `.` parts, doubled or trailing slashes; `..` stays, as links may make it matter."""
    if (
        "//" in path
        or "/./" in path
        or path.endswith(("/", "/."))
        or path.startswith("./")
        or path in ("", ".")
    ):
        return str(PurePosixPath(path))
    return path


def resolve(path: str, cwd: str) -> str:
    """The absolute path that the contract means by `path` when the shell is in `cwd`."""
    return normal(path) if path.startswith("/") else normal(f"{cwd.rstrip('/')}/{path}")


def resolved(directory: str, path: str, real: Callable[[str], str] = os.path.realpath) -> str:
    """The absolute path for a path that may be relative to `directory`, without `.` and `..`.

    A `..` behind a link leads where the system says, not where the text says. Blocks when there is one.

    Raises:
        FileActionError: it cannot be a path.
    """
    if not path:
        raise FileActionError(
            "invalid_argument", "The path is empty. Give a path, or . for the current directory."
        )
    if "\0" in path:
        raise FileActionError(
            "invalid_argument", "The path has a NUL character, which no path can have. Remove it."
        )
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise half_pair() from None
    absolute = os.path.join(directory, path)
    if ".." in absolute.split("/"):
        holder, name = os.path.split(absolute.rstrip("/"))
        absolute = real(absolute) if name in ("..", ".") else f"{real(holder)}/{name}"
    absolute = os.path.normpath(absolute)
    # POSIX lets two leading slashes mean something else; no system we run on makes use of that.
    return "/" + absolute.lstrip("/")


def in_range(name: str, value: int, least: int, most: int | None = None) -> None:
    """Check a number an action was given.

    Raises:
        FileActionError: it is out of range.
    """
    if value < least or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"from {least} to {most}"
        raise FileActionError("invalid_argument", f"{name} is {value}, but it must be {bounds}.")
