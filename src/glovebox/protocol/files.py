"""File actions beyond the contract, in the same envelope: glob, grep, stat, move, delete, mkdir.

Relative paths are taken from the shell's current directory, as `read` and `write` take them. Lists come
in pages: `offset` and `limit` in, `total` and `next_offset` out.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from glovebox.protocol.base import Action, Message, Observation, Unchecked


class GlobObservation(Observation):
    """Paths that match, newest first; `content` has one per line."""

    observation: ClassVar[str] = "glob"
    pattern: str
    path: str
    matches: list[str] = []
    total: int = 0
    next_offset: int | None = None

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Found {self.total} paths matching {self.pattern}."


class GlobAction(Action[GlobObservation]):
    """Find files by a pattern such as `**/*.py` or `src/{a,b}/*.ts`."""

    action: ClassVar[str] = "glob"
    pattern: str
    path: str = "."
    hidden: bool = False
    offset: int = 0
    limit: int = 200
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Finding files: {self.pattern}"


class GrepMatch(Message):
    """One matching line; `before` and `after` are its context."""

    path: str
    line: int
    text: str
    before: list[str] = []
    after: list[str] = []


class GrepObservation(Observation):
    """Lines that match, in order of path and line."""

    observation: ClassVar[str] = "grep"
    pattern: str
    path: str
    matches: list[GrepMatch] = []
    total: int = 0
    next_offset: int | None = None

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Found {self.total} lines matching {self.pattern}."


class GrepAction(Action[GrepObservation]):
    """Search text files for a regular expression (or a literal string)."""

    action: ClassVar[str] = "grep"
    pattern: str
    path: str = "."
    include: str | None = None
    literal: bool = False
    ignore_case: bool = False
    hidden: bool = False
    context: int = 0
    offset: int = 0
    limit: int = 200
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Searching for: {self.pattern}"


FileType = Literal["file", "directory", "symlink", "fifo", "socket", "block_device", "character_device"]


class StatObservation(Observation):
    """What a path is."""

    observation: ClassVar[str] = "stat"
    path: str
    type: FileType
    size: int
    mode: str
    uid: int
    gid: int
    owner: str | None
    group: str | None
    modified: float
    target: str | None = None

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"I looked at {self.path}."


class StatAction(Action[StatObservation]):
    """Tell what a path is: type, size, mode, owner, time."""

    action: ClassVar[str] = "stat"
    path: str
    follow_symlinks: bool = True
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Looking at: {self.path}"


class MoveObservation(Observation):
    """A path was moved."""

    observation: ClassVar[str] = "move"
    source: str
    destination: str

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"I moved {self.source} to {self.destination}."


class MoveAction(Action[MoveObservation]):
    """Rename or move a file or directory; a destination directory receives it under its own name."""

    action: ClassVar[str] = "move"
    source: str
    destination: str
    overwrite: bool = False
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Moving {self.source} to {self.destination}"


class DeleteObservation(Observation):
    """A path was deleted; `removed` counts everything that went with it."""

    observation: ClassVar[str] = "delete"
    path: str
    removed: int

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"I deleted {self.path}."


class DeleteAction(Action[DeleteObservation]):
    """Delete a file, a link itself, or a directory (`recursive` when it is not empty)."""

    action: ClassVar[str] = "delete"
    path: str
    recursive: bool = False
    missing_ok: bool = False
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Deleting: {self.path}"


class MkdirObservation(Observation):
    """A directory is there; `created` tells whether it was not before."""

    observation: ClassVar[str] = "mkdir"
    path: str
    created: bool

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"I made the directory {self.path}."


class MkdirAction(Action[MkdirObservation]):
    """Make a directory, and its parents unless told not to."""

    action: ClassVar[str] = "mkdir"
    path: str
    parents: bool = True
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        """One line for a person."""
        return f"Making the directory: {self.path}"


FILE_ACTIONS = (GlobAction, GrepAction, StatAction, MoveAction, DeleteAction, MkdirAction)
FILE_OBSERVATIONS = (
    GlobObservation,
    GrepObservation,
    StatObservation,
    MoveObservation,
    DeleteObservation,
    MkdirObservation,
)
