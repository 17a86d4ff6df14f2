"""What the holder needs of a terminal with a shell in it, whoever made the terminal."""

from __future__ import annotations

TYPE_CHECKING = False  # the module `typing` alone is a tenth of the holder's memory
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object


class ShellSpec:
    """The shell to start and the terminal to start it in."""

    __slots__ = (
        "arguments",
        "columns",
        "cwd",
        "environment",
        "gid",
        "groups",
        "name",
        "plain",
        "rows",
        "token",
        "uid",
    )

    def __init__(
        self,
        *,
        name: str,
        arguments: list[str],
        environment: dict[str, str],
        cwd: str,
        rows: int,
        columns: int,
        uid: int | None = None,
        gid: int | None = None,
        groups: list[int] | None = None,
        plain: bool = False,
        token: str = "",
    ) -> None:
        #: A word that can stand in file names and on command lines.
        self.name = name
        self.arguments = arguments
        self.environment = environment
        self.cwd = cwd
        self.rows = rows
        self.columns = columns
        #: The user to become, or None to stay who we are.
        self.uid = uid
        self.gid = gid
        self.groups = groups or []
        #: Not a shell that people would want to attach to.
        self.plain = plain
        #: The token with which a shell tells that it has started.
        self.token = token


class ShellTerminal(Protocol):
    """A terminal with a shell in it. Nothing here blocks."""

    @property
    def pid(self) -> int: ...

    def fileno(self) -> int:
        """A descriptor that is readable when `read` has something to say."""

    def read(self) -> bytes | None:
        """What the terminal printed since; empty if nothing yet, None when nothing will ever come again."""

    def write(self, data: bytes) -> int:
        """Type something; how many bytes were taken (0: try again when `writable_fileno` is writable)."""

    def writable_fileno(self) -> int:
        """The descriptor to wait for when `write` took less than it was given."""

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal."""

    def status(self) -> int | None:
        """The exit status of a shell that is gone (128 + signal if killed), or None if it is not known."""

    def hang_up(self) -> None:
        """Close the terminal: no more output is wanted. The shell gets SIGHUP; a second call does nothing."""
