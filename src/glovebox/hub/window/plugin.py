"""A VS Code window as the one plugin of a box."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from glovebox.box.executor import Handler, Observer
from glovebox.box.fallbacks import refuse
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.plugin import Context, Plugin
from glovebox.box.system.stats import ServerInfo, Stats
from glovebox.box.terminal.endpoints.commands import command_endpoints
from glovebox.box.terminal.endpoints.sessions import session_endpoints
from glovebox.errors import UnsupportedAction
from glovebox.http.endpoints import Endpoint, Reply, Socket
from glovebox.http.responses import ErrorBody, json_response, refused, to_json
from glovebox.hub.window.action_reports import ActionReporter
from glovebox.hub.window.files import WindowFileActions, WindowFiles
from glovebox.hub.window.search import WindowSearch
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window.transfer import WindowTransfer
from glovebox.hub.window_client import Hands
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    IPythonRunCellAction,
    MCPAction,
)

#: How much of earlier contents is kept for one window.
_HISTORY_BYTES = 64 << 20


class WindowPlugin(Plugin):
    """Turns actions into orders to a window."""

    name = "window"
    starts = "first"

    def __init__(self, context: Context, hands: Hands) -> None:
        super().__init__(context)
        self._hands = hands
        self._stats = Stats()
        self.reporter = ActionReporter(hands)
        self.terminal = WindowTerminal(
            hands,
            no_change_timeout=context.settings.no_change_timeout_seconds,
            events=context.events,
            threads=context.threads,
        )
        files = WindowFiles(hands, context.threads)
        self._content = WindowFileActions(
            files,
            shell=self.terminal,
            workspace=lambda: self.terminal.workspace,
            max_read_bytes=context.settings.max_read_size,
            history_bytes=_HISTORY_BYTES,
        )
        self._paths = PathActions(files, shell=self.terminal)
        self._search = WindowSearch(hands, self.terminal)
        self._transfer = WindowTransfer(
            hands, terminal=self.terminal, settings=context.settings, threads=context.threads
        )
        context.services.shell = self.terminal
        context.services.outputs = self.terminal

    async def stop(self) -> None:
        """Let go of commands and remove the history of edits; the window goes on."""
        await self.terminal.close()
        await self._content.close()

    async def health(self) -> dict[str, Any]:
        window = self._hands.window
        return {"id": window.id, "name": window.name, "status": window.status, "seen": window.seen}

    def handlers(self) -> Iterable[Handler]:
        return [
            self.terminal.run,
            self.terminal.execute,
            self.terminal.give_input,
            *self._content.handlers(),
            *self._search.handlers(),
            *self._paths.handlers(),
        ]

    def refusals(self) -> Iterable[Handler]:
        """Errors for actions that a window cannot carry out."""
        return refusing_handlers()

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        """Terminals, transfers, and errors for what is missing."""
        return [
            Endpoint(
                "GET", "/server_info", self._server_info, "How long the window is a box, what the hub uses",
                {200: Reply("Seconds and bytes.", ServerInfo)}, open=True,
            ),
            *session_endpoints(self.terminal),
            *command_endpoints(self.terminal, self.context.threads, self.context.closing),
            *self._transfer.endpoints(),
            *refusing_endpoints(),
        ]  # fmt: skip

    async def _server_info(self, request: Request) -> Response:
        return json_response(await self.context.threads.run(self._stats.look))

    def gauges(self) -> Mapping[str, float]:
        return {"sessions": len(self.terminal.sessions())}

    def observers(self) -> Iterable[Observer]:
        return (self._stats, self.reporter)


_INSTEAD = "Use a box of the backend process or docker for that."
_NO_KERNEL = (
    "A VS Code window has no IPython kernel: run_ipython cannot be carried out in it. Run the code with "
    f"`python`, or: {_INSTEAD}"
)
_NO_BROWSER = f"A VS Code window has no browser for agents: it opens no pages. {_INSTEAD}"
_NO_MCP = f"A VS Code window calls no MCP servers. {_INSTEAD}"
_NO_METRICS = f"A VS Code window does not tell what its machine uses. {_INSTEAD}"
_NO_ATTACHING = (
    "Nobody can attach to a terminal of a VS Code window from here: it is there, in the window, for its user."
)
#: A WebSocket is closed with this, as for a session that is not there.
_CLOSED = 4404

#: Endpoints of a box that a window does not have: method, path, and the error.
_MISSING: tuple[tuple[str, str, str], ...] = (
    ("GET", "/kernels", _NO_KERNEL),
    ("POST", "/kernels", _NO_KERNEL),
    ("GET", "/kernels/{rest:path}", _NO_KERNEL),
    ("POST", "/kernels/{rest:path}", _NO_KERNEL),
    ("DELETE", "/kernels/{rest:path}", _NO_KERNEL),
    ("GET", "/kernelspecs", _NO_KERNEL),
    ("GET", "/browser", _NO_BROWSER),
    ("GET", "/browser/{rest:path}", _NO_BROWSER),
    ("POST", "/update_mcp_server", _NO_MCP),
    ("GET", "/mcp/servers", _NO_MCP),
    ("PUT", "/mcp/servers", _NO_MCP),
    ("GET", "/sse", _NO_MCP),
    ("GET", "/mcp", _NO_MCP),
    ("POST", "/mcp", _NO_MCP),
    ("GET", "/mcp/{rest:path}", _NO_MCP),
    ("POST", "/mcp/{rest:path}", _NO_MCP),
    ("GET", "/metrics", _NO_METRICS),
    ("GET", "/metrics/system", _NO_METRICS),
)


def refusing_handlers() -> list[Handler]:
    """For actions that a window cannot carry out."""
    return [
        refuse(IPythonRunCellAction, _NO_KERNEL),
        refuse(BrowseURLAction, _NO_BROWSER),
        refuse(BrowseInteractiveAction, _NO_BROWSER),
        refuse(MCPAction, _NO_MCP),
    ]


def refusing_endpoints() -> list[Endpoint | Socket]:
    """For endpoints of a box that a window does not have."""
    answers = {500: Reply("A VS Code window cannot do that; `detail` says what can.", ErrorBody)}
    endpoints = [
        Endpoint(method, path, _refusing(message), "Not in a VS Code window", answers)
        for method, path, message in _MISSING
    ]
    return [*endpoints, Socket("/sessions/{name}/attach", _not_attached)]


def _refusing(message: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return refused(UnsupportedAction(message))

    return answer


async def _not_attached(socket: WebSocket) -> None:
    await socket.accept()
    closed = {"type": "closed", "code": UnsupportedAction.code, "reason": _NO_ATTACHING}
    await socket.send_text(to_json(closed).decode())
    await socket.close(_CLOSED)
