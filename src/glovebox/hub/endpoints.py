"""The hub's own endpoints: windows register and prove that they answer, programs find them."""

from __future__ import annotations

import posixpath
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from glovebox.errors import WindowError
from glovebox.http.endpoints import INVALID, Answer, Endpoint, Parameter
from glovebox.http.parameters import InvalidParameter, body
from glovebox.http.responses import ErrorBody, error_response, json_response
from glovebox.hub.windows import HubStats, Windows
from glovebox.protocol.base import Message
from glovebox.protocol.window import Heartbeat, Registered, Registration, Window, WindowStatus

ID_HEADER = "x-window-id"
SECRET_HEADER = "x-window-secret"  # noqa: S105  the name of a header
STATUSES: tuple[str, ...] = get_args(WindowStatus)
FULL = 503

_ID = Parameter("id", {"type": "string"}, "The window's id.")
_UNKNOWN = Answer("No window has that id and secret.", ErrorBody)


class Alive(Message):
    """The hub serves."""

    status: str


class State(Message):
    """How the hub sees a window."""

    status: str


def hub_endpoints(windows: Windows) -> list[Endpoint]:
    """Every endpoint but those of the windows' boxes."""
    return [*_for_anybody(windows), *_for_windows(windows)]


def _for_anybody(windows: Windows) -> list[Endpoint]:
    async def alive(request: Request) -> Response:
        return json_response(Alive(status="ok"))

    async def discover(request: Request) -> Response:
        return json_response(chosen(windows.listed(), request))

    async def stats(request: Request) -> Response:
        return json_response(windows.stats())

    text = {"type": "string"}
    return [
        Endpoint(
            "GET", "/alive", alive, "Whether the hub serves", {200: Answer("It does.", Alive)}, open=True
        ),
        Endpoint(
            "GET", "/api/vscode/discover", discover, "The windows there are",
            {200: Answer("The oldest first.", {"type": "array"}), 422: INVALID},
            parameters=(
                Parameter("workspace", text, "Only with this folder, or with a workspace of this name."),
                Parameter("status", {"enum": list(STATUSES)}, "Only in this state."),
                Parameter("id", text, "Only the one with this id."),
            ),
        ),
        Endpoint(
            "GET", "/api/vscode/stats", stats, "How the hub is", {200: Answer("Numbers.", HubStats)}
        ),
    ]  # fmt: skip


def _for_windows(windows: Windows) -> list[Endpoint]:
    async def register(request: Request) -> Response:
        said = await body(request, Registration)
        known = request.headers.get(ID_HEADER, ""), request.headers.get(SECRET_HEADER, "")
        try:
            return json_response(await windows.register(said, *known))
        except WindowError as error:
            return error_response(FULL, error)

    async def heartbeat(request: Request) -> Response:
        beat = await body(request, Heartbeat)
        return json_response(State(status=windows.heartbeat(request.path_params["id"], beat).status))

    async def unregister(request: Request) -> Response:
        await windows.unregister(request.path_params["id"], request.headers.get(SECRET_HEADER, ""))
        return json_response(State(status="gone"))

    return [
        Endpoint(
            "POST", "/api/vscode/register", register, "Register a window",
            {
                200: Answer("What it is called, and what proves that it is the one.", Registered),
                413: Answer("It says too much.", ErrorBody),
                422: INVALID,
                FULL: Answer("There are too many windows.", ErrorBody),
            },
            body=Registration,
        ),
        Endpoint(
            "POST", "/api/vscode/heartbeat/{id}", heartbeat, "Say that the main thread answers",
            {200: Answer("Heard.", State), 404: _UNKNOWN, 422: INVALID},
            path_parameters=(_ID,), body=Heartbeat,
        ),
        Endpoint(
            "DELETE", "/api/vscode/unregister/{id}", unregister, "Forget a window",
            {200: Answer("Forgotten.", State), 404: _UNKNOWN}, path_parameters=(_ID,),
        ),
    ]  # fmt: skip


def chosen(windows: list[Window], request: Request) -> list[Window]:
    """Those windows that the query means.

    Raises:
        InvalidParameter: there is no such state.
    """
    query = request.query_params
    status, workspace, window_id = query.get("status"), query.get("workspace"), query.get("id")
    if status is not None and status not in STATUSES:
        problem = f"Input should be one of: {', '.join(STATUSES)}"
        raise InvalidParameter("enum", ("query", "status"), problem, status)
    return [
        window
        for window in windows
        if (status is None or window.status == status)
        and (window_id is None or window.id == window_id)
        and (workspace is None or _has(window, workspace))
    ]


def _has(window: Window, workspace: str) -> bool:
    path = posixpath.normpath(workspace)
    return window.name == workspace or any(posixpath.normpath(one.path) == path for one in window.folders)
