"""`POST /commands`: runs a text as one command in a session, once per idempotency key."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.box import Box
from glovebox.errors import by_code
from glovebox.http.endpoints import Endpoint, Reply
from glovebox.http.requests import InvalidParameter, body
from glovebox.http.responses import ErrorBody, error_response, json_response, to_json
from glovebox.http.sse import EVENTS, Stream, message
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.protocol.openhands import decode_observation
from glovebox.protocol.terminal import CommandAction, CommandObservation, CommandResult, Limits, OnWait
from glovebox.server.execute import LONGEST_KEY, ExecuteRequest, Executions
from glovebox.server.replays import ActionAnswer
from glovebox.server.streaming import action_messages

_KEY_HEADER = "idempotency-key"


class CommandRequest(Message, forbid_unknown_fields=True):
    """A command to run. The text may have several lines, and runs as one command."""

    command: str
    #: The shell to run it in, opened if there is none of that name.
    session: str = "main"
    #: Seconds to wait for its end; it goes on when they are over. Null waits as long as it takes.
    timeout: float | None = None
    on_wait: OnWait = "wait"
    #: False: the answer comes as soon as it has begun.
    wait: bool = True
    limits: Limits | None = None
    #: How many characters of output to answer with: head, tail and what is around errors.
    budget: int | None = None
    #: The same key again gives the same answer, and the command is not run twice. Also as a header.
    idempotency_key: str = ""


class RunCommand:
    """The endpoint."""

    def __init__(self, box: Box, executions: Executions) -> None:
        self._box = box
        self._executions = executions

    async def __call__(self, request: Request) -> Response:
        asked = await body(request, CommandRequest, self._box.settings.max_body_size)
        key = asked.idempotency_key or request.headers.get(_KEY_HEADER, "")
        if len(key) > LONGEST_KEY:
            problem = f"String should have 1 to {LONGEST_KEY} characters"
            raise InvalidParameter("string_length", ("body", "idempotency_key"), problem, None)
        streamed = EVENTS in request.headers.get("accept", "")
        if not key and not streamed:
            observation = await self._box.executor.execute(_action(asked))
            assert isinstance(observation, CommandObservation)
            return json_response(observation.result)
        running, answer = self._executions.begin(
            ExecuteRequest(action=_envelope(asked), idempotency_key=key or None)
        )
        if streamed:
            return Stream(action_messages(self._box, running, answer, _last_message))
        return _response(await answer)


def _action(asked: CommandRequest) -> CommandAction:
    return CommandAction(
        command=asked.command,
        session=asked.session,
        timeout=asked.timeout,
        on_wait=asked.on_wait,
        wait=asked.wait,
        limits=asked.limits,
        budget=asked.budget,
    )


def _envelope(asked: CommandRequest) -> dict[str, Any]:
    """The same for the wire of actions, which knows the keys."""
    args = msgspec.to_builtins(_action(asked))
    return {"action": CommandAction.action, "timeout": args.pop("timeout"), "args": args}


def _result(answer: ActionAnswer) -> CommandResult:
    observation = decode_observation(decode_json(answer.body), [CommandObservation])
    assert isinstance(observation, CommandObservation)
    return observation.result


def _last_message(answer: ActionAnswer) -> bytes:
    return message("result", to_json(_result(answer)))


def _response(answer: ActionAnswer) -> Response:
    if not answer.code:
        return json_response(_result(answer))
    kind = by_code()[answer.code]
    detail = decode_json(answer.body, ErrorBody).detail.removeprefix("Internal server error: ")
    return error_response(kind.status, kind(detail))


def run_command_endpoint(box: Box, executions: Executions) -> Endpoint:
    """The endpoint as it is served."""
    return Endpoint(
        "POST", "/commands", RunCommand(box, executions).__call__, "Run a command in a session",
        {200: Reply("It has ended, waits for input, or the time is over. With `Accept: text/event-stream` "
                    "events: `started`, `output`, `state`, and last `result` or `error`.", CommandResult),
         409: Reply("Another command runs in the session, or a person has it.", ErrorBody),
         413: Reply("The body is too large.", ErrorBody),
         422: Reply("The body is not of the right form, or no command can be like that.", ErrorBody),
         500: Reply("The shell could not be started.", ErrorBody)},
        description="The answer comes when the command has ended, when `timeout` is over (it goes on), or, "
        'with `"on_wait": "return"`, when it waits for input, in a pager or an editor. A client that goes '
        "away does not stop it.",
        body=CommandRequest,
    )  # fmt: skip
