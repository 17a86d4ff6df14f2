"""`POST /execute_action`: bytes to an action, its outcome to bytes."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import secrets
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.box import Box
from glovebox.box.executor import Call
from glovebox.errors import GloveboxError, Interrupted, KeyReused, RequestError, TooDeep, WindowError
from glovebox.http.requests import check_depth, decode_json
from glovebox.http.responses import (
    ERROR_HEADER,
    ErrorBody,
    action_failed,
    error_response,
    invalid_request,
    refused,
    to_json,
)
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Action, Message
from glovebox.protocol.notebook import CellInfo
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.openhands import Refusal, encode_observation
from glovebox.protocol.terminal import CommandInfo
from glovebox.server.replays import ActionAnswer, KeyedAction, Replays
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
    #: The cell that it ran: how it ended, and with which exception.
    cell: CellInfo | None = None


class Running(msgspec.Struct):
    """An action under way, for clients that follow it."""

    id: str
    #: The number of the last event before it.
    after: int
    #: Its name, once it is known to be an action.
    action: str = ""


class Executions:
    """Carries out actions, and remembers the answers to those with an idempotency key."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._replays = Replays(box.state_file("answers"))
        self._running: dict[str, Running] = {}
        self._tasks: set[asyncio.Task[ActionAnswer]] = set()

    async def respond(self, request: Request) -> Response:
        asked = await decode_asked(request)
        if isinstance(asked, Response):
            return asked
        try:
            if asked.idempotency_key is None:
                answer = await self._run(asked.action, secrets.token_hex(16), details=asked.details)
            else:
                answer = await self._keyed(asked, asked.idempotency_key).wait()
        except KeyReused as error:
            return action_failed(error)
        response = Response(
            answer.encode(details=asked.details), answer.status, media_type="application/json"
        )
        if answer.code:
            response.headers[ERROR_HEADER] = answer.code
        return response

    def begin(self, asked: ExecuteRequest) -> tuple[Running, asyncio.Future[ActionAnswer]]:
        """Begin an action for a client that follows it; the action goes on without the client.

        Raises:
            KeyReused: the key belongs to another action.
        """
        if asked.idempotency_key is None:
            running = self._new(secrets.token_hex(16))
            return running, self._task(self._run(asked.action, running.id, details=asked.details))
        entry = self._keyed(asked, asked.idempotency_key)

        # One that has ended has no events to follow.
        running = self._running.get(entry.action_id) or Running(
            entry.action_id, self._box.executor.events.last, asked.name
        )

        async def wait() -> ActionAnswer:
            answer = await entry.wait()
            running.action = running.action or answer.action
            return answer

        return running, self._task(wait())

    def _task(self, work: Coroutine[Any, Any, ActionAnswer]) -> asyncio.Task[ActionAnswer]:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the event loop holds no reference, and the client may go away
        task.add_done_callback(self._tasks.discard)
        return task

    def _keyed(self, asked: ExecuteRequest, key: str) -> KeyedAction:
        def run(action_id: str, resumed: bool) -> Awaitable[ActionAnswer]:
            self._new(action_id)
            return self._run(asked.action, action_id, resumed=resumed)

        fingerprint = hashlib.sha256(msgspec.json.encode(asked.action, order="deterministic")).hexdigest()
        return self._replays.begin(key, fingerprint, run)

    def _new(self, action_id: str) -> Running:
        running = self._running.get(action_id)
        if running is None:
            running = self._running[action_id] = Running(action_id, self._box.executor.events.last)
        return running

    async def _run(
        self, envelope: dict[str, Any], action_id: str, *, resumed: bool = False, details: bool = True
    ) -> ActionAnswer:
        running = self._new(action_id)
        call = self._box.executor.call(action_id, resumed=resumed)
        started = time.time()
        status, code = 200, ""
        try:
            body = to_json(await self._observe(envelope, running, call))
        except WindowError as error:  # no defect of the box: an agent reads it and goes on
            body = to_json(encode_observation(ErrorObservation(content=str(error), error_id=error.code)))
        except GloveboxError as error:
            status, code = 500, error.code
            body = to_json(ErrorBody(detail=f"Internal server error: {error}"))
        finally:
            del self._running[action_id]
        return ActionAnswer(
            status=status,
            code=code,
            action=running.action,
            body=msgspec.Raw(body),
            details=_details(call, started) if details else msgspec.Raw(b"null"),
        )

    async def _observe(self, envelope: dict[str, Any], running: Running, call: Call) -> dict[str, Any]:
        """Carry out the action in an envelope; the envelope of its observation."""
        beside: dict[str, Any] = {}
        try:
            if "action" in envelope or "observation" in envelope:
                action = self._box.codec.decode_action(envelope)
            else:
                action, beside = await self._called(envelope)
            running.action = action.action
            if call.resumed and not action.resumable:
                raise Interrupted(_INTERRUPTED)
            observation = await self._box.executor.execute(action, call)
        except Refusal as refusal:
            observation = refusal.observation
        return encode_observation(observation) | beside

    async def _called(self, envelope: dict[str, Any]) -> tuple[Action[Any], dict[str, Any]]:
        """The action that a tool call means, and what its answer says of the call."""
        found = await called_action(self._box.toolbox, envelope)
        return found or (self._box.codec.decode_action(envelope), {})  # which says what else it is


