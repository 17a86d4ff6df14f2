"""Receives an uploaded file: written beside its place as it comes, then put there or unpacked."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from glovebox.archives.safe_directory import Draft, SafeDirectory
from glovebox.archives.zip_records import UnpackLimits
from glovebox.box.credentials import own_rights
from glovebox.errors import BadArchive, RequestError, TooLarge, TransferError


class FileBegins(NamedTuple):
    """A file of this name follows."""

    filename: str


class FileEnds(NamedTuple):
    """The file is complete."""


#: What an upload consists of: a beginning, data, an end. There may be several files; the last one counts.
Piece = FileBegins | FileEnds | bytes


class Upload:
    """One upload into a directory.

    Its methods block, except that `discard` never waits for a thread that is at work: that thread then
    cleans up itself.
    """

    def __init__(
        self, destination: str, *, recursive: bool, max_bytes: int | None, limits: UnpackLimits
    ) -> None:
        self._destination = destination
        self._recursive = recursive
        self._max_bytes = max_bytes
        self._limits = limits
        self._lock = threading.Lock()
        self._target: SafeDirectory | None = None
        self._draft: Draft | None = None
        self._failure: OSError | TransferError | None = None
        self._filename: str | None = None
        self._complete: str | None = None
        self._size = 0
        self.closed = False

    def take(self, pieces: Iterable[Piece]) -> None:
        """Write what has arrived.

        Raises:
            TooLarge: the file is beyond the limit.
            OSError: it could not be written.
        """
        with self._lock:
            for piece in pieces:
                if self.closed:
                    break
                self._take(piece)
        if self.closed:
            self.discard()

    def finish(self, pieces: Iterable[Piece]) -> str | None:
        """Take the last pieces, put the file in its place and return its name as sent; None if there is none.

        Raises:
            TransferError: its name, its place or its kind will not do.
            BadArchive: it should be unpacked and cannot; the archive stays behind.
            OSError: as the system says.
        """
        self.take(pieces)
        try:
            with self._lock:
                if self._complete is not None and not self.closed:
                    self._place()
                return self._complete
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove what is not in its place."""
        self.closed = True
        if self._lock.acquire(blocking=False):
            try:
                if self._draft is not None:
                    self._draft.discard()
                if self._target is not None:
                    self._target.close()
            finally:
                self._lock.release()

    def _take(self, piece: Piece) -> None:
        if isinstance(piece, bytes):
            self._size += len(piece)
            if self._max_bytes is not None and self._size > self._max_bytes:
                raise TooLarge(f"The upload is larger than {self._max_bytes} bytes")
            if self._draft is not None:
                self._draft.file.write(piece)
        elif isinstance(piece, FileBegins):
            self._begin(piece.filename)
        else:
            self._complete = self._filename

    def _begin(self, filename: str) -> None:
        """Open the file; a failure waits for the end, since another file may follow and count instead."""
        if self._draft is not None:
            self._draft.discard()
        self._draft = self._failure = self._complete = None
        self._filename = filename
        self._size = 0
        try:
            self._draft = self._open(filename)
        except (OSError, TransferError) as error:
            self._failure = error

    def _open(self, filename: str) -> Draft:
        if self._target is None:
            try:
                self._target = SafeDirectory(self._destination)
            except NotADirectoryError as error:
                if error.filename != self._destination or not os.path.exists(self._destination):
                    raise
                raise NotADirectoryError(
                    error.errno, error.strerror, os.path.join(self._destination, filename)
                ) from error
        if self._recursive and not filename.endswith(".zip"):
            raise TransferError("400: Recursive uploads must be zip files")
        return self._target.file(_upload_parts(filename))

    def _place(self) -> None:
        if self._failure is not None:
            raise self._failure
        assert self._draft is not None
        assert self._target is not None
        if not self._draft.path.endswith(".zip"):
            self._draft.commit()
            return
        with own_rights():  # the decoders are only loaded for an archive
            from glovebox.archives.unzip import is_archive, unpack

        self._draft.file.flush()
        try:
            if not is_archive(self._draft.file):
                raise BadArchive(f"{self._draft.path} is not a zip file")
            unpack(self._draft.file, self._target, self._limits, abandoned=lambda: self.closed)
        except (TransferError, OSError):
            if not self.closed:
                self._draft.commit()
            raise


def _upload_parts(name: str) -> tuple[str, ...]:
    """The components of an uploaded file's name; `..` and a leading `/` cannot climb out.

    Raises:
        TransferError: nothing is left that could be a file's name.
    """
    if not name:
        raise TransferError("File name must not be empty")
    if "\0" in name or "\\" in name:
        raise TransferError(f"File name must not contain NUL or a backslash: {name!r}")
    parts: list[str] = []
    for part in name.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    if not parts or name.endswith(("/", "/.", "/..")):
        raise TransferError(f"File name must name a file: {name!r}")
    return tuple(parts)


MAX_PARTS = 1000
MAX_HEADERS = 16
MAX_HEADER_SIZE = 16 << 10

_MALFORMED = "There was an error parsing the body"


class FileParts:
    """Turns the bytes of a body into the pieces of the files in one field; other parts are passed over.

    Raises:
        RequestError: the body is not what its content type says.
    """

    def __init__(self, content_type: str, field: str) -> None:
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if not boundary:
            raise RequestError("Missing boundary in multipart.")
        self._field = field
        self._pieces: list[Piece] = []
        self._parts = 0
        self._name = self._value = self._disposition = b""
        self._wanted = False
        self._empty = True
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._part_ends,
                    "on_end": self._body_ends,
                },
                max_header_count=MAX_HEADERS,
                max_header_size=MAX_HEADER_SIZE,
            )
        except FormParserError as error:
            raise RequestError(_MALFORMED) from error

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that these bytes bring."""
        self._empty = self._empty and not data
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise RequestError(_MALFORMED) from error
        pieces, self._pieces = self._pieces, []
        return pieces

    def finish(self) -> None:
        """Check that the body is complete."""
        if not self._ended and not self._empty:
            raise RequestError(_MALFORMED)

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise RequestError(f"Too many parts. Maximum number of parts is {MAX_PARTS}.")
        self._disposition = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = self._value
        self._name = self._value = b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise RequestError('The Content-Disposition header field "name" must be provided.')
        filename = options.get(b"filename")
        self._wanted = filename is not None and _text(options[b"name"]) == self._field
        if self._wanted and filename is not None:
            self._pieces.append(FileBegins(_text(filename)))

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._wanted:
            self._pieces.append(data[start:end])

    def _part_ends(self) -> None:
        if self._wanted:
            self._pieces.append(FileEnds())

    def _body_ends(self) -> None:
        self._ended = True


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
