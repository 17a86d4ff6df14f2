"""The companion box of a window: cells, web pages and MCP tools, which VS Code has no means for.

It runs beside the window and is reached through the window alone, by `Forward` orders.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Call, Handler
from glovebox.client.connection.answers import ERROR_HEADER, decode, envelope, observation_of
from glovebox.client.connection.events import EventParser, ServerSentEvent
from glovebox.errors import BadAnswer, GloveboxError, NoCompanion, TooLarge, WindowRefused
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody, refused
from glovebox.http.sse import EVENTS, Stream
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.events import ActionDisplay, CellState, Display, Failure, Output
from glovebox.protocol.notebook import CellInfo
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
    IPythonRunCellObservation,
    MCPObservation,
)
from glovebox.protocol.openhands import encode_action
from glovebox.protocol.window import ACTIONS_PATH, FORWARDED_PATHS, BodyPiece, FetchBody, Forward, Forwarded

#: The largest body of a request, and the largest event of an action.
_LARGEST_BODY = 4 << 20
_LARGEST_EVENT = 64 << 20
#: Seconds for an answer, which may have to wait until the companion box has started.
_LIMIT = 180.0
_CLOSE_LIMIT = 10.0
_OK = 200
_PREFIX = "Internal server error: "
#: Headers that are forwarded, besides those of MCP.
_REQUEST_HEADERS = ("accept", "content-type", "last-event-id")
_MCP = "mcp-"
_RESPONSE_HEADERS = ("content-type", "mcp-session-id", ERROR_HEADER.lower())
#: Streams whose first event names the path that their clients post to.
_MCP_STREAMS = ("/sse", "/mcp/sse")
_DATA = b"data: "
_ENDED = (
    "The companion box of the VS Code window ended before it answered. The next action starts it again; "
    "variables of cells are lost."
)


class Companion:
    """Sends actions and requests to the companion box of a window."""

    def __init__(self, hands: Hands, cwd: Callable[[], str]) -> None:
        """`cwd`: the directory of the window's main shell, which the kernel follows."""
        self._hands = hands
        self._cwd = cwd

    def handlers(self) -> Iterable[Handler]:
        return [self.run_ipython, self.browse, self.browse_interactive, self.call_tool_mcp]

    def endpoints(self) -> Iterable[Endpoint]:
        return [self._endpoint(method, path) for method, path in FORWARDED_PATHS]

    async def run_ipython(
        self, action: IPythonRunCellAction, call: Call
    ) -> IPythonRunCellObservation | ErrorObservation:
        observation = await self._act(msgspec.structs.replace(action, cwd=action.cwd or self._cwd()), call)
        if isinstance(observation, IPythonRunCellObservation):
            call.cell = observation.cell
        return observation

    async def browse(
        self, action: BrowseURLAction, call: Call
    ) -> BrowserOutputObservation | FileDownloadObservation | ErrorObservation:
        return await self._act(action, call)

    async def browse_interactive(
        self, action: BrowseInteractiveAction, call: Call
    ) -> BrowserOutputObservation | FileDownloadObservation | ErrorObservation:
        return await self._act(action, call)

    async def call_tool_mcp(self, action: MCPAction, call: Call) -> MCPObservation | ErrorObservation:
        return await self._act(action, call)

    # Actions.

    async def _act(self, action: Action[ObservationT], call: Call) -> ObservationT | ErrorObservation:
        body = msgspec.json.encode({"action": encode_action(action), "details": True})
        headers = {"content-type": "application/json", "accept": EVENTS}
        order = Forward(method="POST", path=ACTIONS_PATH, headers=headers, body=_checked(body))
        try:
            head = await self._hands.do(order, Forwarded, limit=None)
            async with contextlib.aclosing(self._body(head)) as pieces:
                return await _observe(action, call, head, pieces)
        except OrderRefused as refusal:
            return ErrorObservation(content=str(refusal), error_id=refusal.code)

    async def _body(self, head: Forwarded) -> AsyncGenerator[bytes, None]:
        """The body of a response, piece by piece; the request ends with the generator."""
        stream = head.stream
        try:
            yield head.body
            while stream:
                piece = await self._hands.do(FetchBody(stream=stream), BodyPiece, limit=None)
                if piece.last:
                    stream = ""
                yield piece.data
        finally:
            if stream:
                with contextlib.suppress(OrderRefused, GloveboxError):
                    order = FetchBody(stream=stream, close=True)
                    await self._hands.do(order, BodyPiece, limit=_CLOSE_LIMIT)

    # Endpoints.

    def _endpoint(self, method: str, path: str) -> Endpoint:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        answers = {
            200: Reply("What the companion box answers.", {}),
            403: Reply("The window refuses: its user said no, or does not trust it.", ErrorBody),
            503: Reply("There is no companion box, or the window is paused or gone.", ErrorBody),
        }
        return Endpoint(
            method, path, self._forward, "As in any box, by the companion box of the window", answers,
            path_parameters=tuple(Parameter(name, {"type": "string"}, "As in any box.") for name in names),
        )  # fmt: skip

    async def _forward(self, request: Request) -> Response:
        path: str = request.scope["path"]
        query = request.scope.get("query_string", b"").decode("latin-1")
        order = Forward(
            method=request.method,
            path=f"{path}?{query}" if query else path,
            headers={
                name: value
                for name, value in request.headers.items()
                if name in _REQUEST_HEADERS or name.startswith(_MCP)
            },
            body=_checked(await request.body()),
        )
        try:
            head = await self._hands.do(order, Forwarded, limit=_LIMIT)
        except OrderRefused as refusal:
            kind = NoCompanion if refusal.code == "no_companion" else WindowRefused
            return refused(kind(str(refusal)))
        if not head.stream:
            response = Response(head.body, head.status)
        else:
            pieces = self._streamed(head)
            if path in _MCP_STREAMS:
                pieces = _with_root(pieces, request.scope.get("root_path", ""))
            response = Stream(pieces, media_type=head.headers.get("content-type", EVENTS))
            response.status_code = head.status
        _add_headers(response, head)
        return response

    async def _streamed(self, head: Forwarded) -> AsyncGenerator[bytes, None]:
        """The body for a client; what breaks it off is an error of ours, which cuts the connection."""
        try:
            async with contextlib.aclosing(self._body(head)) as pieces:
                async for piece in pieces:
                    yield piece
        except OrderRefused as refusal:
            raise WindowRefused(str(refusal)) from refusal


