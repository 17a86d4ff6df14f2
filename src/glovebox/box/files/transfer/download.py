"""Answers with the content of files, sent as fast as they are read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glovebox.errors import GloveboxError
from glovebox.http.sse import disconnected

log = logging.getLogger(__name__)


class FileDownload(Response):
    """A body in pieces, each of which is made when the one before has been taken.

    If it cannot be completed, or not with the announced length, the connection is cut: the reader notices.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        *,
        media_type: str,
        status: int = 200,
    ) -> None:
        self._pieces = pieces
        self.status_code = status
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            async with contextlib.aclosing(self._pieces) as pieces:
                if scope["method"] != "HEAD":
                    async for piece in pieces:
                        if gone.done():
                            return
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except GloveboxError as error:
            # Returning without the rest makes the server close the connection.
            log.warning("A download was broken off: %s", error)
        finally:
            gone.cancel()


def attachment(filename: str) -> str:
    """A Content-Disposition that offers a file name, in the long form where the short one cannot say it."""
    quoted = quote(filename)
    if quoted == filename:
        return f'attachment; filename="{filename}"'
    return f"attachment; filename*=utf-8''{quoted}"
