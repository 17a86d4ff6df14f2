"""Runs an action once per idempotency key, however often it is asked for, and across restarts of the box."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from glovebox.errors import KeyReused
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.state_files import LineFile, read_lines

log = logging.getLogger(__name__)

#: `run(action_id, resumed)`: carries out the action; its result is JSON.
Run = Callable[[str, bool], Awaitable[bytes]]


class KeyedAction(msgspec.Struct, eq=False):
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
        self._kept: OrderedDict[str, KeyedAction] = OrderedDict()
        self._total = 0
        self._file = LineFile(path) if path else None
        if self._file is not None:
            self._load(self._file)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def begin(self, key: str, fingerprint: str, run: Run) -> KeyedAction:
        """The action of this key; `run` is called only if there is none, or a restart interrupted it.

        Raises:
            KeyReused: the key came with another action before.
        """
        entry = self._kept.get(key)
        if entry is None:
            entry = KeyedAction(uuid.uuid4().hex, fingerprint)
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

    async def _finish(self, key: str, entry: KeyedAction, running: Awaitable[bytes]) -> bytes:
        result = await running
        entry.result = result
        self._total += len(result)
        self._write(_Line(key=key, result=msgspec.Raw(result)))
        self._forget()
        return result

    def _write(self, line: _Line) -> None:
        if self._file is None:
            return
        self._append(self._file, line)
        if self._file.size > self._keep_size:
            self._put_aside(self._file)

    def _append(self, file: LineFile, line: _Line) -> None:
        try:
            file.append(msgspec.json.encode(line))
        except OSError as error:
            log.warning("An answer will not survive a restart: %s", error)

    def _put_aside(self, full: LineFile) -> None:
        """Begin a new file. The full one replaces the one before, whose answers are too old to be remembered.

        So nothing ever has to be copied while the box serves but what still runs.
        """
        with contextlib.suppress(OSError):
            os.replace(full.path, _former(full))
        full.close()
        self._file = LineFile(full.path)
        for key, entry in self._kept.items():
            if entry.result is None:
                self._append(self._file, _begun(key, entry))

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

    def _load(self, file: LineFile) -> None:
        """Take over what an earlier server left."""
        root = os.path.dirname(file.path)
        for line in [*read_lines(_former(file), root, _decode), *read_lines(file.path, root, _decode)]:
            entry, result = self._kept.get(line.key), bytes(line.result)
            if not result and (entry is None or entry.action_id != line.action_id):
                self._drop(line.key)  # forgotten in its time, and used anew
                self._kept[line.key] = KeyedAction(line.action_id, line.fingerprint)
            elif result and entry is not None and entry.result is None:
                entry.result = result
                self._total += len(result)
        self._forget()
        try:
            file.replace(msgspec.json.encode(line) for line in self._lines())
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_former(file))
        except OSError as error:
            log.warning("Answers cannot be kept in %s: %s", file.path, error)

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


_decode = json_decoder(_Line).decode


def _begun(key: str, entry: KeyedAction) -> _Line:
    return _Line(key=key, fingerprint=entry.fingerprint, action_id=entry.action_id)


def _former(file: LineFile) -> str:
    return f"{file.path}.old"
