"""Writing a file for the `write` action."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from glovebox.box.files import atomic
from glovebox.box.files.line_index import LineIndex, TooSlow
from glovebox.box.files.lines import splice, splice_range, with_line_end
from glovebox.box.files.locks import PathLocks
from glovebox.box.files.workspace import SMALL, Refused, Source, pieces

#: The mode of a file that was not there before.
NEW_FILE_MODE = 0o664


def write_file(
    path: str, content: str, start: int | None, end: int | None, *, owner: int | None, locks: PathLocks
) -> None:
    """Put lines into a file, making it and its directory where they are missing.

    A new file goes to `owner`, user and group alike.

    Raises:
        Refused: it is not a file, not a text file, or its ownership could not be set after all.
    """
    real = os.path.realpath(path)
    with locks.hold(real):
        try:
            source = Source(path)
        except FileNotFoundError:
            _create(path, content, owner=owner, real=real)
            return
        with source:
            _expect_regular(path, source.status.st_mode)
            try:
                _change(path, source, content, start, end, real=real)
            except UnicodeDecodeError:
                raise Refused(f"File could not be decoded as utf-8: {path}") from None
            except TooSlow:
                raise Refused(f"File is too large: {path} could not be gone through in time.") from None


def _change(
    path: str, source: Source, content: str, start: int | None, end: int | None, *, real: str
) -> None:
    status = source.status
    previous = source.content(SMALL)
    if previous is not None:
        data = splice(previous.decode(), content, start, end).encode()
        atomic.replace(path, data, real=real, status=status, previous=previous)
        return
    index = LineIndex(source.fd)
    kept, resumed = (index.offset(line) for line in splice_range(index.lines, start, end))
    everything = start == 0 and end == -1
    new = with_line_end(content + "\n", "\n" if everything else index.line_end).encode()

    def change(file: int) -> Iterator[bytes]:
        yield from pieces(file, 0, kept)
        yield new
        yield from pieces(file, resumed, index.size)

    atomic.rewrite(path, change, real=real, status=status, file=source.fd, size=index.size)


def _expect_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise Refused(f"Path is a directory: {path}. You can only write to files")
    if not stat.S_ISREG(mode):
        raise Refused(f"Path is not a regular file: {path}. You can only write to files")


def _create(path: str, content: str, *, owner: int | None, real: str) -> None:
    data = (content + "\n").encode()
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        _make_directories(directory)
    try:
        refusal = atomic.create(path, data, real=real, mode=NEW_FILE_MODE, owner=owner)
    except FileNotFoundError:
        # A link that leads into a directory that is not there.
        raise Refused(f"File not found: {path}") from None
    if refusal is not None:
        raise Refused(f"File {path} written, but failed to change ownership and permissions: {refusal}")


def _make_directories(directory: str) -> None:
    missing = []
    while directory and not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another write was faster
            os.mkdir(path)
