"""`/openapi.json`, made from the endpoints that are served and the messages they carry."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from glovebox import __version__
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ERROR_HEADER, ErrorBody
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.openhands import Codec
from glovebox.server.execute import Details

REF = "#/components/schemas/{name}"
TOO_DEEP = Reply("The body is nested too deeply.", ErrorBody)
TOO_LARGE = Reply("The body is too large.", ErrorBody)
FORBIDDEN = Reply("The key is missing or wrong, or a web page called that may not.", ErrorBody)


def openapi(endpoints: Iterable[Endpoint], codec: Codec, *, needs_key: bool) -> dict[str, Any]:
    """The document for these endpoints."""
    endpoints = list(endpoints)
    schemas = _Schemas(_types(endpoints))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, schemas, needs_key
        )
    schemas.components["ActionEnvelope"] = _action_envelope(codec)
    schemas.components["ObservationEnvelope"] = _observation_envelope(codec)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Glovebox",
            "version": __version__,
            "description": "A sandbox for the commands, programs and files of agents. It also speaks "
            "the runtime API of OpenHands. Errors carry a stable code in the header X-Glovebox-Error.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "sessionApiKey": {"type": "apiKey", "in": "header", "name": "X-Session-API-Key"}
            },
        },
    }


class _Schemas:
    """The JSON schemas of all structs that endpoints name."""

    def __init__(self, types: list[type]) -> None:
        found, self.components = msgspec.json.schema_components(types, ref_template=REF)
        self._by_type = dict(zip(types, found, strict=True))

    def of(self, body: type | Mapping[str, Any]) -> Mapping[str, Any]:
        return self._by_type[body] if isinstance(body, type) else body


def _types(endpoints: list[Endpoint]) -> list[type]:
    bodies = [endpoint.body for endpoint in endpoints]
    bodies += [answer.body for endpoint in endpoints for answer in endpoint.answers.values()]
    return list(dict.fromkeys([ErrorBody, Details, *(body for body in bodies if isinstance(body, type))]))


def _operation(endpoint: Endpoint, schemas: _Schemas, needs_key: bool) -> dict[str, Any]:
    guarded = {} if endpoint.open else {403: FORBIDDEN}
    limited = {400: TOO_DEEP, 413: TOO_LARGE} if endpoint.body is not None else {}
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{endpoint.path}").rstrip("_"),
        "summary": endpoint.summary,
        "responses": {
            str(status): _answer(status, answer, schemas)
            for status, answer in sorted({**limited, **endpoint.answers, **guarded}.items())
        },
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    parameters = [_parameter("path", parameter) for parameter in endpoint.path_parameters]
    parameters += [_parameter("query", parameter) for parameter in endpoint.parameters]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content = {endpoint.body_media_type: {"schema": schemas.of(endpoint.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    if needs_key and not endpoint.open:
        operation["security"] = [{"sessionApiKey": []}]
    return operation


def _parameter(where: str, parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": where,
        "required": parameter.required or where == "path",
        "description": parameter.help,
        "schema": parameter.schema,
    }


def _answer(status: int, answer: Reply, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.help}
    if answer.body is not None:
        described["content"] = {answer.media_type: {"schema": schemas.of(answer.body)}}
    if status >= 400:
        described["headers"] = {
            ERROR_HEADER: {"description": "The stable code of the error.", "schema": {"type": "string"}}
        }
    return described


def _action_envelope(codec: Codec) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "timeout": {"type": ["number", "null"], "minimum": 0, "description": "Hard limit in seconds."},
        "source": {"enum": ["agent", "user", "environment", None]},
        "id": {}, "timestamp": {}, "message": {}, "cause": {}, "llm_metrics": {},
    }  # fmt: skip
    return {
        "description": "An action by its name, with its arguments.",
        "oneOf": [
            {
                "title": kind.__name__,
                "description": kind.__doc__,
                "type": "object",
                "required": ["action", *(["args"] if _required(kind, "timeout") else [])],
                "properties": {"action": {"const": name}, "args": _fields(kind, "timeout"), **metadata},
            }
            for name, kind in codec.actions.items()
        ],
    }


def _observation_envelope(codec: Codec) -> dict[str, Any]:
    return {
        "description": "What an action came to. `details` is there only if the request has `details`.",
        "oneOf": [
            {
                "title": kind.__name__,
                "description": kind.__doc__,
                "type": "object",
                "required": ["message", "observation", "content", "extras"],
                "properties": {
                    "message": {"type": "string"},
                    "observation": {"const": name},
                    "content": {"type": "string"},
                    "extras": _fields(kind, "content"),
                    "success": {"type": "boolean"},
                    "details": {"$ref": REF.format(name="Details")},
                    "tool_call_metadata": {"type": "object"},
                },
                "additionalProperties": False,
            }
            for name, kind in codec.observations.items()
        ],
    }


def _required(kind: type[Action[Any] | Observation], left_out: str) -> list[str]:
    fields = msgspec.structs.fields(kind)
    return [field.encode_name for field in fields if field.required and field.name != left_out]


def _fields(kind: type[Action[Any] | Observation], left_out: str) -> dict[str, Any]:
    """The schema of a struct's fields but one, self-contained."""
    _, components = msgspec.json.schema_components([kind], ref_template="{name}")
    schema = _inlined(components[kind.__name__], components)
    properties = {name: value for name, value in schema.get("properties", {}).items() if name != left_out}
    required = _required(kind, left_out)
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _inlined(schema: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, components) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(components[schema["$ref"]], components)
    return {key: _inlined(value, components) for key, value in schema.items()}


_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@functools.cache
def docs_page() -> tuple[str, str]:
    """The page's HTML, and the policy that lets it run what is in it only. Blocking on first use."""
    page = Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; connect-src 'self'; script-src {_sources(_SCRIPT, page)};"
        f" style-src {_sources(_STYLE, page)}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    return page, policy


def _sources(element: re.Pattern[str], page: str) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in element.findall(page))
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
