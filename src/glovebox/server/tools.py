"""`/tools`: what models can call in a box, and their calls, in the formats of their providers.

The formats are loaded with the first request that needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.box import Box
from glovebox.box.tools import Toolbox
from glovebox.errors import ActionError, GloveboxError, NotAToolCall, UnknownTool, WrongToolArguments
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.requests import InvalidParameter, choice, flag, json_body
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.base import Action
from glovebox.protocol.tools.base import Tool, ToolCall

FORMATS = ("openai", "anthropic", "mcp", "gemini")
APIS = ("chat", "responses")


async def called_action(
    toolbox: Toolbox, envelope: dict[str, Any]
) -> tuple[Action[Any], dict[str, Any]] | None:
    """The action that the one tool call in an envelope means, and the metadata for its answer.

    None if there is no call in it.

    Raises:
        ActionError: there are several calls.
        UnknownTool: there is no such tool.
        WrongToolArguments: it does not take these arguments.
    """
    from glovebox.protocol.tools.formats.calls import read_calls

    try:
        batch = read_calls(envelope)
    except NotAToolCall:
        return None
    calls = batch.calls
    if len(calls) > 1:
        raise ActionError(
            f"There are {len(calls)} tool calls in this, and an action is one. Send them to /tools/call."
        )
    [call] = await _understood(toolbox, calls)
    if call.problem:
        raise WrongToolArguments(call.problem)
    return await toolbox.action(call), {"tool_call_metadata": batch.metadata}


async def _understood(toolbox: Toolbox, calls: Iterable[ToolCall]) -> list[ToolCall]:
    """The calls with the tools' own names, where a provider was given others."""
    from glovebox.protocol.tools.formats.definitions import meant

    tools: list[Tool] | None = None
    understood: list[ToolCall] = []
    for call in calls:
        try:
            if not call.problem:
                await toolbox.action(call)
        except UnknownTool:
            tools = await toolbox.tools() if tools is None else tools
            name = meant(call.name, tools)
            understood.append(msgspec.structs.replace(call, name=name) if name else call)
            continue
        except GloveboxError:  # its result will say so
            pass
        understood.append(call)
    return understood


async def _body(request: Request) -> Any:
    try:
        return await json_body(request)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter("json_invalid", ("body",), f"JSON decode error: {error}", None) from error


def tool_endpoints(box: Box) -> list[Endpoint]:
    """What is served of tools."""

    async def define(request: Request) -> Response:
        kind, api = choice(request, "format", FORMATS), choice(request, "api", APIS)
        builtin, names = flag(request, "builtin"), request.query_params.get("names")
        from glovebox.protocol.tools.formats.definitions import definitions

        return json_response(
            definitions(
                await box.toolbox.tools(),
                kind,
                api=api,
                builtin=builtin,
                names=[name.strip() for name in names.split(",")] if names else None,
            )
        )

    async def call(request: Request) -> Response:
        from glovebox.protocol.tools.formats.calls import read_calls

        batch = read_calls(await _body(request))
        calls = await _understood(box.toolbox, batch.calls)
        return json_response(batch.answer(await box.toolbox.call_all(calls, contract=batch.contract)))

    return [
        Endpoint(
            "GET", "/tools", define, "The tools of the box, as definitions for a model",
            {200: Reply("What is passed on as the request's `tools`; for MCP what `tools/list` answers.",
                         {"type": ["array", "object"]}),
             422: Reply("There is no such format or tool.", ErrorBody)},
            parameters=(
                Parameter("format", {"enum": list(FORMATS), "default": FORMATS[0]}, "Whose format."),
                Parameter("api", {"enum": list(APIS), "default": APIS[0]}, "Which of OpenAI's two forms."),
                Parameter("builtin", {"type": "boolean", "default": False},
                          "Offer Anthropic's own `bash` and text editor in place of `run` and `edit`."),
                Parameter("names", {"type": "string"}, "Only these, by their names with commas between."),
            ),
        ),
        Endpoint(
            "POST", "/tools/call", call, "Carry out the tool calls that a model has made",
            {200: Reply("The results, in the format and the shape of the calls.",
                         {"type": ["array", "object"]}),
             422: Reply("The body is not JSON, or there is no call in it.", ErrorBody)},
            description="Takes what models of OpenAI, Anthropic and Gemini, MCP clients and OpenHands "
            "put out: a call, a list, a message or a whole response. If a call is wrong, its "
            "result says why.",
            body={"anyOf": _BODIES},
        ),
    ]  # fmt: skip


def _shape(title: str, **properties: Any) -> dict[str, Any]:
    return {"title": title, "type": "object", "required": list(properties), "properties": properties}


_TEXT, _ANY = {"type": "string"}, {"type": "object"}
_CALL = _shape("Function", name=_TEXT, arguments=_TEXT)
_BODIES = [
    _shape("OpenAI Chat Completions", id=_TEXT, type={"const": "function"}, function=_CALL),
    _shape("OpenAI Responses", type={"const": "function_call"}, call_id=_TEXT, name=_TEXT, arguments=_TEXT),
    _shape("Anthropic", type={"const": "tool_use"}, id=_TEXT, name=_TEXT, input=_ANY),
    _shape("Gemini", functionCall=_shape("FunctionCall", name=_TEXT, args=_ANY)),
    _shape("MCP", name=_TEXT, arguments=_ANY),
    _shape("OpenHands", tool_call_metadata=_ANY),
    {"title": "A message or a whole response that holds some of these", "type": "object"},
    {"title": "A list of these", "type": "array"},
]
