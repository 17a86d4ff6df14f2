"""`/sessions`, `/commands` and `/server_info` of a window."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.plugin import Context
from glovebox.box.system.stats import ServerInfo, Stats
from glovebox.box.terminal.endpoints.commands import SignalRequest, command_endpoints
from glovebox.box.terminal.endpoints.sessions import NewSession
from glovebox.errors import BadSession
from glovebox.http import parameters
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody, json_response
from glovebox.hub.window.fallbacks import NO_SIZE
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.protocol.terminal import SessionInfo


class ShellEndpoints:
    """The endpoints."""

    def __init__(self, terminal: WindowTerminal, stats: Stats, context: Context) -> None:
        self._terminal = terminal
        self._stats = stats
        self._context = context

    async def server_info(self, request: Request) -> Response:
        """How long the window is a box, and what the hub uses."""
        return json_response(await self._context.threads.run(self._stats.look))

    async def all(self, request: Request) -> Response:
        return json_response(self._terminal.sessions())

    async def create(self, request: Request) -> Response:
        asked = await parameters.body(request, NewSession)
        if asked.rows is not None or asked.columns is not None:
            raise BadSession(NO_SIZE)
        if asked.limits is not None:
            raise BadSession("A terminal in VS Code cannot be limited: it is its user's. Leave limits out.")
        return json_response(await self._terminal.create(asked.name, cwd=asked.cwd), 201)

    async def info(self, request: Request) -> Response:
        return json_response(self._terminal.session(request.path_params["name"]).info())

    async def end(self, request: Request) -> Response:
        """Close the terminal of a session."""
        await self._terminal.end(request.path_params["name"])
        return Response(status_code=204)

    async def signal(self, request: Request) -> Response:
        """Send a signal to what runs in the foreground."""
        session = self._terminal.session(request.path_params["name"])
        asked = await parameters.body(request, SignalRequest)
        await session.shell.signal(asked.signal)
        return json_response(session.info())

    def endpoints(self) -> list[Endpoint]:
        path = (Parameter("name", {"type": "string"}, "The name of the session; `main` is always there."),)
        one = Reply("The session.", SessionInfo)
        unknown = Reply("No session has that name.", ErrorBody)
        invalid = Reply("The body is not of the right form, or no session can be like that.", ErrorBody)
        failed = Reply("The window did not do it.", ErrorBody)
        return [
            Endpoint(
                "GET", "/server_info", self.server_info, "How long the window is a box, what the hub uses",
                {200: Reply("Seconds and bytes.", ServerInfo)}, open=True,
            ),
            Endpoint(
                "GET", "/sessions", self.all, "The terminals of the window that are used from here",
                {200: Reply("All of them.",
                             {"type": "array", "items": {"$ref": "#/components/schemas/SessionInfo"}})},
            ),
            Endpoint(
                "POST", "/sessions", self.create, "Have a terminal, which is opened with its first command",
                {201: one, 409: Reply("The name is taken.", ErrorBody), 422: invalid}, body=NewSession,
            ),
            Endpoint(
                "GET", "/sessions/{name}", self.info, "A terminal of the window",
                {200: one, 404: unknown}, path_parameters=path,
            ),
            Endpoint(
                "DELETE", "/sessions/{name}", self.end, "Close a terminal and end what runs in it",
                {204: Reply("It is gone."), 404: unknown, 500: failed}, path_parameters=path,
            ),
            Endpoint(
                "POST", "/sessions/{name}/signal", self.signal, "Send a signal to what runs in a terminal",
                {200: one, 404: unknown, 409: Reply("Nothing runs.", ErrorBody), 422: invalid, 500: failed},
                path_parameters=path, body=SignalRequest,
            ),
            *command_endpoints(self._terminal, self._context.threads, self._context.closing),
        ]  # fmt: skip
