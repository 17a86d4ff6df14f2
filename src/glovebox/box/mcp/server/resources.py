"""The files of the workspace as MCP resources."""

from __future__ import annotations

import base64
import datetime
import errno
import mimetypes
import os
import stat
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from glovebox.box.executor import Executor
from glovebox.box.threads import Threads
from glovebox.errors import GloveboxError
from glovebox.protocol.files import GlobAction, GlobObservation

Context = ServerRequestContext[Any, Any]

#: How many files a page lists.
PAGE = 500

_TEMPLATE = types.ResourceTemplate(
    uri_template="file:///{+path}",
    name="workspace",
    title="File of the workspace",
    description="A file, or the listing of a directory, by its absolute path.",
)


class WorkspaceResources:
    """Lists and reads files. Like `glob`, the list leaves out hidden and ignored ones."""

    def __init__(self, executor: Executor, threads: Threads, root: str) -> None:
        self._executor = executor
        self._threads = threads
        self._root = root
        self._workspace = Workspace(root)

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """A page of the files, newest first."""
        offset = _offset(params.cursor if params else None)
        glob = GlobAction(pattern="*", path=self._root, offset=offset, limit=PAGE)
        try:
            found = await self._executor.execute(glob)
        except GloveboxError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        if not isinstance(found, GlobObservation):
            raise MCPError(types.INTERNAL_ERROR, valid(found.content))
        files = await self._threads.run(self._workspace.describe, found.matches)
        return types.ListResourcesResult(
            resources=[_resource(file) for file in files],
            next_cursor=None if found.next_offset is None else _cursor(found.next_offset),
        )

    async def templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The template of the address of a file."""
        return types.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """A file as text if it is text, else as base64; a directory as the list of its names."""
        uri = str(params.uri)
        try:
            data, media_type = await self._threads.run(self._workspace.read, uri)
        except Unreadable as error:
            raise MCPError(types.INVALID_PARAMS, valid(str(error)), {"uri": uri}) from error
        content: types.TextResourceContents | types.BlobResourceContents
        if isinstance(data, str):
            content = types.TextResourceContents(uri=uri, mime_type=media_type, text=data)
        else:
            content = types.BlobResourceContents(
                uri=uri, mime_type=media_type, blob=base64.b64encode(data).decode()
            )
        return types.ReadResourceResult(contents=[content])


def _resource(file: WorkspaceFile) -> types.Resource:
    return types.Resource(
        uri=file.uri,
        name=file.name,
        title=os.path.basename(file.name),
        mime_type=file.media_type,
        size=file.size,
        annotations=types.Annotations(last_modified=file.modified),
    )


def _cursor(offset: int) -> str:
    return base64.urlsafe_b64encode(b"%d" % offset).decode()


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        return max(0, int(base64.urlsafe_b64decode(cursor.encode())))
    except ValueError as error:
        raise MCPError(types.INVALID_PARAMS, "This cursor is none that was given out here.") from error


#: The largest file that is read.
LARGEST = 16 << 20
#: The most names of a directory.
MOST_NAMES = 10_000

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Unreadable(Exception):
    """An address cannot be read; the text says why."""


class WorkspaceFile(NamedTuple):
    """A file, as it is listed."""

    uri: str
    #: Its path below the workspace.
    name: str
    size: int
    #: When it changed, in ISO 8601.
    modified: str
    media_type: str | None


class Workspace:
    """Files and directories that really lie below `root`, wherever links lead."""

    def __init__(self, root: str) -> None:
        self._root = root

    def describe(self, paths: Iterable[str]) -> list[WorkspaceFile]:
        """The paths that can be read as files."""
        top = os.path.realpath(self._root)
        return [found for path in paths if (found := self._describe(path, top))]

    def _describe(self, path: str, top: str) -> WorkspaceFile | None:
        try:
            real = os.path.realpath(path, strict=True)
            seen = os.stat(real)
        except OSError:  # it is gone, or its name is invalid
            return None
        if not stat.S_ISREG(seen.st_mode) or not _below(real, top):
            return None
        changed = datetime.datetime.fromtimestamp(seen.st_mtime, datetime.UTC)
        return WorkspaceFile(
            uri="file://" + quote(os.fsencode(path)),
            name=os.path.relpath(path, self._root),
            size=seen.st_size,
            modified=changed.isoformat(timespec="seconds"),
            media_type=mimetypes.guess_type(path)[0],
        )

    def read(self, uri: str) -> tuple[str | bytes, str]:
        """The content at an address, text or bytes, and its media type.

        Raises:
            Unreadable: it cannot be read.
        """
        path = _path(uri)
        try:
            if not _below(os.path.realpath(path), os.path.realpath(self._root)):
                raise Unreadable(f"{uri} is not in the workspace, {self._root}.")
            real = os.path.realpath(path, strict=True)
            mode = os.stat(real).st_mode
            if stat.S_ISDIR(mode):
                return self._listing(real, uri), "inode/directory"
            if not stat.S_ISREG(mode):
                kind = _KINDS.get(stat.S_IFMT(mode), "neither a file nor a directory")
                raise Unreadable(f"{uri} is {kind}, which cannot be read as a resource.")
            data = self._content(real, uri)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise Unreadable(f"There is no file {uri}.") from error
            raise Unreadable(f"{uri} cannot be read: {error.strerror}.") from error
        media_type = mimetypes.guess_type(path)[0]
        try:
            if b"\0" not in data:
                return data.decode(), media_type or "text/plain"
        except UnicodeDecodeError:
            pass
        return data, media_type or "application/octet-stream"

    def _content(self, real: str, uri: str) -> bytes:
        with open(self._open(real, uri), "rb") as file:
            seen = os.fstat(file.fileno())
            if not stat.S_ISREG(seen.st_mode):
                raise Unreadable(f"{uri} was replaced while it was read.")
            data = file.read(LARGEST + 1) if seen.st_size <= LARGEST else b""
        if seen.st_size > LARGEST or len(data) > LARGEST:
            raise Unreadable(
                f"{uri} has {max(seen.st_size, len(data)):,} bytes, and a resource has at most {LARGEST:,}. "
                "Use a tool to read parts of it."
            )
        return data

    def _listing(self, real: str, uri: str) -> str:
        """The names in a directory, one per line; directories end with a slash."""
        descriptor = self._open(real, uri, os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as entries:
                names = sorted(
                    os.fsencode(entry.name).decode("utf-8", "replace") + ("/" if entry.is_dir() else "")
                    for entry in entries
                )
        finally:
            os.close(descriptor)
        shown = names[:MOST_NAMES]
        if len(names) > len(shown):
            shown.append(f"[{len(names) - len(shown):,} more]")
        return "".join(f"{name}\n" for name in shown)

    def _open(self, real: str, uri: str, flags: int = 0) -> int:
        """Open a path that was checked, and check where it leads now: it may have been replaced."""
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | flags)
        if _below(_real_path(descriptor, real), os.path.realpath(self._root)):
            return descriptor
        os.close(descriptor)
        raise Unreadable(f"{uri} was replaced while it was read.")


def _path(uri: str) -> str:
    """The path of an address. A `?` or `#` belongs to the name: addresses of files have neither part."""
    scheme, colon, rest = uri.partition(":")
    host, path = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        path = slash + path
    if scheme.lower() != "file" or not colon or host not in ("", "localhost") or not path.startswith("/"):
        raise Unreadable(f"{uri} is not the address of a file here; write for example file:///path/to/file.")
    decoded = unquote_to_bytes(path)
    if b"\0" in decoded:
        raise Unreadable(f"{uri} names no file: it has a NUL character.")
    return os.fsdecode(decoded)


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _real_path(descriptor: int, otherwise: str) -> str:
    """Where an open file really is, on Linux."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return otherwise


def valid(text: str) -> str:
    """Text that can be sent: halves of surrogate pairs, from odd file names, become U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
