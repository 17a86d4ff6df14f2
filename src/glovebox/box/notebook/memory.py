"""What is known of kernels, for the server that comes after this one."""

from __future__ import annotations

import asyncio
import logging
import os

import msgspec

from glovebox.box.notebook.wire import ConnectionInfo
from glovebox.box.threads import Threads
from glovebox.decoding import decode_json
from glovebox.protocol.base import Message

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


class Memory:
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
        """Remember a kernel."""
        self._saved[saved.name] = saved
        self._write_soon()

    def forget(self, name: str) -> None:
        """Forget one."""
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
                await self._threads.run(_replace, path, data)
            except OSError as error:
                log.warning("kernels will not be found after a restart of the server: %s", error)


def _read(path: str) -> dict[str, Saved]:
    try:
        with open(path, "rb") as file:
            return decode_json(file.read(), dict[str, Saved])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        log.warning("what was saved of kernels cannot be read: %s", error)
        return {}


def _replace(path: str, data: bytes) -> None:
    temporary = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(data)
    os.replace(temporary, path)
