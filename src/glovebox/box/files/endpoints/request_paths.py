"""Paths of requests, and the errors that are answered about them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request

from glovebox.box.files.disk.path_errors import FileActionError, refusal, resolved
from glovebox.box.files.disk.replacement import Owner
from glovebox.box.threads import Threads
from glovebox.errors import (
    BadPath,
    FileBusy,
    FileError,
    FileExists,
    GloveboxError,
    IsADirectory,
    NoSpace,
    NoSuchFile,
    NotADirectory,
    NotAFile,
    NotEmpty,
    PermissionDenied,
    ProtectedPath,
    ReadOnly,
)
from glovebox.http.endpoints import Reply
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import ErrorBody

P = ParamSpec("P")
T = TypeVar("T")

#: The errors of these endpoints by the ids that file actions have for them.
_ERRORS: dict[str, type[FileError]] = {
    "not_found": NoSuchFile,
    "already_exists": FileExists,
    "not_a_directory": NotADirectory,
    "is_a_directory": IsADirectory,
    "not_a_file": NotAFile,
    "not_empty": NotEmpty,
    "permission_denied": PermissionDenied,
    "protected_path": ProtectedPath,
    "read_only": ReadOnly,
    "no_space": NoSpace,
    "busy": FileBusy,
    "symlink_loop": BadPath,
    "name_too_long": BadPath,
    "invalid_argument": BadPath,
}
#: The errors that these endpoints may answer.
REFUSALS = {
    403: Reply("The sandbox user may not do that, or the file system is read-only.", ErrorBody),
    404: Reply("Nothing is at the path, or its directory is missing.", ErrorBody),
    409: Reply("What is at the path is of another kind, in the way, or in use.", ErrorBody),
    422: Reply("A parameter, the body or a path is not of the right form.", ErrorBody),
    500: Reply("The system could not do it; `detail` has its words.", ErrorBody),
    507: Reply("The disk or the quota is full.", ErrorBody),
}


@contextlib.contextmanager
def refusals(path: str) -> Iterator[None]:
    """Turn errors of the system about a path, and those of file actions, into errors to be answered."""
    try:
        yield
    except GloveboxError as error:
        if not isinstance(error, FileActionError):
            raise
        raise _ERRORS.get(error.error_id, FileError)(error.message) from error
    except OSError as error:
        raise file_error(error, path) from error


def file_error(error: OSError, path: str) -> FileError:
    """The error to be answered for one of the system about a path."""
    known = refusal(error, path)
    return _ERRORS.get(known.error_id, FileError)(known.message)


class RequestPaths:
    """Where paths start, and the threads that use them. `home` is the sandbox user's."""

    def __init__(self, directory: str, home: Callable[[], str], threads: Threads) -> None:
        self._directory = directory
        self._home = functools.cache(home)
        self.threads = threads

    def absolute(self, path: str) -> str:
        """The path that a request means: `~` is the home, and relative paths start at the workspace. Blocks.

        Raises:
            BadPath: it cannot be a path.
        """
        if path == "~" or path.startswith("~/"):
            path = self._home() + path[1:]
        with refusals(path):
            return resolved(self._directory, path)

    async def run(self, path: str, call: Callable[[str], T]) -> T:
        """Call with the absolute path in a thread that has the rights of the sandbox user.

        Raises:
            FileError: the path cannot be one, or the system refused.
        """
        return await self.threads.run(self._call, path, call)

    def _call(self, path: str, call: Callable[[str], T]) -> T:
        absolute = self.absolute(path)
        with refusals(absolute):
            return call(absolute)


def query_path(request: Request, name: str = "path") -> str:
    """A path of the query.

    Raises:
        InvalidParameter: there is none.
        BadPath: it is not UTF-8.
    """
    path = request.query_params.get(name)
    if path is None:
        raise InvalidParameter("missing", ("query", name), "Field required", None)
    if "\ufffd" in path:  # stands for what could not be decoded, unless it was sent
        try:
            parse_qsl(request.scope["query_string"].decode("latin-1"), errors="strict")
        except UnicodeDecodeError:
            raise BadPath(
                "The path is not UTF-8. Files with such names can be used by commands only, or renamed."
            ) from None
    return path


def mode_parameter(request: Request) -> int | None:
    """Permission bits of the query, in octal digits as for chmod.

    Raises:
        InvalidParameter: they are none.
    """
    text = request.query_params.get("mode")
    if text is None:
        return None
    digits = text.removeprefix("0o")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 6) or set(digits) & {"8", "9"}:
        raise InvalidParameter("value_error", ("query", "mode"), "Input should be octal, such as 0644", text)
    return checked_mode(int(digits, 8), ("query", "mode"))


def checked_mode(mode: int, where: tuple[str, ...]) -> int:
    """The same number, if it can be permission bits.

    Raises:
        InvalidParameter: it cannot.
    """
    if not 0 <= mode <= 0o7777:
        raise InvalidParameter("value_error", where, "Input should be from 0 to 0o7777 (4095)", mode)
    return mode


def owner_of(text: str) -> Owner:
    """An owner as for chown: `user`, `user:group` or `:group`, by name or number. Blocks.

    Raises:
        BadPath: there is no such user or group.
    """
    import grp
    import pwd

    user, _, group = text.partition(":")
    return Owner(
        _number(user, lambda name: pwd.getpwnam(name).pw_uid) if user else -1,
        _number(group, lambda name: grp.getgrnam(name).gr_gid) if group else -1,
    )


def _number(text: str, named: Callable[[str], int]) -> int:
    if text.isascii() and text.isdigit() and int(text) < 1 << 32 - 1:
        return int(text)
    try:
        return named(text)
    except (KeyError, ValueError):
        raise BadPath(f"There is no user or group {text!r} in this box.") from None


def default_home(user: int | None, environment_home: str) -> str:
    """The home of a user; without one, what commands have as `HOME`. Blocks."""
    import pwd

    if user is None and environment_home:
        return environment_home
    try:
        return pwd.getpwuid(os.geteuid() if user is None else user).pw_dir
    except KeyError:
        return "/"
