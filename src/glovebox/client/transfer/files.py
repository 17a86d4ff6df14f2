"""Files into a box and out of it; none of them is ever held in memory."""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import msgspec

from glovebox.archives.tree import TreeItem, walk_tree
from glovebox.archives.zip_records import UnpackLimits
from glovebox.archives.zip_writer import pack, read_file
from glovebox.client.backend import BoxClient
from glovebox.errors import BadAnswer, DeadlineExceeded, GloveboxError, TransferError
from glovebox.json_codec import decode_json

if TYPE_CHECKING:
    from aiohttp import FormData

log = logging.getLogger(__name__)

#: Called with how many bytes are done, and of how many; None if that is unknown.
Progress = Callable[[int, int | None], None]

#: Seconds for a whole transfer; the contract's own limits are for each read or write.
LIMIT = 3600.0
_LIST_LIMIT = 10.0
#: How much an archive of a box may become: boxes store, they do not compress.
LIMITS = UnpackLimits(max_bytes=1 << 62, unsuspicious_bytes=1 << 30, max_ratio=100)
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
    name: str = "",
    follow_links: bool = False,
    progress: Progress | None = None,
    limit: float = LIMIT,
) -> None:
    """Put a file, or with `recursive` a directory, into a directory of the box.

    It appears under its own name or the given one; a directory with its empty directories and what is
    executable. A relative destination is below the workspace. A zip archive that is sent as a file is
    unpacked by the box. Links are sent as what they lead to, those that lead out of the directory only with
    `follow_links`.

    Raises:
        FileNotFoundError: the source is not there.
        TransferError: something cannot be read, or the box refused it.
    """
    sent = await open_source(
        host_src, name=name, recursive=recursive, follow_links=follow_links, progress=progress
    )
    query = {
        "destination": posixpath.join(box.workspace, sandbox_dest),
        "recursive": "true" if recursive else "false",
    }
    form = _form(f"{sent.name}.zip" if recursive else sent.name, sent)
    try:
        await box.upload("/upload_file", query=query, form=form, limit=limit)
    except DeadlineExceeded as error:
        raise DeadlineExceeded(_TIMED_OUT) from error
    except GloveboxError:
        if sent.failure is not None:
            raise sent.failure from None
        raise


async def open_source(
    source: str | os.PathLike[str],
    *,
    name: str = "",
    recursive: bool,
    follow_links: bool = False,
    progress: Progress | None = None,
) -> UploadStream:
    """The content of a file, or with `recursive` a directory as a zip archive, ready to be sent.

    Raises:
        FileNotFoundError: the source is not there.
        TransferError: something cannot be read.
    """
    path = Path(source)
    if not await asyncio.to_thread(path.exists):
        raise FileNotFoundError(f"Source file {source} does not exist")
    items = await asyncio.to_thread(collect, path, name=name, recursive=recursive, follow_links=follow_links)
    content = ((piece, len(piece)) for piece in read_file(items[0]))
    return UploadStream(items, pack(items) if recursive else content, progress)


def collect(source: Path, *, recursive: bool, name: str = "", follow_links: bool = False) -> list[TreeItem]:
    """A file, or a directory and everything below it, named from its parent directory on. Blocks.

    A link is what it leads to, if that is within the directory; one that leads out of it is only followed if
    `follow_links` says so, since a box must not get what a link that was put there points at.

    Raises:
        TransferError: something may not be read, or is a directory although not `recursive`.
    """
    name = name or Path(os.path.abspath(source)).name
    top = TreeItem(str(source), name, os.stat(source))
    if not top.is_directory:
        return [top]
    if not recursive:
        raise TransferError(f"{source} is a directory: it is copied with recursive=True.")
    root = os.path.join(os.path.realpath(source), "")

    def refuse_link(entry: os.DirEntry[str], status: os.stat_result) -> str:
        inside = follow_links or os.path.join(os.path.realpath(entry.path), "").startswith(root)
        return "" if inside else "a link that leads out of the directory"

    def left_out(path: str, reason: str) -> None:
        log.warning("%s is not sent: %s", path, reason)

    below = walk_tree(str(source), f"{name}/", refuse_link=refuse_link, left_out=left_out)
    items = [top._replace(name=f"{name}/"), *below]
    for item in items:
        if not _is_utf8(item.name):
            raise TransferError(f"{item.path!r} has a name that is not UTF-8 and cannot be sent")
    return items


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _form(filename: str, sent: UploadStream) -> FormData:
    from aiohttp import FormData

    form = FormData(quote_fields=False)
    form.add_field("file", sent, filename=filename, content_type="application/octet-stream")
    return form