def _details(call: Call, started: float) -> msgspec.Raw:
    seconds = time.monotonic() - call.started
    details = Details(
        action_id=call.id, started=started, seconds=seconds, command=call.command, cell=call.cell
    )
    return msgspec.Raw(to_json(details))


LONGEST_KEY = 512
#: As the contract has it.
_UNREADABLE = "There was an error parsing the body"
_TYPE_HINT = "send Content-Type: application/json"


class ExecuteRequest(Message):
    """An action to carry out, and what is wanted beyond the contract."""

    action: dict[str, Any]
    #: The same key again gives the same answer, and the action is not run twice.
    idempotency_key: str | None = None
    #: Ask for `details` beside the observation: the action's id, its timing, the command or cell it ran.
    details: bool = False

    @property
    def name(self) -> str:
        name = self.action.get("action")
        return name if isinstance(name, str) else ""


_DECODER = json_decoder(ExecuteRequest)


async def decode_asked(request: Request) -> ExecuteRequest | Response:
    """The decoded request, or the response that says what is wrong with it."""
    body = await request.body()
    if not _is_json(request.headers.get("content-type")):
        return invalid_request({**_not_an_object(body), "ctx": {"hint": _TYPE_HINT}})
    try:
        asked = _DECODER.decode(body)
        check_depth(body, asked.action)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TooDeep) as error:
        return _explain(body, error)
    if asked.idempotency_key is not None and not 0 < len(asked.idempotency_key) <= LONGEST_KEY:
        return invalid_request(
            {
                "type": "string_length",
                "loc": ("body", "idempotency_key"),
                "msg": f"String should have 1 to {LONGEST_KEY} characters",
            }
        )
    return asked


@functools.lru_cache(maxsize=16)
def _is_json(content_type: str | None) -> bool:
    """Whether a body of this type is read as JSON; without a type it is."""
    if not content_type:
        return True
    kind, _, subtype = content_type.partition(";")[0].strip().lower().partition("/")
    return kind == "application" and (subtype == "json" or subtype.endswith("+json"))


def _not_an_object(value: Any) -> dict[str, Any]:
    return {
        "type": "model_attributes_type",
        "loc": ("body",),
        "msg": "Input should be a valid dictionary or object to extract fields from",
        "input": value,
    }


def _explain(body: bytes, error: Exception) -> Response:
    """Say what is wrong with a body, in the contract's form."""
    if not body.strip():
        return invalid_request({"type": "missing", "loc": ("body",), "msg": "Field required", "input": None})
    try:
        body.decode()
        value = decode_json(body)
    except UnicodeDecodeError:
        return error_response(400, RequestError(_UNREADABLE))
    except TooDeep:
        return refused(TooDeep(_UNREADABLE))
    except msgspec.DecodeError:
        problem = {"type": "json_invalid", "loc": ("body", 0), "msg": "JSON decode error", "input": {}}
        return invalid_request({**problem, "ctx": {"error": str(error)}})
    return invalid_request(_wrong_part(value, error))


def _wrong_part(value: Any, error: Exception) -> dict[str, Any]:
    """Which part of a body that is JSON is not of the right form."""
    if value is None:
        return {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
    if not isinstance(value, dict):
        return _not_an_object(value)
    if "action" not in value:
        return {"type": "missing", "loc": ("body", "action"), "msg": "Field required", "input": value}
    if not isinstance(value["action"], dict):
        message = "Input should be a valid dictionary"
        return {"type": "dict_type", "loc": ("body", "action"), "msg": message, "input": value["action"]}
    return {"type": "value_error", "loc": ("body",), "msg": str(error)}
