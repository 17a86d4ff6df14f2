"""The files of the workspace as MCP resources."""

from __future__ import annotations

import base64
import os
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from glovebox.box.executor import Executor
from glovebox.box.mcp.own.text import valid
from glovebox.box.mcp.own.workspace import Found, Unreadable, Workspace
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


class Resources:
    """Lists and reads them. The listing leaves out what `glob` does: hidden and ignored files."""

    def __init__(self, executor: Executor, threads: Threads, root: str) -> None:
        self._executor = executor
        self._threads = threads
        self._root = root
        self._workspace = Workspace(root)

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """A page of the files, those that changed last first."""
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
        """How the address of a file is made."""
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


def _resource(file: Found) -> types.Resource:
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
