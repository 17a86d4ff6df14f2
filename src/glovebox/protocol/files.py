"""File actions beyond the contract, in the same envelope: glob, grep, stat, move, delete, mkdir.

Relative paths are taken from the shell's current directory, as `read` and `write` take them; paths in
answers are absolute. Bytes of a name that are not UTF-8 are shown as U+FFFD.

Lists come in pages: `offset` and `limit` in, `total` and `next_offset` out (`None` on the last page). A
search that meets its time limit (`timeout`, 30 seconds unless given) or 100,000 results answers with what it
has and sets `incomplete`.

Searches leave out hidden names (unless `hidden` is set or the pattern names them), what `.gitignore`
excludes inside a git repository (unless `respect_gitignore` is false or the path itself lies in an excluded
directory), and `.git` in any case unless it is named. Links are not followed, apart from the given path.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from glovebox.protocol.base import Action, Message, Observation, Unchecked

#: The largest page of a list.
MAX_LIMIT = 10_000
#: The most lines of context on either side of a match.
MAX_CONTEXT = 100


class GlobObservation(Observation):
    """Paths that match, newest first, then by path; `content` has one per line."""

    observation: ClassVar[str] = "glob"
    message_template: ClassVar[str] = "Paths that match {0.pattern}: {0.total}."
    pattern: str
    #: The directory that was searched.
    path: str
    matches: list[str] = []
    total: int = 0
    next_offset: int | None = None
    #: Whether the search ended before it had seen everything.
    incomplete: bool = False
    #: Directories that could not be read.
    skipped: int = 0


class GlobAction(Action[GlobObservation]):
    """Find files by a pattern such as `*.py`, `src/**/test_*.py` or `src/{a,b}/*.ts`.

    A pattern without a slash matches names at any depth; one with a slash starts at `path`; an absolute one
    stands on its own. One that ends with a slash finds directories instead of files.
    """

    action: ClassVar[str] = "glob"
    message_template: ClassVar[str] = "Finding files: {0.pattern}"
    pattern: str
    path: str = "."
    hidden: bool = False
    respect_gitignore: bool = True
    offset: int = 0
    limit: int = 200
    thought: Unchecked = ""


class GrepMatch(Message):
    """One matching line, without its line ending; `before` and `after` are its context.

    A line of more than 1,000 characters is cut around the match, with `[…]` where something is missing.
    """

    path: str
    line: int
    text: str
    before: list[str] = []
    after: list[str] = []


class GrepObservation(Observation):
    """Lines that match, in order of path (bytewise) and line; `content` shows them as `path:line:text`.

    A page may end before its `limit` when it is very long; `next_offset` is where to go on.
    """

    observation: ClassVar[str] = "grep"
    message_template: ClassVar[str] = "Lines that match {0.pattern}: {0.total}."
    pattern: str
    #: The directory or file that was searched.
    path: str
    matches: list[GrepMatch] = []
    #: How many lines match.
    total: int = 0
    #: How many files they are in.
    files: int = 0
    next_offset: int | None = None
    #: Whether the search ended before it had seen everything.
    incomplete: bool = False
    #: Files and directories that could not be read.
    skipped: int = 0
    #: Files that match and are left out since they hold NUL bytes.
    binary: int = 0


class GrepAction(Action[GrepObservation]):
    """Search text files for a regular expression (or a literal string), line by line.

    The language is the common one without lookaround and backreferences; `(?i)` works anywhere. `include`
    is a glob relative to `path` that chooses files; a `path` that is a file is searched in any case.
    `before` and `after` are numbers of lines, `context` stands for both.
    """

    action: ClassVar[str] = "grep"
    message_template: ClassVar[str] = "Searching for: {0.pattern}"
    pattern: str
    path: str = "."
    include: str | None = None
    literal: bool = False
    ignore_case: bool = False
    hidden: bool = False
    respect_gitignore: bool = True
    context: int = 0
    before: int | None = None
    after: int | None = None
    offset: int = 0
    limit: int = 200
    thought: Unchecked = ""


FileType = Literal["file", "directory", "symlink", "fifo", "socket", "block_device", "character_device"]


class StatObservation(Observation):
    """What a path is; `content` says it in a sentence."""

    observation: ClassVar[str] = "stat"
    message_template: ClassVar[str] = "I looked at {0.path}."
    path: str
    type: FileType
    size: int
    #: Permission bits in octal, such as `0644`.
    mode: str
    uid: int
    gid: int
    #: The name of the user, `None` when it has none.
    owner: str | None
    group: str | None
    #: When the content last changed, in seconds since 1970.
    modified: float
    #: Where a link leads, as written in it.
    target: str | None = None


class StatAction(Action[StatObservation]):
    """Tell what a path is: type, size, mode, owner, time. With `follow_symlinks` off, of a link itself."""

    action: ClassVar[str] = "stat"
    message_template: ClassVar[str] = "Looking at: {0.path}"
    path: str
    follow_symlinks: bool = True
    thought: Unchecked = ""


class MoveObservation(Observation):
    """A path was moved; `destination` is where it is now."""

    observation: ClassVar[str] = "move"
    message_template: ClassVar[str] = "I moved {0.source} to {0.destination}."
    source: str
    destination: str


class MoveAction(Action[MoveObservation]):
    """Rename or move a file or directory; a destination directory receives it under its own name.

    A link is moved itself. Nothing is replaced unless `overwrite` is set, and then only a file by a file or
    an empty directory by a directory.
    """

    action: ClassVar[str] = "move"
    message_template: ClassVar[str] = "Moving {0.source} to {0.destination}"
    source: str
    destination: str
    overwrite: bool = False
    thought: Unchecked = ""


class DeleteObservation(Observation):
    """A path was deleted; `removed` counts everything that went with it, itself included."""

    observation: ClassVar[str] = "delete"
    path: str
    removed: int

    @property
    def message(self) -> str:
        return f"I deleted {self.path}." if self.removed else f"There was no {self.path} to delete."


class DeleteAction(Action[DeleteObservation]):
    """Delete a file, a link itself, or a directory (`recursive` when it is not empty).

    The root directory and the directories the shell is in are refused. With `missing_ok` a path that does
    not exist is no error.
    """

    action: ClassVar[str] = "delete"
    message_template: ClassVar[str] = "Deleting: {0.path}"
    path: str
    recursive: bool = False
    missing_ok: bool = False
    thought: Unchecked = ""


class MkdirObservation(Observation):
    """A directory is there; `created` is false if it was before."""

    observation: ClassVar[str] = "mkdir"
    path: str
    created: bool

    @property
    def message(self) -> str:
        return f"I made the directory {self.path}." if self.created else f"{self.path} was there already."


class MkdirAction(Action[MkdirObservation]):
    """Make a directory, and its parents unless `parents` is false."""

    action: ClassVar[str] = "mkdir"
    message_template: ClassVar[str] = "Making the directory: {0.path}"
    path: str
    parents: bool = True
    thought: Unchecked = ""


FILE_ACTIONS = (GlobAction, GrepAction, StatAction, MoveAction, DeleteAction, MkdirAction)
FILE_OBSERVATIONS = (
    GlobObservation, GrepObservation, StatObservation, MoveObservation, DeleteObservation, MkdirObservation,
)  # fmt: skip
