"""The parts of a `Box`: those of `AsyncBox` for callers that block, run by the event loop of `loop.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from glovebox.client import loop
from glovebox.client.box import AsyncBoxSessions
from glovebox.client.capabilities.browser import AsyncBoxBrowser
from glovebox.client.capabilities.commands import AsyncCommandHandle
from glovebox.client.capabilities.files import AsyncBoxFiles, AsyncFileWatch
from glovebox.client.capabilities.notebook import AsyncBoxNotebook, CellOutcome
from glovebox.client.capabilities.processes import AsyncProcessHandle, OutputPiece
from glovebox.client.loop import LOOP, Relay, blocking_items
from glovebox.client.transfer.files import Progress
from glovebox.errors import CommandError
from glovebox.protocol.file_info import FileChange

P = ParamSpec("P")
T = TypeVar("T")
AsyncT = TypeVar("AsyncT")


def wait_for(coroutine: Coroutine[Any, Any, T], relay: Relay | None = None) -> T:
    """Run a coroutine; the handle in an error becomes one for callers that block."""
    try:
        return LOOP.run(coroutine, relay)
    except CommandError as error:
        if isinstance(error.command, AsyncCommandHandle):
            error.command = CommandHandle(error.command)
        raise


class Blocking(Generic[AsyncT]):
    """The blocking form of an object."""

    def __init__(self, own: AsyncT) -> None:
        self._own = own

    def __repr__(self) -> str:
        return repr(self._own).replace(type(self._own).__name__, type(self).__name__, 1)


def blocking(
    method: Callable[Concatenate[AsyncT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[AsyncT], P], T]:
    """A method as a blocking one."""

    @functools.wraps(method)
    def wait(self: Blocking[AsyncT], /, *arguments: P.args, **named: P.kwargs) -> T:
        return wait_for(method(self._own, *arguments, **named))

    return wait


class CommandHandle(Blocking[AsyncCommandHandle]):
    """A command that was started in a session. Iterating over it yields its output as it comes.

    At the end of `with`, the command is waited for. It is killed instead if the block failed, if it waits for
    input, or if it is a server (`wait_for_port` was called).
    """

    @property
    def id(self) -> str:
        """The id of the command."""
        return self._own.id

    @property
    def text(self) -> str:
        """The text of the command."""
        return self._own.text

    @property
    def session(self) -> str:
        """The session that it runs in."""
        return self._own.session

    wait = blocking(AsyncCommandHandle.wait)
    """Wait until the command has ended or waits for input; CommandTimeout after `timeout` seconds."""
    result = blocking(AsyncCommandHandle.result)
    """Wait until the command has ended; CommandTimeout after `timeout` seconds, CommandWaits if it asks."""
    status = blocking(AsyncCommandHandle.status)
    """What the command does right now."""
    info = blocking(AsyncCommandHandle.info)
    """Everything that the box knows of the command: times, program, what it used."""
    output = blocking(AsyncCommandHandle.output)
    """What the command has printed so far."""
    send = blocking(AsyncCommandHandle.send)
    """Type a text; a question is answered with a line end after it."""
    keys = blocking(AsyncCommandHandle.keys)
    """Press keys: `"C-c"`, `"Enter"`, `"Up"`, `"F1"`, `"q"`."""
    signal = blocking(AsyncCommandHandle.signal)
    """Send a signal, such as `"INT"`, to what runs in the foreground."""
    kill = blocking(AsyncCommandHandle.kill)
    """End the command and everything it started in its session. Idempotent."""
    wait_for_port = blocking(AsyncCommandHandle.wait_for_port)
    """Wait until something in the box accepts connections on a port; PortClosed if nothing will."""

    def __iter__(self) -> Iterator[str]:
        return blocking_items(self._own.live_output())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wait_for(self._own.__aexit__(kind, error, trace))


class ProcessHandle(Blocking[AsyncProcessHandle]):
    """A program that was started. Iterating over it yields its output as it comes.

    At the end of `with`, it is killed if it still runs.
    """

    @property
    def id(self) -> str:
        """The id of the process in the box's API."""
        return self._own.id

    @property
    def pid(self) -> int | None:
        """Its process id in the box."""
        return self._own.pid

    wait = blocking(AsyncProcessHandle.wait)
    """Wait until the program has ended; TimeoutError after `timeout` seconds."""
    running = blocking(AsyncProcessHandle.running)
    """Whether the program still runs."""
    stdout = blocking(AsyncProcessHandle.stdout)
    """What it has written to standard output so far, from `offset` on."""
    stderr = blocking(AsyncProcessHandle.stderr)
    """What it has written to standard error so far, from `offset` on."""
    write = blocking(AsyncProcessHandle.write)
    """Write to its standard input."""
    close_stdin = blocking(AsyncProcessHandle.close_stdin)
    """Close its standard input, so that it reads the end of the file."""
    signal = blocking(AsyncProcessHandle.signal)
    """Send a signal, such as `"TERM"`, to the program and its children."""
    kill = blocking(AsyncProcessHandle.kill)
    """End the program and its children. Idempotent."""

    def __iter__(self) -> Iterator[OutputPiece]:
        return blocking_items(self._own.live_output())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class FileWatch(Blocking[AsyncFileWatch]):
    """The changes below a path, until it is closed; once `with` has begun, none is missed.

    If there were too many to report, the path itself is reported as modified.
    """

    def __iter__(self) -> Iterator[FileChange]:
        return self

    def __next__(self) -> FileChange:
        try:
            return wait_for(loop.next_item(self._own))
        except loop.IterationEnded:
            raise StopIteration from None

    def __enter__(self) -> Self:
        wait_for(self._own.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    close = blocking(AsyncFileWatch.aclose)
    """Watch no longer. Idempotent."""


class BoxFiles(Blocking[AsyncBoxFiles]):
    """`box.files`: reads, writes, lists, copies and watches the files of a box.

    Errors are those of Python as well: a missing file raises `NoSuchFile`, which is a `FileNotFoundError`.
    """

    read = blocking(AsyncBoxFiles.read)
    """The content of a file, up to 256 MB; `stream` and `download` have no limit."""
    read_text = blocking(AsyncBoxFiles.read_text)
    """The content of a file as text."""
    write = blocking(AsyncBoxFiles.write)
    """Replace the content of a file, or make it: text, bytes, or an open binary file."""
    stat = blocking(AsyncBoxFiles.stat)
    """What is at a path: kind, size, permissions, owner, time."""
    list = blocking(AsyncBoxFiles.list)
    """What is in a directory, and with `depth` in those below it."""
    exists = blocking(AsyncBoxFiles.exists)
    """Whether something is at a path; links are followed."""
    mkdir = blocking(AsyncBoxFiles.mkdir)
    """Make a directory, and with `parents` those above it. It may be there already."""
    remove = blocking(AsyncBoxFiles.remove)
    """Remove a file, a link or an empty directory; with `recursive` a directory and all in it."""
    rename = blocking(AsyncBoxFiles.rename)
    """Give a file or directory another path."""
    chmod = blocking(AsyncBoxFiles.chmod)
    """Change permission bits (`0o755`), the owner (`user:group`), or both."""
    glob = blocking(AsyncBoxFiles.glob)
    """The absolute paths of files that match a pattern such as `**/*.py`, newest first."""
    grep = blocking(AsyncBoxFiles.grep)
    """The lines that match a regular expression, in files that match `include`."""

    def stream(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """The content of a file of any size, in pieces, from `offset` on."""
        return blocking_items(self._own.stream(path, offset))

    def upload(self, source: str | Path, directory: str = ".", *, progress: Progress | None = None) -> str:
        """Put a file or a directory of this machine into a directory of the box; its path there."""
        relay = Relay()
        return wait_for(self._own.upload(source, directory, progress=relay.wrap(progress)), relay)

    def download(self, path: str, directory: str | Path = ".", *, progress: Progress | None = None) -> Path:
        """Put a file or a directory of the box into a directory of this machine; its path here."""
        relay = Relay()
        return wait_for(self._own.download(path, directory, progress=relay.wrap(progress)), relay)

    def watch(self, path: str = ".", *, recursive: bool = True) -> FileWatch:
        """The changes of files below a path, as they happen: an iterator and a context manager."""
        return FileWatch(self._own.watch(path, recursive=recursive))


class BoxNotebook(Blocking[AsyncBoxNotebook]):
    """`box.notebook`: runs cells in kernels, which keep their variables."""

    def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        kernel: str = "main",
        on_output: Callable[[str], object] | None = None,
    ) -> CellOutcome:
        """Run a cell to its end. After `timeout` seconds it is interrupted, and variables survive."""
        relay = Relay()
        done = self._own.run(code, timeout=timeout, kernel=kernel, on_output=relay.wrap(on_output))
        return wait_for(done, relay)

    kernels = blocking(AsyncBoxNotebook.kernels)
    """The kernels of the box."""
    interrupt = blocking(AsyncBoxNotebook.interrupt)
    """Stop the cell that runs; variables survive."""
    restart = blocking(AsyncBoxNotebook.restart)
    """Begin anew: variables are lost."""


class BoxBrowser(Blocking[AsyncBoxBrowser]):
    """`box.browser`: opens pages and acts on their elements, by the ids in `WebPage.text`."""

    goto = blocking(AsyncBoxBrowser.goto)
    """Open an address; the page with the ids of its elements."""
    read = blocking(AsyncBoxBrowser.read)
    """Open an address; the page with its text as Markdown, links kept."""
    page = blocking(AsyncBoxBrowser.page)
    """The page as it is now."""
    click = blocking(AsyncBoxBrowser.click)
    """Click an element, named by its id in the page's text."""
    fill = blocking(AsyncBoxBrowser.fill)
    """Replace the text of a field."""
    press = blocking(AsyncBoxBrowser.press)
    """Press keys in an element: `"Enter"`, `"Control+a"`."""
    select = blocking(AsyncBoxBrowser.select)
    """Choose options of a list by their values or labels."""
    hover = blocking(AsyncBoxBrowser.hover)
    """Move the mouse to an element."""
    scroll = blocking(AsyncBoxBrowser.scroll)
    """Scroll by pixels; negative numbers scroll up and left."""
    back = blocking(AsyncBoxBrowser.back)
    """Go to the page before."""
    forward = blocking(AsyncBoxBrowser.forward)
    """Go to the page after."""
    do = blocking(AsyncBoxBrowser.do)
    """Any action of the browser, such as `do("upload_file", "12", "cv.pdf")`."""
    tabs = blocking(AsyncBoxBrowser.tabs)
    """The open tabs, with their addresses and titles."""
    screenshot = blocking(AsyncBoxBrowser.screenshot)
    """Write a picture of the page, as it looks now, to a file of this machine; its path."""


class BoxSessions(Blocking[AsyncBoxSessions]):
    """`box.sessions`: the persistent shells of a box."""

    list = blocking(AsyncBoxSessions.list)
    """The sessions that there are."""
    create = blocking(AsyncBoxSessions.create)
    """Open a session; `run(..., session=name)` does it as well."""
    commands = blocking(AsyncBoxSessions.commands)
    """The commands of all sessions or of one, newest first."""
    end = blocking(AsyncBoxSessions.end)
    """End a session and everything that it started."""
