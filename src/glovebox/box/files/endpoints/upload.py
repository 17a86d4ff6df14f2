"""The body of a request on its way to the disk, in pieces that threads write."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from starlette.requests import Request

from glovebox.box.files.endpoints.request_paths import RequestPaths, refusals
from glovebox.errors import TooLarge

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: What is gathered before it is written: one change of thread for many small reads.
_BATCH = 1 << 19


class Sink(Protocol[T_co]):
    """Where a body goes. Its methods block, but `close` never waits for a thread that is at work."""

    path: str

    def write(self, pieces: list[bytes]) -> None: ...

    def finish(self) -> T_co: ...

    def close(self) -> None:
        """Leave nothing behind that is not finished."""


async def receive_body(
    request: Request,
    workspace: RequestPaths,
    path: str,
    begin: Callable[[str], Sink[T]],
    most_bytes: int | None,
) -> T:
    """Write the body to what `begin` makes for the absolute path; returns what that finishes with.

    Raises:
        TooLarge: it has more than `most_bytes`.
        FileError: the system refused, or the path cannot be one.
        ClientDisconnect: the body did not come to its end.
    """
    most = math.inf if most_bytes is None else most_bytes
    upload = _Upload(workspace, path, begin)
    received, batch, waiting = int(request.headers.get("content-length", "0")), list[bytes](), 0
    try:
        if received > most:
            raise TooLarge(f"The upload is larger than {most} bytes")
        received = 0
        async for data in request.stream():
            received += len(data)
            if received > most:
                raise TooLarge(f"The upload is larger than {most} bytes")
            batch.append(data)
            waiting += len(data)
            if waiting >= _BATCH:
                await workspace.threads.run(upload.write, batch)
                batch, waiting = [], 0
        finished = await workspace.threads.run(upload.finish, batch)
        upload.ended = True
        return finished
    finally:
        await upload.close()


class _Upload(Generic[T]):
    """A body and its sink. A small body needs a thread once."""

    def __init__(self, workspace: RequestPaths, path: str, begin: Callable[[str], Sink[T]]) -> None:
        self._workspace = workspace
        self._path = path
        self._begin = begin
        self._sink: Sink[T] | None = None
        self.ended = False

    def write(self, pieces: list[bytes]) -> Sink[T]:
        if self._sink is None:
            path = self._workspace.absolute(self._path)
            with refusals(path):
                self._sink = self._begin(path)
            if self.ended:  # meanwhile
                self._sink.close()
        with refusals(self._sink.path):
            self._sink.write(pieces)
        return self._sink

    def finish(self, pieces: list[bytes]) -> T:
        sink = self.write(pieces)
        with refusals(sink.path):
            return sink.finish()

    async def close(self) -> None:
        """Leave nothing behind that has not ended, even if the request is cancelled or the box closes."""
        if self.ended:
            return
        self.ended = True
        if self._sink is not None:
            try:
                await asyncio.shield(self._workspace.threads.run(self._sink.close))
            except RuntimeError:  # the threads are gone
                self._sink.close()
