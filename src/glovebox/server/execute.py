"""`POST /execute_action`: bytes to an action, its outcome to bytes."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Awaitable, Coroutine
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.box import Box
from glovebox.box.executor import Call
from glovebox.box.replays import Entry, Replays
from glovebox.decoding import json_decoder
from glovebox.errors import GloveboxError, Interrupted, KeyReused
from glovebox.http.responses import ERROR_HEADER, ErrorBody, action_failed, to_json
from glovebox.protocol.base import Action, Message
from glovebox.protocol.openhands import Refusal
from glovebox.protocol.terminal import CommandInfo
from glovebox.server.asking import Asked, decode_asked
from glovebox.server.tools import called_action

_INTERRUPTED = (
    "The box was restarted while this action ran, and whether it took effect is not known. "
    "Look, and send it again with a new key."
)


class Details(Message):
    """What the box knows of an action beyond its observation."""

    action_id: str
    started: float
    seconds: float
    #: The command behind it, if it ran one: its state, what it asks for, its bill.
    command: CommandInfo | None = None


class Answer(Message):
    """How an action ended, as it is told. A failure is kept like a success: told again, not tried again."""

    status: int
    #: The code of a failure.
    code: str = ""
    #: The name of the action, if it was known to be one.
    action: str = ""
    body: msgspec.Raw
    #: As JSON: an answer may be told by a later version, which knows other details.
    details: msgspec.Raw

    def told(self, *, details: bool) -> bytes:
        """The body to send."""
        body = bytes(self.body)
        if not details or self.code:
            return body
        return b'%b,"details":%b}' % (body[:-1], bytes(self.details))


class Running(msgspec.Struct):
    """An action under way, for those who follow it."""

    id: str
    #: The number of the last event before it.
    after: int
    #: Its name, once it is known to be an action.
    action: str = ""


class Executions:
    """Carries out what is asked for, with the memory of what was already answered."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._replays = Replays(box.state_file("answers"))
        self._running: dict[str, Running] = {}
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._decoder = json_decoder(Answer)

    async def answer(self, asked: Asked) -> Answer:
        """Carry out an action, or tell again how it ended.

        Raises:
            KeyReused: the key belongs to another action.
        """
        if asked.idempotency_key is None:
            return await self._run(asked.action, uuid.uuid4().hex)
        return self._decoder.decode(await self._kept(asked, asked.idempotency_key).wait())

    def begin(self, asked: Asked) -> tuple[Running, asyncio.Future[Answer]]:
        """The same for those who follow: the action goes on without them.

        Raises:
            KeyReused: the key belongs to another action.
        """
        if asked.idempotency_key is None:
            running = self._new(uuid.uuid4().hex)
            return running, self._task(self._run(asked.action, running.id))
        entry = self._kept(asked, asked.idempotency_key)

        # One that has ended has no events to follow.
        running = self._running.get(entry.action_id) or Running(
            entry.action_id, self._box.executor.events.last, asked.name
        )

        async def wait() -> Answer:
            answer = self._decoder.decode(await entry.wait())
            running.action = running.action or answer.action
            return answer

        return running, self._task(wait())

    def _task(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # a follower may go away, and nobody else would hold it
        task.add_done_callback(self._tasks.discard)
        return task

    def _kept(self, asked: Asked, key: str) -> Entry:
        async def result(action_id: str, resumed: bool) -> bytes:
            return to_json(await self._run(asked.action, action_id, resumed=resumed))

        def run(action_id: str, resumed: bool) -> Awaitable[bytes]:
            self._new(action_id)
            return result(action_id, resumed)

        fingerprint = hashlib.sha256(msgspec.json.encode(asked.action, order="deterministic")).hexdigest()
        return self._replays.begin(key, fingerprint, run)

    def _new(self, action_id: str) -> Running:
        running = self._running.get(action_id)
        if running is None:
            running = self._running[action_id] = Running(action_id, self._box.executor.events.last)
        return running

    async def _run(self, envelope: dict[str, Any], action_id: str, *, resumed: bool = False) -> Answer:
        running = self._new(action_id)
        call = self._box.executor.call(action_id, resumed=resumed)
        started = time.time()
        beside: dict[str, Any] = {}
        try:
            if "action" in envelope or "observation" in envelope:
                action = self._box.codec.decode_action(envelope)
            else:
                action, beside = await self._called(envelope)
            running.action = action.action
            if resumed and not action.resumable:
                raise Interrupted(_INTERRUPTED)
            observation = await self._box.executor.execute(action, call)
        except Refusal as refusal:
            observation = refusal.observation
        except GloveboxError as error:
            body = to_json(ErrorBody(detail=f"Internal server error: {error}"))
            return Answer(
                status=500,
                code=error.code,
                action=running.action,
                body=msgspec.Raw(body),
                details=_details(call, started),
            )
        finally:
            del self._running[action_id]
        told = self._box.codec.encode_observation(observation)
        told.update(beside)
        return Answer(
            status=200,
            action=running.action,
            body=msgspec.Raw(to_json(told)),
            details=_details(call, started),
        )

    async def _called(self, envelope: dict[str, Any]) -> tuple[Action[Any], dict[str, Any]]:
        """The action that a tool call means, and what its answer says of the call."""
        found = await called_action(self._box.toolbox, envelope)
        return found or (self._box.codec.decode_action(envelope), {})  # which says what else it is


class ExecuteAction:
    """The endpoint."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    async def __call__(self, request: Request) -> Response:
        """Decode, execute, encode."""
        asked = await decode_asked(request)
        if isinstance(asked, Response):
            return asked
        try:
            answer = await self._executions.answer(asked)
        except KeyReused as error:
            return action_failed(error)
        response = Response(answer.told(details=asked.details), answer.status, media_type="application/json")
        if answer.code:
            response.headers[ERROR_HEADER] = answer.code
        return response


def _details(call: Call, started: float) -> msgspec.Raw:
    seconds = time.monotonic() - call.started
    details = Details(action_id=call.id, started=started, seconds=seconds, command=call.command)
    return msgspec.Raw(to_json(details))
