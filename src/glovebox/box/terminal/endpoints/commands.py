"""`/commands`: what commands do, waiting for them, and input and signals for them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.endpoints.output import COMMAND_ID, UNKNOWN, CommandSource, output_endpoint
from glovebox.box.terminal.results import command_result
from glovebox.box.threads import Threads
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.base import Message
from glovebox.protocol.terminal import CommandInfo, CommandResult, OnWait

#: How many commands a list has by default, and at most.
_LISTED, _MOST_LISTED = 100, 1_000


class SignalRequest(Message, forbid_unknown_fields=True):
    """A signal by its name or number: `SIGINT`, `INT` or `2`."""

    signal: str


class WaitRequest(Message, forbid_unknown_fields=True):
    """How long to wait, and which output to answer with."""

    #: Seconds; null waits until the command has ended.
    timeout: float | None = None
    on_wait: OnWait = "wait"
    #: Where in its raw output to begin.
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: How many characters of output to answer with.
    budget: int | None = None


class InputRequest(Message, forbid_unknown_fields=True):
    """Text to type, then keys to press: `Enter`, `C-c`, `Up`, `F1`, `M-x`. A line end is the Enter key."""

    text: str = ""
    keys: tuple[str, ...] = ()


class CommandEndpoints:
    """The endpoints."""

    def __init__(self, terminal: CommandSource, threads: Threads) -> None:
        self._terminal = terminal
        self._threads = threads

    async def all(self, request: Request) -> Response:
        """The commands of a session, or of all sessions; newest first."""
        limit = requests.integer(request, "limit", _LISTED, 1, _MOST_LISTED)
        found = self._terminal.newest_commands(request.query_params.get("session"), limit)
        return json_response([command.info() for command in found])

    async def info(self, request: Request) -> Response:
        """What is known of a command."""
        return json_response(self._command(request).info())

    async def wait(self, request: Request) -> Response:
        """Wait for a command, and answer with its output."""
        command = self._command(request)
        asked = await requests.body(request, WaitRequest)
        outcome = await command.wait(timeout=asked.timeout, for_input=asked.on_wait == "return")
        result = await command_result(
            command, outcome, self._threads, offset=asked.offset, budget=asked.budget
        )
        return json_response(result)

    async def input(self, request: Request) -> Response:
        """Type something for a command, also while other requests wait for its end."""
        command = self._command(request)
        asked = await requests.body(request, InputRequest)
        await command.send(asked.text, asked.keys)
        return json_response(command.info())

    async def signal(self, request: Request) -> Response:
        """Send a signal to what runs in the foreground."""
        command = self._command(request)
        asked = await requests.body(request, SignalRequest)
        await command.signal(asked.signal)
        return json_response(command.info())

    def _command(self, request: Request) -> RunningCommand:
        return self._terminal.command(request.path_params["id"])


def command_endpoints(terminal: CommandSource, threads: Threads, closing: asyncio.Event) -> list[Endpoint]:
    """What is served of commands that were begun."""
    own = CommandEndpoints(terminal, threads)
    invalid = Reply("A parameter or the body is not of the right form.", ErrorBody)
    large = Reply("The body is too large.", ErrorBody)
    ended = Reply("It has ended.", ErrorBody)
    listed: dict[str, Any] = {"type": "array", "items": {"$ref": "#/components/schemas/CommandInfo"}}
    return [
        Endpoint(
            "GET", "/commands", own.all, "The newest commands of the box",
            {200: Reply("The newest first.", listed), 422: invalid},
            parameters=(
                Parameter("session", {"type": "string"}, "Only those of this session."),
                Parameter("limit", {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED},
                          f"At most so many. Default: {_LISTED}."),
            ),
        ),
        Endpoint(
            "GET", "/commands/{id}", own.info, "A command: its state, exit code and bill",
            {200: Reply("While it runs and after.", CommandInfo), 404: UNKNOWN},
            path_parameters=COMMAND_ID,
        ),
        output_endpoint(terminal, threads, closing),
        Endpoint(
            "POST", "/commands/{id}/wait", own.wait, "Wait for a command",
            {200: Reply("It has ended, waits for input, or the time is over.", CommandResult),
             404: UNKNOWN, 410: Reply("This part of its output is not kept any more.", ErrorBody),
             413: large, 422: invalid},
            path_parameters=COMMAND_ID, body=WaitRequest,
        ),
        Endpoint(
            "POST", "/commands/{id}/input", own.input, "Give input to a command",
            {200: Reply("It was typed.", CommandInfo), 404: UNKNOWN, 409: ended, 413: large, 422: invalid},
            path_parameters=COMMAND_ID, body=InputRequest,
        ),
        Endpoint(
            "POST", "/commands/{id}/signal", own.signal, "Send a signal to a command",
            {200: Reply("It was sent.", CommandInfo), 404: UNKNOWN, 409: ended, 413: large, 422: invalid},
            path_parameters=COMMAND_ID, body=SignalRequest,
        ),
    ]  # fmt: skip
