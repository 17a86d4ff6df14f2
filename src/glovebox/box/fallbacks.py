"""Answers to actions and requests whose capability is missing."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Call, Handler
from glovebox.errors import UnsupportedAction
from glovebox.http.endpoints import Endpoint, Reply
from glovebox.http.responses import json_response
from glovebox.protocol.actions import BrowseInteractiveAction, BrowseURLAction, IPythonRunCellAction
from glovebox.protocol.base import Action, Message
from glovebox.protocol.observations import ErrorObservation

NO_BROWSER = "Browser functionality is not supported or disabled."
NO_JUPYTER = "JupyterRequirement not found. Unable to run IPython action."


class ConnectionToken(Message):
    """The token of the VS Code server; null without one."""

    token: str | None


def refuse(kind: type[Action[Any]], message: str) -> Handler:
    """A handler that refuses actions of a kind."""

    async def handler(action: Action[Any], call: Call) -> ErrorObservation:
        raise UnsupportedAction(message)

    handler.__annotations__["action"] = kind
    return handler


async def _no_browser(action: Action[Any], call: Call) -> ErrorObservation:
    return ErrorObservation(content=NO_BROWSER)


async def _no_token(request: Request) -> Response:
    return json_response(ConnectionToken(token=None))


HANDLERS: dict[type[Action[Any]], Handler] = {
    BrowseURLAction: _no_browser,
    BrowseInteractiveAction: _no_browser,
    IPythonRunCellAction: refuse(IPythonRunCellAction, NO_JUPYTER),
}


def endpoints() -> list[Endpoint]:
    """Endpoints of the contract whose capability may be missing."""
    return [
        Endpoint(
            "GET", "/vscode/connection_token", _no_token, "The token of the VS Code server",
            {200: Reply("Null when none runs.", ConnectionToken)},
        ),
    ]  # fmt: skip
