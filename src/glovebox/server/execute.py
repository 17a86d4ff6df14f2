"""`POST /execute_action`: bytes to an action, its outcome to bytes."""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.box import Box
from glovebox.box.replays import Replays
from glovebox.errors import GloveboxError, KeyReused, RequestError
from glovebox.protocol.base import Message, Observation
from glovebox.protocol.openhands import Refusal
from glovebox.server.responses import action_failed, error_response, invalid_request, json_response

LONGEST_KEY = 512


class ExecuteRequest(Message):
    """An action to carry out, and what is wanted beyond the contract."""

    action: dict[str, Any]
    #: The same key again gives the same answer, and the action is not run twice.
    idempotency_key: str | None = None
    #: Ask for `details` beside the observation: the action's id and its timing.
    details: bool = False


class Details(Message):
    """What the box knows of an action beyond its observation."""

    action_id: str
    started: float
    seconds: float


class Done(NamedTuple):
    """How an action ended. A failure is kept like a success: it is told again, not tried again."""

    outcome: Observation | GloveboxError
    details: Details


class ExecuteAction:
    """The endpoint, with the memory of what was already answered."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._replays: Replays[Done] = Replays(_size)
        self._decoder = msgspec.json.Decoder(ExecuteRequest)

    async def __call__(self, request: Request) -> Response:
        """Decode, execute, encode."""
        asked = await self._decode(request)
        if isinstance(asked, Response):
            return asked
        try:
            done = await self._done(asked)
        except KeyReused as error:
            return action_failed(error)
        if isinstance(done.outcome, GloveboxError):
            return action_failed(done.outcome)
        envelope = self._box.codec.encode_observation(done.outcome)
        if asked.details:
            envelope["details"] = done.details
        return json_response(envelope)

    async def _done(self, asked: ExecuteRequest) -> Done:
        if asked.idempotency_key is None:
            return await self._run(asked.action)
        fingerprint = hashlib.sha256(msgspec.json.encode(asked.action, order="deterministic")).digest()
        return await self._replays.once(asked.idempotency_key, fingerprint, lambda: self._run(asked.action))

    async def _run(self, envelope: dict[str, Any]) -> Done:
        action_id, started, clock = uuid.uuid4().hex, time.time(), time.monotonic()
        outcome: Observation | GloveboxError
        try:
            action = self._box.codec.decode_action(envelope)
            self._box.stats.action_accepted()
            outcome = await self._box.executor.execute(action, action_id)
        except Refusal as refusal:
            outcome = refusal.observation
        except GloveboxError as error:
            outcome = error
        details = Details(action_id=action_id, started=started, seconds=time.monotonic() - clock)
        return Done(outcome, details)

    async def _decode(self, request: Request) -> ExecuteRequest | Response:
        body = await request.body()
        if not _is_json(request.headers.get("content-type")):
            return invalid_request(_not_an_object(body))
        try:
            asked = self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
        value = msgspec.json.decode(body.decode())
    except (UnicodeDecodeError, RecursionError):
        return error_response(400, RequestError("There was an error parsing the body"))
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


def _size(done: Done) -> int:
    return len(done.outcome.content) if isinstance(done.outcome, Observation) else 0
