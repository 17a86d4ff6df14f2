"""`/files/watch`: changes below a directory, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.credentials import own_rights
from glovebox.box.files.disk.path_errors import shown
from glovebox.box.files.endpoints.request_paths import REFUSALS, RequestPaths, query_path
from glovebox.errors import TooManyWatches
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody
from glovebox.http.sse import EVENTS, Stream, described, message
from glovebox.protocol.file_info import WatchReady

if TYPE_CHECKING:
    from glovebox.box.files.disk.inotify import DirectoryWatch

#: Changes are gathered for so long after the first.
COALESCE_SECONDS = 0.05
MOST_WATCHES = 32
#: The most changes of one event.
_BATCH = 1_000


class WatchEndpoint:
    """The endpoint."""

    def __init__(self, workspace: RequestPaths, closing: asyncio.Event) -> None:
        self._workspace = workspace
        self._closing = closing
        self._open = 0

    async def __call__(self, request: Request) -> Response:
        """Follow the changes until the client goes."""
        events = self._events(query_path(request), requests.flag(request, "recursive", True))
        await anext(events)  # raises what is wrong before the answer begins
        return Stream(events, closing=self._closing)

    async def _events(self, text: str, recursive: bool) -> AsyncGenerator[bytes, None]:
        """First nothing, when the watch is there; then its events."""
        if self._open >= MOST_WATCHES:
            raise TooManyWatches(f"{MOST_WATCHES} watches are open already. End one of them.")
        self._open += 1
        watch = None
        try:
            watch = await self._workspace.run(text, lambda path: _open(path, recursive))
            yield b""
            yield message("ready", WatchReady(path=shown(watch.path), directories=watch.directories))
            while not watch.is_over:
                await _readable(watch.fd)
                await asyncio.sleep(COALESCE_SECONDS)
                changes = await self._workspace.threads.run(watch.collect)
                if changes is None:
                    yield message("overflow", {})
                    continue
                for start in range(0, len(changes), _BATCH):
                    yield message("changes", changes[start : start + _BATCH])
        finally:
            self._open -= 1
            if watch is not None:
                watch.close()


def _open(path: str, recursive: bool) -> DirectoryWatch:
    with own_rights():  # only loaded when it is needed
        from glovebox.box.files.disk.inotify import DirectoryWatch

    return DirectoryWatch(path, recursive=recursive)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def watch_endpoint(handle: Callable[[Request], Awaitable[Response]]) -> Endpoint:
    """The endpoint as it is served."""
    text = {"type": "string"}
    return Endpoint(
        "GET", "/files/watch", handle, "Changes below a directory",
        {200: Reply("Server-sent events, until the directory is gone.",
                    described("ready", "changes", "overflow"), EVENTS),
         **REFUSALS, 429: Reply("Too much is watched already.", ErrorBody)},
        description="`ready` when every change from now on is seen; `changes`, a list of `FileChange`, each "
        "path once; `overflow` when changes were lost: look again at what is there.",
        parameters=(
            Parameter("path", text, "A directory, or a file, which may be replaced.", required=True),
            Parameter("recursive", {"type": "boolean"}, "With the directories in it. Default: true."),
        ),
    )  # fmt: skip