class UploadStream:
    """Pieces on their way, each made in a thread; progress is reported when the next one is requested."""

    def __init__(
        self, items: list[TreeItem], made: Iterator[tuple[bytes, int]], progress: Progress | None
    ) -> None:
        self.name = items[0].name.rstrip("/")
        self.is_executable = items[0].status.st_mode & 0o100 != 0
        self._made = made
        self._total = sum(item.size for item in items)
        self._progress = progress
        self._done = 0
        #: Why it broke off: the HTTP client only knows that it did.
        self.failure: TransferError | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        self._report()
        try:
            while made := await asyncio.to_thread(next, self._made, None):
                if made[0]:
                    yield made[0]
                self._done += made[1]
                self._report()
        except TransferError as error:
            self.failure = error
            raise

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)


async def copy_from(
    box: Transfers, path: str, *, progress: Progress | None = None, limit: float = LIMIT
) -> Path:
    """A directory or file of the box as a zip archive in a temporary file, which is the caller's to remove.

    Raises:
        TransferError: the box has no such path, or may not read it.
    """
    query = {"path": posixpath.join(box.workspace, path)}
    return await _fetch(box, "/download_files", query, progress, limit)


async def _fetch(
    box: Transfers, endpoint: str, query: Mapping[str, str], progress: Progress | None, limit: float
) -> Path:
    descriptor, name = await asyncio.to_thread(tempfile.mkstemp, ".zip", "glovebox-")
    with ExitStack() as unfinished:
        unfinished.callback(os.unlink, name)  # half an archive is of no use
        with os.fdopen(descriptor, "wb") as file:
            await _receive(box.download(endpoint, query=query, limit=limit), file, progress)
        unfinished.pop_all()
    return Path(name)


async def _receive(pieces: AsyncIterator[bytes], file: BinaryIO, progress: Progress | None) -> None:
    waiting: list[bytes] = []
    done = size = 0
    try:
        async for piece in pieces:
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
    return await _unpack_and_remove(archive, Path(host_dest))


async def download_directory(
    box: Transfers, path: str, host_dest: Path, *, progress: Progress | None = None, limit: float = LIMIT
) -> None:
    """Put what a directory of the box holds, empty directories too, into a directory of the host.

    Raises:
        FileError: the box has no such directory, or may not read it.
        TransferError: a file cannot be written.
        BadArchive: what the box sent is damaged, or made to do harm.
    """
    query = {"path": path, "format": "zip"}
    archive = await _fetch(box, "/files/archive", query, progress, limit)
    await _unpack_and_remove(archive, host_dest)


async def _unpack_and_remove(archive: Path, destination: Path) -> list[Path]:
    try:
        return await asyncio.to_thread(unpack, archive, destination)
    finally:
        await asyncio.to_thread(archive.unlink)


def unpack(archive: Path, destination: Path) -> list[Path]:
    """Put the files of an archive below a directory, over those that are there; their paths. Blocks.

    No name and no link, in the archive or in the directory, leads outside.

    Raises:
        BadArchive: it is damaged, or made to do harm.
        TransferError: a file cannot be put in its place.
    """
    from glovebox.archives import unzip
    from glovebox.archives.safe_directory import SafeDirectory

    written: list[Path] = []
    try:
        with open(archive, "rb") as file, SafeDirectory(str(destination), inherit=False) as target:
            unzip.unpack(
                file, target, LIMITS,
                strict=True, on_file=lambda parts: written.append(destination.joinpath(*parts)),
            )  # fmt: skip
    except OSError as error:
        raise TransferError(f"{error.filename} cannot be written: {error.strerror or error}") from error
    return written


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
