"""`/sessions`: persistent shells by name."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.machine import Shell
from glovebox.box.terminal.endpoints.commands import SignalRequest
from glovebox.box.terminal.sessions import SessionTable
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.base import Message
from glovebox.protocol.terminal import Limits, SessionInfo


class NewSession(Message, forbid_unknown_fields=True):
    """A shell to open; what is left out is as in the main one."""

    name: str
    cwd: str | None = None
    rows: int | None = None
    columns: int | None = None
    limits: Limits | None = None


class Size(Message, forbid_unknown_fields=True):
    """The size of a terminal in characters."""

    rows: int
    columns: int


ShellT = TypeVar("ShellT", bound=Shell)


class SessionEndpoints(Generic[ShellT]):
    """The endpoints."""

    def __init__(self, terminal: SessionTable[ShellT]) -> None:
        self._terminal = terminal

    async def all(self, request: Request) -> Response:
        return json_response(self._terminal.sessions())

    async def create(self, request: Request) -> Response:
        asked = await requests.body(request, NewSession)
        info = await self._terminal.create(
            asked.name, cwd=asked.cwd, rows=asked.rows, columns=asked.columns, limits=asked.limits
        )
        return json_response(info, 201)

    async def info(self, request: Request) -> Response:
        return json_response(self._terminal.session(request.path_params["name"]).info())

    async def end(self, request: Request) -> Response:
        """End a session and all it started."""
        await self._terminal.end(request.path_params["name"])
        return Response(status_code=204)

    async def resize(self, request: Request) -> Response:
        """Change the size of its terminal."""
        session = self._terminal.session(request.path_params["name"])
        size = await requests.body(request, Size)
        session.shell.resize(size.rows, size.columns)
        return json_response(session.info())

    async def signal(self, request: Request) -> Response:
        """Send a signal to what runs in the foreground."""
        session = self._terminal.session(request.path_params["name"])
        asked = await requests.body(request, SignalRequest)
        await session.shell.signal(asked.signal)
        return json_response(session.info())


def session_endpoints(terminal: SessionTable[ShellT]) -> list[Endpoint]:
    """What is served of sessions."""
    own = SessionEndpoints(terminal)
    text: dict[str, Any] = {"type": "string"}
    path = (Parameter("name", text, "The name of the session; `main` is always there."),)
    one = Reply("The session.", SessionInfo)
    unknown = Reply("No session has that name.", ErrorBody)
    invalid = Reply("The body is not of the right form, or no session can be like that.", ErrorBody)
    large = Reply("The body is too large.", ErrorBody)
    return [
        Endpoint(
            "GET", "/sessions", own.all, "The persistent shells of the box",
            {200: Reply("All of them.",
                         {"type": "array", "items": {"$ref": "#/components/schemas/SessionInfo"}})},
        ),
        Endpoint(
            "POST", "/sessions", own.create, "Open a persistent shell",
            {201: one, 409: Reply("The name is taken.", ErrorBody), 413: large, 422: invalid,
             500: Reply("Its shell could not be started.", ErrorBody)},
            body=NewSession,
        ),
        Endpoint(
            "GET", "/sessions/{name}", own.info, "A persistent shell",
            {200: one, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "DELETE", "/sessions/{name}", own.end, "End a shell and everything it started",
            {204: Reply("It is gone."), 404: unknown, 422: invalid}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/sessions/{name}/resize", own.resize, "Change the size of a shell's terminal",
            {200: one, 404: unknown, 413: large, 422: invalid}, path_parameters=path, body=Size,
        ),
        Endpoint(
            "POST", "/sessions/{name}/signal", own.signal, "Send a signal to what runs in a shell",
            {200: one, 404: unknown, 409: Reply("Nothing runs.", ErrorBody), 413: large, 422: invalid},
            path_parameters=path, body=SignalRequest,
        ),
    ]  # fmt: skip
