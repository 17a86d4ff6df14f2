"""Runs an action once per idempotency key, however often the key comes, and across restarts of the box."""

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


class ActionAnswer(Message):
    """The response to an action. A failure is kept like a success: repeated, not tried again."""

    status: int
    #: The code of a failure.
    code: str = ""
    #: The name of the action, if it was known to be one.
    action: str = ""
    body: msgspec.Raw
    #: As JSON: a later version may repeat an answer, and knows other details.
    details: msgspec.Raw

    @property
    def size(self) -> int:
        return memoryview(self.body).nbytes + memoryview(self.details).nbytes

    def encode(self, *, details: bool) -> bytes:
        body = bytes(self.body)
        if not details or self.code:
            return body
        return b'%b,"details":%b}' % (body[:-1], bytes(self.details))


#: `run(action_id, resumed)` carries out the action.
Run = Callable[[str, bool], Awaitable[ActionAnswer]]


class KeyedAction(msgspec.Struct, eq=False):
    """An action that came with a key. Without task and answer it was begun before a restart."""

    action_id: str
    fingerprint: str
    answer: ActionAnswer | None = None
    task: asyncio.Task[ActionAnswer] | None = None

    async def wait(self) -> ActionAnswer:
        """The answer. A waiting caller that is cancelled does not stop the action."""
        if self.answer is not None:
            return self.answer
        assert self.task is not None
        return await asyncio.shield(self.task)


class Replays:
    """Remembers the newest answers by key, in bounded memory. A running action is never forgotten.

    With a file, the beginning and the answer of an action are also written there, before the caller gets it.
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
        elif entry.answer is None and entry.task is None:
            entry.task = asyncio.create_task(self._finish(key, entry, run(entry.action_id, True)))
        return entry

    async def _finish(self, key: str, entry: KeyedAction, running: Awaitable[ActionAnswer]) -> ActionAnswer:
        answer = entry.answer = await running
        self._total += answer.size
        self._write(_Line(key=key, result=answer))
        self._forget()
        return answer

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
            if entry.answer is None:
                self._append(self._file, _begun(key, entry))

    def _forget(self) -> None:
        for key, entry in list(self._kept.items()):
            if len(self._kept) <= self._keep and self._total <= self._keep_size:
                return
            interrupted = entry.task is None or entry.task.done()
            if entry.answer is not None or (interrupted and len(self._kept) > self._keep):
                self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._kept.pop(key, None)
        if entry is not None and entry.answer is not None:
            self._total -= entry.answer.size

    def _load(self, file: LineFile) -> None:
        root = os.path.dirname(file.path)
        for line in [*read_lines(_former(file), root, _decode), *read_lines(file.path, root, _decode)]:
            entry = self._kept.get(line.key)
            if line.result is None and (entry is None or entry.action_id != line.action_id):
                self._drop(line.key)  # forgotten in its time, and used anew
                self._kept[line.key] = KeyedAction(line.action_id, line.fingerprint)
            elif line.result is not None and entry is not None and entry.answer is None:
                entry.answer = line.result
                self._total += line.result.size
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
            if entry.answer is not None:
                yield _Line(key=key, result=entry.answer)


class _Line(Message, omit_defaults=True):
    """One line of the file: an action was begun, or it has ended with an answer."""

    key: str
    fingerprint: str = ""
    action_id: str = ""
    result: ActionAnswer | None = None


_decode = json_decoder(_Line).decode


def _begun(key: str, entry: KeyedAction) -> _Line:
    return _Line(key=key, fingerprint=entry.fingerprint, action_id=entry.action_id)


def _former(file: LineFile) -> str:
    return f"{file.path}.old"
