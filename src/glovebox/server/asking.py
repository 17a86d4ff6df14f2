"""What a client asks for: the body of `/execute_action` and `/execute_action_stream`."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.errors import RequestError, TooDeep
from glovebox.http.bodies import check_depth, decode_json
from glovebox.http.responses import error_response, invalid_request, refused
from glovebox.protocol.base import Message

LONGEST_KEY = 512
#: As the contract has it.
_UNREADABLE = "There was an error parsing the body"


class Asked(Message):
    """An action to carry out, and what is wanted beyond the contract."""

    action: dict[str, Any]
    #: The same key again gives the same answer, and the action is not run twice.
    idempotency_key: str | None = None
    #: Ask for `details` beside the observation: the action's id, its timing, the command it ran.
    details: bool = False

    @property
    def name(self) -> str:
        """What the action is called, as far as it says so."""
        name = self.action.get("action")
        return name if isinstance(name, str) else ""


_DECODER = msgspec.json.Decoder(Asked)


async def decode_asked(request: Request) -> Asked | Response:
    """What is asked for, or the answer that says what is wrong with it."""
    body = await request.body()
    if not _is_json(request.headers.get("content-type")):
        return invalid_request(_not_an_object(body))
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
