"""What is known of kernels, for the server that comes after this one."""

from __future__ import annotations

import asyncio
import logging
import os

import msgspec

from glovebox.box.notebook.wire import ConnectionInfo
from glovebox.box.threads import Threads
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.state_files import read_document, write_document

log = logging.getLogger(__name__)


class Saved(Message):
    """A kernel: how to reach its process, and what is known of it."""

    name: str
    spec: str
    language: str
    #: The name of the process with its keeper.
    process: str
    connection: ConnectionInfo
    interpreter: str | None = None
    created: float
    #: How many processes it has had.
    processes: int
    restarts: int
    #: The directory of the shell that the kernel was last put into.
    synced: str


_decode = json_decoder(dict[str, Saved]).decode


class KernelState:
    """Keeps what was saved last, in a file too if there is one for it."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._path: str | None = None
        self._saved: dict[str, Saved] = {}
        self._changed = False
        self._writing: asyncio.Task[None] | None = None

    async def open(self, path: str | None) -> list[Saved]:
        """What was saved, by this server or the one before."""
        if path is not None and path != self._path:
            self._path = path
            self._saved = await self._threads.run(_read, path)
        return list(self._saved.values())

    def save(self, saved: Saved) -> None:
        self._saved[saved.name] = saved
        self._write_soon()

    def forget(self, name: str) -> None:
        if self._saved.pop(name, None):
            self._write_soon()

    async def settle(self) -> None:
        """Wait until everything is in the file."""
        if self._writing is not None:
            await self._writing

    def _write_soon(self) -> None:
        self._changed = True
        if self._path is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(self._path))

    async def _write(self, path: str) -> None:
        while self._changed:
            self._changed = False
            data = msgspec.json.encode(self._saved)
            try:
                await self._threads.run(write_document, path, data)
            except OSError as error:
                log.warning("kernels will not be found after a restart of the server: %s", error)


def _read(path: str) -> dict[str, Saved]:
    return read_document(path, os.path.dirname(path), _decode) or {}