async def _observe(
    action: Action[ObservationT], call: Call, head: Forwarded, pieces: AsyncGenerator[bytes, None]
) -> ObservationT | ErrorObservation:
    """Publish the events of an action as they come; its observation."""
    if head.status != _OK:
        body = b"".join([piece async for piece in pieces])
        code = head.headers.get(ERROR_HEADER.lower(), "")
        return ErrorObservation(content=decode(body, ErrorBody).detail.removeprefix(_PREFIX), error_id=code)
    parser = EventParser(_LARGEST_EVENT)
    async for piece in pieces:
        for event in parser.feed(piece):
            if event.event == "observation":
                return observation_of(action, envelope(event.data))
            if event.event == "error":
                failure = decode(event.data, Failure)
                return ErrorObservation(content=failure.detail.removeprefix(_PREFIX), error_id=failure.code)
            _publish(call, event)
    return ErrorObservation(content=_ENDED, error_id=NoCompanion.code)


def _publish(call: Call, event: ServerSentEvent) -> None:
    if event.event == "output":
        call.output(decode(event.data, Output).text)
    elif event.event == "display":
        shown = decode(event.data, Display)
        call.tell(
            ActionDisplay,
            kind=shown.kind,
            data=shown.data,
            metadata=shown.metadata,
            display_id=shown.display_id,
        )
    elif event.event == "state":
        with contextlib.suppress(BadAnswer):  # that of a command, which no action here begins
            call.tell(CellState, cell=decode(event.data, CellInfo))


async def _with_root(pieces: AsyncGenerator[bytes, None], root: str) -> AsyncGenerator[bytes, None]:
    """A stream of MCP whose first event names the path below `root` to post to."""
    begin = b""
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            begin += piece
            if _DATA in begin and begin.endswith(b"\n"):
                break
        yield begin.replace(_DATA, _DATA + root.encode(), 1)
        async for piece in pieces:
            yield piece


def _add_headers(response: Response, head: Forwarded) -> None:
    """Only those that are known: a window must not write any other part of the answer."""
    for name in _RESPONSE_HEADERS:
        value = head.headers.get(name, "")
        if value and value.isprintable() and value.isascii():
            response.headers[name] = value


def _checked(body: bytes) -> bytes:
    if len(body) > _LARGEST_BODY:
        raise TooLarge(f"A companion box is sent at most {_LARGEST_BODY >> 20} MB at once.")
    return body
