"""What a box has and a window has not: each is answered with words, not with silence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from glovebox.box.executor import Call, Handler
from glovebox.errors import UnsupportedAction
from glovebox.http.endpoints import Endpoint, Reply, Socket
from glovebox.http.responses import ErrorBody, refused, to_json
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    ErrorObservation,
    IPythonRunCellObservation,
    MCPObservation,
)

_INSTEAD = "Use a box of the backend process or docker for that."
NO_KERNEL = (
    "A VS Code window has no IPython kernel: run_ipython cannot be carried out in it. Run the code with "
    f"`python`, or: {_INSTEAD}"
)
NO_BROWSER = f"A VS Code window has no browser for agents: it opens no pages. {_INSTEAD}"
NO_MCP = f"A VS Code window calls no MCP servers. {_INSTEAD}"
NO_METRICS = f"A VS Code window does not tell what its machine uses. {_INSTEAD}"
NO_ATTACHING = (
    "Nobody can attach to a terminal of a VS Code window from here: it is there, in the window, for its user."
)
NO_SIZE = "A terminal in VS Code has the size that its user gives it."
#: A WebSocket is closed with this, as for a session that is not there.
_CLOSED = 4404

#: Method, path, and what is said.
_REFUSED: tuple[tuple[str, str, str], ...] = (
    ("GET", "/kernels", NO_KERNEL),
    ("POST", "/kernels", NO_KERNEL),
    ("GET", "/kernels/{rest:path}", NO_KERNEL),
    ("POST", "/kernels/{rest:path}", NO_KERNEL),
    ("DELETE", "/kernels/{rest:path}", NO_KERNEL),
    ("GET", "/kernelspecs", NO_KERNEL),
    ("GET", "/browser", NO_BROWSER),
    ("GET", "/browser/{rest:path}", NO_BROWSER),
    ("POST", "/update_mcp_server", NO_MCP),
    ("GET", "/mcp/servers", NO_MCP),
    ("PUT", "/mcp/servers", NO_MCP),
    ("GET", "/sse", NO_MCP),
    ("GET", "/mcp", NO_MCP),
    ("POST", "/mcp", NO_MCP),
    ("GET", "/mcp/{rest:path}", NO_MCP),
    ("POST", "/mcp/{rest:path}", NO_MCP),
    ("GET", "/metrics", NO_METRICS),
    ("GET", "/metrics/system", NO_METRICS),
    ("POST", "/sessions/{name}/resize", NO_SIZE),
)


async def run_ipython(
    action: IPythonRunCellAction, call: Call
) -> IPythonRunCellObservation | ErrorObservation:
    """There is no kernel."""
    raise UnsupportedAction(NO_KERNEL)


async def browse(action: BrowseURLAction, call: Call) -> BrowserOutputObservation | ErrorObservation:
    """There is no browser."""
    raise UnsupportedAction(NO_BROWSER)


async def browse_interactive(
    action: BrowseInteractiveAction, call: Call
) -> BrowserOutputObservation | ErrorObservation:
    """There is no browser."""
    raise UnsupportedAction(NO_BROWSER)


async def call_tool_mcp(action: MCPAction, call: Call) -> MCPObservation | ErrorObservation:
    """There are no MCP servers."""
    raise UnsupportedAction(NO_MCP)


def refusing_handlers() -> list[Handler]:
    """For actions that a window cannot carry out."""
    return [run_ipython, browse, browse_interactive, call_tool_mcp]


def refusing_endpoints() -> list[Endpoint | Socket]:
    """For endpoints of a box that a window does not have."""
    answers = {500: Reply("A VS Code window cannot do that; `detail` says what can.", ErrorBody)}
    endpoints = [
        Endpoint(method, path, _saying(words), "Not in a VS Code window", answers)
        for method, path, words in _REFUSED
    ]
    return [*endpoints, Socket("/sessions/{name}/attach", _not_attached)]


def _saying(words: str) -> Callable[[Request], Awaitable[Response]]:
    async def say(request: Request) -> Response:
        return refused(UnsupportedAction(words))

    return say


async def _not_attached(socket: WebSocket) -> None:
    await socket.accept()
    closed = {"type": "closed", "code": UnsupportedAction.code, "reason": NO_ATTACHING}
    await socket.send_text(to_json(closed).decode())
    await socket.close(_CLOSED)
