"""`/files/watch` of a window: changes of files by its user and by other programs, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.files.endpoints.request_paths import query_path
from glovebox.box.files.endpoints.watch import MOST_WATCHES
from glovebox.errors import (
    FileError,
    NoSuchFile,
    NotADirectory,
    PermissionDenied,
    TooManyWatches,
    UnsupportedAction,
)
from glovebox.http import requests
from glovebox.http.sse import Stream, message
from glovebox.hub.window.files import absolute
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.json_codec import decode_json
from glovebox.protocol.file_info import FileChange, WatchReady
from glovebox.protocol.window import Done, Watch, WatchReport

#: More reports that were not taken are an overflow.
_MOST_REPORTS = 1_000
_ERRORS = {
    "not_found": NoSuchFile,
    "not_directory": NotADirectory,
    "outside_workspace": PermissionDenied,
}


class _Reports:
    """Reports of a window that no client has read yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[WatchReport] = asyncio.Queue()
        self._rest = ""
        self.take = self._queue.get

    def add(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            try:
                report = decode_json(line.encode(), WatchReport)
            except (msgspec.DecodeError, UnicodeError):  # the window had more to tell than it keeps
                report = WatchReport(overflow=True)
            if self._queue.qsize() >= _MOST_REPORTS:
                while not self._queue.empty():
                    self._queue.get_nowait()
                report = WatchReport(overflow=True)
            self._queue.put_nowait(report)


class WindowWatch:
    """The endpoint. The window watches only while a client does."""

    def __init__(self, hands: Hands, workspace: Callable[[], str], closing: asyncio.Event) -> None:
        self._hands = hands
        self._workspace = workspace
        self._closing = closing
        self._open = 0

    async def __call__(self, request: Request) -> Response:
        """Follow the changes until the client goes."""
        path = absolute(self._workspace(), query_path(request))
        events = self._events(path, requests.flag(request, "recursive", True))
        await anext(events)  # raises what is wrong before the answer begins
        return Stream(events, closing=self._closing)

    async def _events(self, path: str, recursive: bool) -> AsyncGenerator[bytes, None]:
        """First nothing, when the window watches; then its events."""
        if "watch" not in self._hands.window.capabilities:
            raise UnsupportedAction(
                "The extension in this VS Code window is too old to watch files. Update it."
            )
        if self._open >= MOST_WATCHES:
            raise TooManyWatches(f"{MOST_WATCHES} watches are open already. End one of them.")
        self._open += 1
        reports = _Reports()
        order = Watch(path=path, recursive=recursive)
        watching = asyncio.ensure_future(self._hands.do(order, Done, limit=None, printed=reports.add))
        try:
            await _next(reports, watching)
            yield b""
            yield message("ready", WatchReady(path=path, directories=1))
            while True:
                report = await _next(reports, watching)
                if report.overflow:
                    yield message("overflow", {})
                if report.changes:
                    yield message(
                        "changes", [FileChange(path=one.path, change=one.change) for one in report.changes]
                    )
        finally:
            self._open -= 1
            watching.cancel()
            await asyncio.wait([watching])


async def _next(reports: _Reports, watching: asyncio.Future[Done]) -> WatchReport:
    """The next report.

    Raises:
        FileError: the window refuses.
        WindowError: it is lost, or does not answer.
    """
    taking = asyncio.ensure_future(reports.take())
    first: list[asyncio.Future[Any]] = [taking, watching]
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if taking.done():
            return taking.result()
        await watching
        raise FileError("The window has stopped watching.")
    except OrderRefused as refused:
        raise _ERRORS.get(refused.code, FileError)(str(refused)) from refused
    finally:
        taking.cancel()
