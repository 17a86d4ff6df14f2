"""Runs an action once per idempotency key, however often it is asked for, and across restarts of the box."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec

from glovebox.decoding import json_decoder
from glovebox.errors import KeyReused
from glovebox.protocol.base import Message

log = logging.getLogger(__name__)

#: `run(action_id, resumed)`: carries out the action; its result is JSON.
Run = Callable[[str, bool], Awaitable[bytes]]


class Entry(msgspec.Struct, eq=False):
    """An action that was asked for with a key. Without task and result it was begun before a restart."""

    action_id: str
    fingerprint: str
    result: bytes | None = None
    task: asyncio.Task[bytes] | None = None

    async def wait(self) -> bytes:
        """The result. Whoever waits may go away; the action goes on."""
        if self.result is not None:
            return self.result
        assert self.task is not None
        return await asyncio.shield(self.task)


class Replays:
    """Remembers the newest results by key, in bounded memory. A running action is never forgotten.

    With a file, what was begun and how it ended is also written there, before anybody is told.
    """

    def __init__(self, path: str | None = None, keep: int = 1000, keep_size: int = 16_000_000) -> None:
        self._keep = keep
        self._keep_size = keep_size
        self._kept: OrderedDict[str, Entry] = OrderedDict()
        self._total = 0
        self._file = _AnswerFile(path, keep_size) if path else None
        if self._file is not None:
            self._load(self._file)

    def begin(self, key: str, fingerprint: str, run: Run) -> Entry:
        """The action of this key; `run` is called only if there is none, or a restart interrupted it.

        Raises:
            KeyReused: the key came with another action before.
        """
        entry = self._kept.get(key)
        if entry is None:
            entry = Entry(uuid.uuid4().hex, fingerprint)
            self._kept[key] = entry
            self._write(_begun(key, entry))
            entry.task = asyncio.create_task(self._finish(key, entry, run(entry.action_id, False)))
        elif entry.fingerprint != fingerprint:
            raise KeyReused(
                f"The idempotency key {key!r} was used for a different action. "
                "Use a new key for a new action."
            )
        elif entry.result is None and entry.task is None:
            entry.task = asyncio.create_task(self._finish(key, entry, run(entry.action_id, True)))
        return entry

    async def _finish(self, key: str, entry: Entry, running: Awaitable[bytes]) -> bytes:
        result = await running
        entry.result = result
        self._total += len(result)
        self._write(_Line(key=key, result=msgspec.Raw(result)))
        self._forget()
        return result

    def _write(self, line: _Line) -> None:
        if self._file is not None and self._file.append(line):
            for key, entry in self._kept.items():
                if entry.result is None:
                    self._file.append(_begun(key, entry))

    def _forget(self) -> None:
        for key, entry in list(self._kept.items()):
            if len(self._kept) <= self._keep and self._total <= self._keep_size:
                return
            interrupted = entry.task is None or entry.task.done()
            if entry.result is not None or (interrupted and len(self._kept) > self._keep):
                self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._kept.pop(key, None)
        if entry is not None:
            self._total -= len(entry.result or b"")

    def _load(self, file: _AnswerFile) -> None:
        """Take over what an earlier server left."""
        for line in file.read():
            entry, result = self._kept.get(line.key), bytes(line.result)
            if not result and (entry is None or entry.action_id != line.action_id):
                self._drop(line.key)  # forgotten in its time, and used anew
                self._kept[line.key] = Entry(line.action_id, line.fingerprint)
            elif result and entry is not None and entry.result is None:
                entry.result = result
                self._total += len(result)
        self._forget()
        file.rewrite(self._lines())

    def _lines(self) -> Iterator[_Line]:
        for key, entry in self._kept.items():
            yield _begun(key, entry)
            if entry.result is not None:
                yield _Line(key=key, result=msgspec.Raw(entry.result))


class _Line(Message, omit_defaults=True):
    """One line of the file: an action was begun, or it has ended with a result."""

    key: str
    fingerprint: str = ""
    action_id: str = ""
    result: msgspec.Raw = msgspec.Raw()


def _begun(key: str, entry: Entry) -> _Line:
    return _Line(key=key, fingerprint=entry.fingerprint, action_id=entry.action_id)


class _AnswerFile:
    """Lines that survive a server that is killed.

    When the file has grown to `most` bytes it is put aside, replacing the one put aside before: what was in
    that one is too old to be remembered. So nothing ever has to be copied while the box serves.
    """

    def __init__(self, path: str, most: int) -> None:
        self._path = path
        self._aside = f"{path}.old"
        self._most = most
        self._size = 0
        #: The last line is not whole: the disk was full, say.
        self._torn = False
        self._decoder = json_decoder(_Line)

    def read(self) -> Iterator[_Line]:
        """Every line that is whole, the oldest first. Blocks."""
        for path in (self._aside, self._path):
            try:
                with open(path, "rb") as file:
                    for number, line in enumerate(file, 1):
                        try:
                            yield self._decoder.decode(line)
                        except (msgspec.DecodeError, UnicodeDecodeError):
                            log.warning("%s: line %d cannot be read and is left out", path, number)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("Answers from before the restart are lost: %s", error)

    def rewrite(self, lines: Iterable[_Line]) -> None:
        """Have these lines and no others. Blocks."""
        part = f"{self._path}.part"
        try:
            with open(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb"
            ) as file:
                file.writelines(_encoded(line) for line in lines)
            os.replace(part, self._path)
        except OSError as error:
            log.warning("Answers cannot be kept in %s: %s", self._path, error)
            return
        self._size = os.path.getsize(self._path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._aside)

    def append(self, line: _Line) -> bool:
        """Add a line; true if the file was put aside, so that what still matters has to be added again.

        A few kilobytes go to memory; the disk is not waited for.
        """
        data = (b"\n" if self._torn else b"") + _encoded(line)
        try:
            self._torn = self._write(data) < len(data)
        except OSError as error:
            log.warning("An answer will not survive a restart: %s", error)
        self._size += len(data)
        if self._size <= self._most:
            return False
        self._size = 0
        with contextlib.suppress(OSError):
            os.replace(self._path, self._aside)
        return True

    def _write(self, data: bytes) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        try:
            return os.write(descriptor, data)
        finally:
            os.close(descriptor)


def _encoded(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"
