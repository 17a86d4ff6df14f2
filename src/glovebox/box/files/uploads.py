"""Receiving an uploaded file: written beside its place as it comes, then put there or unpacked."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import NamedTuple

from glovebox.box.credentials import own_rights
from glovebox.box.files.landing import Draft, Landing, UnpackLimits, upload_parts
from glovebox.errors import BadArchive, TooLarge, TransferError


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
        self._landing: Landing | None = None
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
        """Leave no trace of what is not in its place."""
        self.closed = True
        if self._lock.acquire(blocking=False):
            try:
                if self._draft is not None:
                    self._draft.discard()
                if self._landing is not None:
                    self._landing.close()
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
        if self._landing is None:
            try:
                self._landing = Landing(self._destination)
            except NotADirectoryError as error:
                if error.filename != self._destination or not os.path.exists(self._destination):
                    raise
                raise NotADirectoryError(
                    error.errno, error.strerror, os.path.join(self._destination, filename)
                ) from error
        if self._recursive and not filename.endswith(".zip"):
            raise TransferError("400: Recursive uploads must be zip files")
        return self._landing.file(upload_parts(filename))

    def _place(self) -> None:
        if self._failure is not None:
            raise self._failure
        assert self._draft is not None
        assert self._landing is not None
        if not self._draft.path.endswith(".zip"):
            self._draft.commit()
            return
        with own_rights():
            from glovebox.box.files.archives import (  # the decoders are only loaded for an archive
                is_archive,
                unpack,
            )

        self._draft.file.flush()
        try:
            if not is_archive(self._draft.file):
                raise BadArchive(f"{self._draft.path} is not a zip file")
            unpack(self._draft.file, self._landing, self._limits, abandoned=lambda: self.closed)
        except (TransferError, OSError):
            if not self.closed:
                self._draft.commit()
            raise
