"""The files of a box. Relative paths start at the workspace, and `~` is the home of the box's user."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import posixpath
import uuid
from collections.abc import AsyncGenerator, AsyncIterable
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from glovebox.client.connection.answers import decode, decode_list
from glovebox.client.connection.events import ItemStream
from glovebox.client.connection.http import SILENCE
from glovebox.client.connection.link import Link
from glovebox.client.connection.retry import Lost, Patience
from glovebox.client.transfer import files as transfer
from glovebox.client.transfer.files import Progress
from glovebox.errors import FileError, GloveboxError, NoSuchFile, RangeNotSatisfiable
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.file_info import FileChange, FileInfo, FileList, PathExists, Unpacked
from glovebox.protocol.files import GlobAction, GrepAction, GrepMatch
from glovebox.protocol.observations import ErrorObservation

#: Seconds for a whole transfer.
_TRANSFER_LIMIT = 3600.0
_BYTES = {"Content-Type": "application/octet-stream"}
_PIECE = 1 << 19
_PAGE = 1_000
_SEARCH_PAGE = 10_000


class AsyncFileWatch(ItemStream[FileChange]):
    """The changes below a path, until it is closed; once `async with` has begun, none is missed.

    If there were too many to report, or the connection broke, the path itself is reported as modified:
    anything below it may have changed.
    """

    def __init__(self, link: Link, path: str, *, recursive: bool) -> None:
        self._link = link
        self._path = path
        self._query = {"path": path, "recursive": "true" if recursive else "false"}
        self._begun = False
        self._pending = self._follow()
        super().__init__(self._changes())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path!r}>"

    async def __aenter__(self) -> Self:
        if not self._begun:
            await anext(self._pending)  # the first one only says that it is watched
        return self

    async def aclose(self) -> None:
        """Stop watching, and close the connection. Idempotent."""
        await super().aclose()
        await self._pending.aclose()

    async def _changes(self) -> AsyncGenerator[FileChange, None]:
        async with contextlib.aclosing(self._pending):
            async for changes in self._pending:
                for change in changes:
                    yield change

    async def _follow(self) -> AsyncGenerator[list[FileChange], None]:
        anything = [FileChange(path=self._path, change="modified", kind="directory")]
        events = self._link.follow("/files/watch", lambda: self._query, last="")
        async with contextlib.aclosing(events):
            async for event in events:
                if event.event == "changes":
                    yield decode_list(event.data, FileChange)
                elif event.event == "overflow":
                    yield anything
                elif event.event == "ready":
                    yield anything if self._begun else []
                    self._begun = True


class AsyncBoxFiles:
    """`box.files`: reads, writes, lists, copies and watches the files of a box.

    Errors are those of Python as well: a missing file raises `NoSuchFile`, which is a `FileNotFoundError`.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    async def read(self, path: str) -> bytes:
        """The content of a file, up to 256 MB; `stream` and `download` have no limit."""
        return await self._link.send("GET", "/files/content", {"path": path}, limit=_TRANSFER_LIMIT)

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The content of a file as text."""
        return (await self.read(path)).decode(encoding)

    async def stream(self, path: str, offset: int = 0) -> AsyncGenerator[bytes, None]:
        """The content of a file of any size, in pieces, from `offset` on.

        Raises:
            FileChanged: the file was replaced while it was read.
        """
        connection = await self._link.connection()
        patience, position, etag = Patience(connection.patience), offset, ""
        while True:
            headers = {"Range": f"bytes={position}-"} if position else {}
            if etag:
                headers["If-Match"] = etag
            try:
                response = await connection.open(
                    "GET", "/files/content", query={"path": path}, headers=headers, silence=SILENCE
                )
                etag = response.headers.get("ETag", "")
                try:
                    while piece := await connection.piece(response):
                        patience.reset()
                        position += len(piece)
                        yield piece
                finally:
                    response.release()
            except RangeNotSatisfiable:
                return
            except Lost as lost:
                await patience.wait(lost)
            else:
                return

    async def write(
        self, path: str, content: str | bytes | BinaryIO, *, mode: int | None = None, parents: bool = True
    ) -> FileInfo:
        """Replace the content of a file, or make it, with missing directories unless `parents` is false.

        `content` is text, bytes, or an open binary file, which is sent in pieces. `mode` are permission bits.
        """
        if isinstance(content, str | bytes):
            data = content.encode() if isinstance(content, str) else content
            return await self._put(path, data, mode, parents=parents)
        return await self._put(path, _pieces(content), mode, parents=parents)

    async def stat(self, path: str) -> FileInfo:
        """What is at a path: kind, size, permissions, owner, time."""
        return await self._link.ask(FileInfo, "GET", "/files/stat", query={"path": path})

    async def list(self, path: str = ".", *, depth: int = 1) -> builtins.list[FileInfo]:
        """What is in a directory, and with `depth` in those below it."""
        found: list[FileInfo] = []
        query = {"path": path, "depth": str(depth), "limit": str(_PAGE)}
        while True:
            page = await self._link.ask(FileList, "GET", "/files/list", query=query)
            found += page.entries
            if page.next is None:
                return found
            query["after"] = page.next

    async def exists(self, path: str) -> bool:
        """Whether something is at a path; links are followed."""
        return (await self._kind(path)).exists

    async def mkdir(self, path: str, *, parents: bool = True, mode: int | None = None) -> None:
        """Make a directory, and with `parents` those above it. It may be there already."""
        await self._post("mkdir", {"path": path, "parents": parents, "mode": mode})

    async def remove(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive` a directory and all in it."""
        await self._post("remove", {"path": path, "recursive": recursive, "missing_ok": missing_ok})

    async def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Give a file or directory another path."""
        await self._post("rename", {"source": source, "target": target, "overwrite": overwrite})

    async def chmod(
        self, path: str, mode: int | None = None, *, owner: str = "", recursive: bool = False
    ) -> None:
        """Change permission bits (`0o755`), the owner (`user:group`), or both."""
        await self._post("chmod", {"path": path, "mode": mode, "owner": owner, "recursive": recursive})

    async def glob(self, pattern: str, path: str = ".") -> builtins.list[str]:
        """The files that match `*.py`, `src/**/test_*.py`, `{a,b}/*.ts`; newest first.

        A pattern without a slash matches names at any depth below `path`. Paths begin with `path` as it was
        given, as those of `pathlib` do: by default they are relative to the workspace.
        """
        found, offset = [], 0
        base = await self._absolute(path)
        while True:
            action = GlobAction(
                pattern=pattern, path=base, respect_gitignore=False, offset=offset, limit=_SEARCH_PAGE
            )
            page = await self._do(action)
            found += [_as_given(match, base, path) for match in page.matches]
            if page.next_offset is None:
                return found
            offset = page.next_offset

    async def grep(
        self, pattern: str, path: str = ".", *, include: str | None = None, ignore_case: bool = False
    ) -> builtins.list[GrepMatch]:
        """The lines that match a regular expression, in files that match `include`.

        Hidden files and what `.gitignore` excludes are left out. Paths are like those of `glob`.
        """
        found, offset = [], 0
        base = await self._absolute(path)
        while True:
            action = GrepAction(
                pattern=pattern, path=base, include=include, ignore_case=ignore_case,
                offset=offset, limit=_SEARCH_PAGE,
            )  # fmt: skip
            page = await self._do(action)
            for match in page.matches:
                found.append(msgspec.structs.replace(match, path=_as_given(match.path, base, path)))
            if page.next_offset is None:
                return found
            offset = page.next_offset

    async def upload(
        self, source: str | os.PathLike[str], directory: str = ".", *, progress: Progress | None = None
    ) -> str:
        """Put a file or a directory of this machine into a directory of the box; its path there.

        `progress(done, total)` is called with bytes. Links that lead out of the directory are not sent.

        Raises:
            FileNotFoundError: the source is not there.
        """
        is_directory = await asyncio.to_thread(Path(source).is_dir)
        sent = await transfer.open_source(source, recursive=is_directory, progress=progress)
        target = posixpath.join(directory, sent.name)
        try:
            if not is_directory:
                mode = 0o755 if sent.is_executable else None
                return (await self._put(target, sent, mode, parents=True)).path
            unpacked = await self._send("/files/archive", {"path": directory, "format": "zip"}, sent)
        except GloveboxError:
            if sent.failure is not None:  # the connection only knows that it broke off
                raise sent.failure from None
            raise
        return posixpath.join(decode(unpacked, Unpacked).path, sent.name)

    async def download(
        self, path: str, directory: str | os.PathLike[str] = ".", *, progress: Progress | None = None
    ) -> Path:
        """Put a file or a directory of the box into a directory of this machine; its path here.

        `progress(done, total)` is called with bytes; `total` is None while it is not known.
        """
        known = await self._kind(path)
        if not known.exists:
            raise NoSuchFile(f"There is no {path} in the box.")
        absolute = await self._absolute(path)
        target = Path(directory) / posixpath.basename(absolute)
        if known.kind == "directory":
            await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
            await transfer.download_directory(self._link.runtime, path, target, progress=progress)
        else:
            await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
            await self._receive(path, target, progress)
        return target

    def watch(self, path: str = ".", *, recursive: bool = True) -> AsyncFileWatch:
        """The changes of files below a path, as they happen: an iterator and a context manager."""
        return AsyncFileWatch(self._link, path, recursive=recursive)

    async def _receive(self, path: str, target: Path, progress: Progress | None) -> None:
        """Write a file next to its place, and put it there when it is complete."""
        total = (await self.stat(path)).size
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        with contextlib.ExitStack() as unfinished:
            file = unfinished.enter_context(await asyncio.to_thread(partial.open, "xb"))
            unfinished.callback(partial.unlink)
            done = 0
            async for piece in self.stream(path):
                await asyncio.to_thread(file.write, piece)
                done += len(piece)
                if progress is not None:
                    progress(done, max(total, done))
            await asyncio.to_thread(file.close)
            await asyncio.to_thread(partial.replace, target)
            unfinished.pop_all()

    async def _put(
        self, path: str, content: bytes | AsyncIterable[bytes], mode: int | None, *, parents: bool
    ) -> FileInfo:
        query = {"path": path, "parents": "true" if parents else "false"}
        if mode is not None:
            query["mode"] = f"{mode:o}"
        return decode(await self._send("/files/content", query, content), FileInfo)

    async def _send(
        self, endpoint: str, query: dict[str, str], content: bytes | AsyncIterable[bytes]
    ) -> bytes:
        connection = await self._link.connection()
        return await connection.request(
            "PUT", endpoint,
            query=query, body=content, headers=_BYTES, limit=_TRANSFER_LIMIT,
            repeatable=isinstance(content, bytes),
        )  # fmt: skip

    async def _kind(self, path: str) -> PathExists:
        return await self._link.ask(PathExists, "GET", "/files/exists", query={"path": path})

    async def _post(self, what: str, body: dict[str, object]) -> None:
        await self._link.send("POST", f"/files/{what}", None, body)

    async def _absolute(self, path: str) -> str:
        await self._link.connection()
        if path == "~" or path.startswith("~/"):
            return (await self.stat(path)).path
        return posixpath.normpath(posixpath.join(self._link.runtime.workspace, path))

    async def _do(self, action: Action[ObservationT]) -> ObservationT:
        answer = await self._link.runtime.execute(action)
        if isinstance(answer, ErrorObservation):
            raise FileError(answer.content)
        return answer


def _as_given(found: str, base: str, path: str) -> str:
    """A path below a base, beginning with that base as the caller has named it."""
    inside = posixpath.relpath(found, base)
    return found if inside.startswith("../") else posixpath.normpath(posixpath.join(path, inside))


async def _pieces(file: BinaryIO) -> AsyncGenerator[bytes, None]:
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece
