"""Files into a box and out of it; none of them is ever held in memory."""

from __future__ import annotations

import asyncio
import os
import posixpath
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import msgspec

from glovebox.client.backend import BoxClient
from glovebox.client.transfer.unzip import unpack
from glovebox.client.transfer.zip_writer import collect, packed, pieces
from glovebox.errors import BadAnswer, DeadlineExceeded, GloveboxError, TransferError
from glovebox.json_codec import decode_json

if TYPE_CHECKING:
    from aiohttp import FormData

#: Hears how many bytes are done, and of how many; None if nobody knows.
Progress = Callable[[int, int | None], None]

#: Seconds for a whole transfer; the contract's own limits are for each read or write.
LIMIT = 3600.0
_LIST_LIMIT = 10.0
_PIECE = 1 << 20
_TIMED_OUT = "Copy operation timed out"


class Transfers(BoxClient, Protocol):
    """A box that also takes and gives streams."""

    async def upload(self, path: str, *, query: Mapping[str, str], form: FormData, limit: float) -> bytes:
        """Post a form, and what the box answers."""

    def download(self, path: str, *, query: Mapping[str, str], limit: float) -> AsyncIterator[bytes]:
        """What an endpoint answers, piece by piece."""


async def copy_to(
    box: Transfers,
    host_src: str | os.PathLike[str],
    sandbox_dest: str,
    recursive: bool = False,
    *,
    follow_links: bool = False,
    progress: Progress | None = None,
    limit: float = LIMIT,
) -> None:
    """Put a file, or with `recursive` a directory, into a directory of the box.

    A directory appears under its own name, with its empty directories and what is executable. A relative
    destination is below the workspace. A zip archive that is sent as a file is unpacked by the box. Links
    are sent as what they lead to, those that lead out of the directory only with `follow_links`.

    Raises:
        FileNotFoundError: the source is not there.
        TransferError: something cannot be read, or the box refused it.
    """
    source = Path(host_src)
    if not await asyncio.to_thread(source.exists):
        raise FileNotFoundError(f"Source file {host_src} does not exist")
    items = await asyncio.to_thread(collect, source, recursive=recursive, follow_links=follow_links)
    total = sum(item.size for item in items)
    sent = _Sent(packed(items) if recursive else pieces(items[0]), total, progress)
    query = {
        "destination": posixpath.join(box.workspace, sandbox_dest),
        "recursive": "true" if recursive else "false",
    }
    form = _form(f"{items[0].name}.zip" if recursive else items[0].name, sent)
    try:
        await box.upload("/upload_file", query=query, form=form, limit=limit)
    except DeadlineExceeded as error:
        raise DeadlineExceeded(_TIMED_OUT) from error
    except GloveboxError:
        if sent.failure is not None:
            raise sent.failure from None
        raise


def _form(filename: str, sent: _Sent) -> FormData:
    from aiohttp import FormData

    form = FormData(quote_fields=False)
    form.add_field("file", sent, filename=filename, content_type="application/octet-stream")
    return form


class _Sent:
    """Pieces on their way, each made in a thread and told of when the one after it is asked for."""

    def __init__(self, made: Iterator[tuple[bytes, int]], total: int, progress: Progress | None) -> None:
        self._made = made
        self._total = total
        self._progress = progress
        self._done = 0
        #: Why it broke off: whoever sends it can only say that it did.
        self.failure: TransferError | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        self._tell()
        try:
            while made := await asyncio.to_thread(next, self._made, None):
                if made[0]:
                    yield made[0]
                self._done += made[1]
                self._tell()
        except TransferError as error:
            self.failure = error
            raise

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)


async def copy_from(
    box: Transfers, path: str, *, progress: Progress | None = None, limit: float = LIMIT
) -> Path:
    """A directory or file of the box as a zip archive in a temporary file, which is the caller's to remove.

    Raises:
        TransferError: the box has no such path, or may not read it.
    """
    descriptor, name = await asyncio.to_thread(tempfile.mkstemp, ".zip", "glovebox-")
    with ExitStack() as unfinished:
        unfinished.callback(os.unlink, name)  # half an archive is of no use
        with os.fdopen(descriptor, "wb") as file:
            await _receive(box, path, file, progress, limit)
        unfinished.pop_all()
    return Path(name)


async def _receive(
    box: Transfers, path: str, file: BinaryIO, progress: Progress | None, limit: float
) -> None:
    query = {"path": posixpath.join(box.workspace, path)}
    waiting: list[bytes] = []
    done = size = 0
    try:
        async for piece in box.download("/download_files", query=query, limit=limit):
            waiting.append(piece)
            size += len(piece)
            if size >= _PIECE:
                await asyncio.to_thread(file.writelines, waiting)
                done += size
                waiting, size = [], 0
                if progress is not None:
                    progress(done, None)
    except DeadlineExceeded as error:
        raise DeadlineExceeded(_TIMED_OUT) from error
    await asyncio.to_thread(file.writelines, waiting)
    if progress is not None:
        progress(done + size, done + size)


async def download(
    box: Transfers,
    path: str,
    host_dest: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    limit: float = LIMIT,
) -> list[Path]:
    """Put what a directory of the box holds, or a file of it, into a directory of the host; the paths.

    Nothing is written outside of that directory, whatever the box sends.

    Raises:
        TransferError: the box has no such path, or a file cannot be written.
        BadArchive: what the box sent is damaged, or made to do harm.
    """
    archive = await copy_from(box, path, progress=progress, limit=limit)
    try:
        return await asyncio.to_thread(unpack, archive, Path(host_dest))
    finally:
        await asyncio.to_thread(archive.unlink)


async def list_files(box: BoxClient, path: str | None = None) -> list[str]:
    """The names in a directory of the box, the workspace unless one is named; directories end with a slash.

    It is empty if there is no such directory.
    """
    body = msgspec.json.encode({} if path is None else {"path": path})
    try:
        answer = await box.call("POST", "/list_files", body=body, limit=_LIST_LIMIT)
    except DeadlineExceeded as error:
        raise DeadlineExceeded("List files operation timed out") from error
    try:
        return decode_json(answer, list[str])
    except msgspec.DecodeError as error:
        raise BadAnswer(f"The box did not list {path or 'its workspace'}: {error}") from error
