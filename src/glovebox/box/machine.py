"""The seam between actions, which decide, and the machine that they change.

A session is a conversation with a `Shell`. File actions and the editor are coroutines over `Files`. The box's
files are on a disk and block, so `LocalFiles` has coroutines that never wait: `Files.run` completes a whole
action of them in one thread. Those of a VS Code window wait for its answers on the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from glovebox.box.terminal.commands import RunningCommand, ShellEnd
    from glovebox.box.terminal.output.log import LogFiles
    from glovebox.box.terminal.shell.integration import EndReport
    from glovebox.protocol.events import Output
    from glovebox.protocol.files import StatObservation
    from glovebox.protocol.terminal import Limits

P = ParamSpec("P")
T = TypeVar("T")

PathKind = Literal["file", "directory", "other"]


class TreeEntry(NamedTuple):
    """A path in a directory's tree, and whether it is (or leads to) a directory."""

    path: str
    directory: bool


class Tree(NamedTuple):
    """Two levels of a directory in the order of the paths' bytes, without hidden entries."""

    entries: list[TreeEntry]
    #: How many hidden entries the directory itself has.
    hidden: int
    #: Errors, in the words of `find`.
    problems: list[str]


class FileHandle(Protocol):
    """A file that was found at `path`."""

    path: str
    size: int
    is_regular: bool
    #: Parts of larger files are read with `lines` and changed with `Files.splice`.
    small: int

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def sample(self) -> bytes:
        """The first bytes, enough for deciding whether the file is binary."""

    async def content(self, most: int) -> bytes | None:
        """All bytes of the file; `None` if these are more than `most`."""

    async def lines(self, start: int, end: int, most: int) -> str:
        """Lines of a file that is not small, with their own line ends; `lines.cut_range` counts them.

        Raises:
            UnicodeDecodeError: it is not UTF-8.
            FileActionError: the lines have more than `most` bytes, or the file is too large for this.
        """


class Files(Protocol):
    """The files of a machine.

    The system's refusals are raised as `OSError`; others as `FileActionError` with the answer's text, and
    as `ChangedMeanwhile` if a file is not as it was read.
    """

    async def run(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await what works with these files. Everything below is for such work only."""

    async def look(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for work that opens one file and reads it, which may be begun twice."""

    async def compute(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what takes a while without keeping others waiting."""

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """One change of a file at a time."""

    async def stat(self, path: str, *, follow: bool = True) -> PathKind:
        """The kind of a path; without `follow`, a link that leads nowhere is found too."""

    async def describe(self, path: str, *, follow: bool) -> StatObservation: ...

    async def open(self, path: str) -> FileHandle:
        """Open a file for reading. `IsADirectoryError` is raised for a directory."""

    async def replace(self, file: FileHandle, data: bytes) -> None:
        """Give a file whose `content` was read other content."""

    async def splice(self, file: FileHandle, content: str, start: int | None, end: int | None) -> None:
        """Put lines into a file that is not small, as `lines.splice` does with text."""

    async def create(self, path: str, data: bytes, *, exclusive: bool) -> None:
        """Make a file, with `exclusive` only if nothing is there, else together with its directories."""

    async def tree(self, path: str) -> Tree: ...

    async def absolute(self, cwd: str, path: str) -> str:
        """The path without `.` and `..`; relative ones start at `cwd`."""

    async def real(self, path: str) -> str:
        """The path with all links resolved."""

    async def move(self, source: str, target: str, *, overwrite: bool) -> None: ...

    async def delete(self, path: str, cwd: str, *, recursive: bool) -> int:
        """Delete a path that the shell in `cwd` does not need; returns how many entries that were."""

    async def make_directory(self, path: str, *, parents: bool) -> bool:
        """Whether it was made; it may be there already."""


def complete(work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a coroutine that never waits, as those over `LocalFiles`. Blocks."""
    coroutine = work(*args, **kwargs)
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits, which needs an event loop")


class ShellRefused(Exception):
    """The machine refuses; the text is for the caller of the action, the code for its program."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TerminalInfo(NamedTuple):
    """What a session's information says of the terminal; zeros and None are not known."""

    pid: int | None = None
    rows: int = 0
    columns: int = 0
    limits: Limits | None = None
    #: The command line that attaches to it with tmux, if tmux holds it.
    attach: str | None = None


class Shell(Protocol):
    """The shell of one session: runs one command at a time.

    What a command prints and how it ends is reported to the command itself. A shell that is gone is replaced
    when the next command needs it.
    """

    @property
    def log(self) -> LogFiles:
        """The log of everything that its terminal printed."""

    @property
    def report(self) -> EndReport | None:
        """What it said at its newest prompt."""

    @property
    def unattended(self) -> bool:
        """Whether something may run in it that keys reach, and that is no command of the session any more."""

    @property
    def terminal(self) -> TerminalInfo: ...

    async def ready(self, cwd: str) -> ShellEnd | None:
        """Start it in a directory unless it runs; how the one before it ended, if that is why.

        Raises:
            StartupError: it could not be started.
        """

    async def run(self, command: RunningCommand, text: str, limits: Limits | None) -> None:
        """Begin a command at the idle prompt."""

    async def press(self, command: RunningCommand, key: bytes) -> None:
        """Press a key at the idle prompt that makes the shell print a new prompt, or end.

        Raises:
            ShellRefused: the machine refuses.
        """

    async def send(self, data: bytes, action_id: str) -> None:
        """Type something for the running command, because of an action.

        Raises:
            ShellRefused: the machine refuses.
        """

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground.

        Raises:
            BadSession: there is no such signal.
            CommandEnded: nothing runs.
        """

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal.

        Raises:
            BadSession: it cannot have that size.
        """

    async def close(self) -> None:
        """Let go of it. What runs in it has ended for the session when this returns."""


class MainShell(Protocol):
    """The persistent shell, as seen from outside the terminal."""

    @property
    def cwd(self) -> str:
        """The shell's current directory, which relative paths start from."""

    async def settled(self) -> None:
        """Wait until every command that was accepted before now has been answered."""


class Outputs(Protocol):
    """The output of commands, for readers that were too slow for its events."""

    def reread(self, command_id: str, start: int, end: int) -> AsyncGenerator[Output, None]:
        """The text of some bytes of a command's output, in pieces.

        Raises:
            NoSuchCommand: it is forgotten.
            OutputGone: the log does not reach back so far.
        """
