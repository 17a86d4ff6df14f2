"""What is said for capabilities that are not loaded."""

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
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    ErrorObservation,
    IPythonRunCellObservation,
)

NO_BROWSER = "Browser functionality is not supported or disabled."
NO_JUPYTER = "JupyterRequirement not found. Unable to run IPython action."


class ConnectionToken(Message):
    """The token of the VS Code server; null without one."""

    token: str | None


async def browse(action: BrowseURLAction, call: Call) -> BrowserOutputObservation | ErrorObservation:
    """There is no browser."""
    return ErrorObservation(content=NO_BROWSER)


async def browse_interactive(
    action: BrowseInteractiveAction, call: Call
) -> BrowserOutputObservation | ErrorObservation:
    """There is no browser."""
    return ErrorObservation(content=NO_BROWSER)


async def run_ipython(action: IPythonRunCellAction, call: Call) -> IPythonRunCellObservation:
    """There is no kernel."""
    raise UnsupportedAction(NO_JUPYTER)


async def connection_token(request: Request) -> Response:
    """There is no VS Code server."""
    return json_response(ConnectionToken(token=None))


#: For actions whose capability may be missing.
HANDLERS: dict[type[Action[Any]], Handler] = {
    BrowseURLAction: browse,
    BrowseInteractiveAction: browse_interactive,
    IPythonRunCellAction: run_ipython,
}


def endpoints() -> list[Endpoint]:
    """For endpoints of the contract whose capability may be missing."""
    return [
        Endpoint(
            "GET", "/vscode/connection_token", connection_token, "The token of the VS Code server",
            {200: Reply("Null when none runs.", ConnectionToken)},
        ),
    ]  # fmt: skip
