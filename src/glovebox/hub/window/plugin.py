"""A VS Code window as the one plugin of a box."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from glovebox.box.executor import Call, Handler, Observer, Outcome
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.files.endpoints.watch import watch_endpoint
from glovebox.box.plugin import Context, Plugin
from glovebox.box.system.stats import ServerInfo, Stats
from glovebox.box.terminal.endpoints.commands import command_endpoints
from glovebox.box.terminal.endpoints.sessions import session_endpoints
from glovebox.errors import UnsupportedAction
from glovebox.http.endpoints import Endpoint, Reply, Socket
from glovebox.http.responses import json_response, to_json
from glovebox.hub.window.action_reports import ActionReporter
from glovebox.hub.window.companion import Companion
from glovebox.hub.window.files import WindowFileActions, WindowFiles
from glovebox.hub.window.search import WindowSearch
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window.transfer import WindowTransfer
from glovebox.hub.window.watch import WindowWatch
from glovebox.hub.window_client import Hands
from glovebox.protocol.base import Action

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
        self.active = ActiveActions()
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
        self._companion = Companion(hands, lambda: self.terminal.cwd)
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
            *self._companion.handlers(),
        ]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        """Terminals, transfers, and what the companion box answers."""
        return [
            Endpoint(
                "GET", "/server_info", self._server_info, "How long the window is a box, what the hub uses",
                {200: Reply("Seconds and bytes.", ServerInfo)}, open=True,
            ),
            *session_endpoints(self.terminal),
            *command_endpoints(self.terminal, self.context.threads, self.context.closing),
            *self._transfer.endpoints(),
            watch_endpoint(
                WindowWatch(self._hands, lambda: self.terminal.workspace, self.context.closing).__call__
            ),
            *self._companion.endpoints(),
            Socket("/sessions/{name}/attach", _not_attached),
        ]  # fmt: skip

    async def _server_info(self, request: Request) -> Response:
        return json_response(await self.context.threads.run(self._stats.look))

    def gauges(self) -> Mapping[str, float]:
        return {"sessions": len(self.terminal.sessions())}

    def observers(self) -> Iterable[Observer]:
        return (self._stats, self.active, self.reporter)


class ActiveActions:
    """Counts the actions that are under way."""

    def __init__(self) -> None:
        self.count = 0

    def started(self, action: Action[Any], call: Call) -> None:
        self.count += 1

    def finished(self, outcome: Outcome) -> None:
        self.count -= 1


_NO_ATTACHING = (
    "Nobody can attach to a terminal of a VS Code window from here: it is there, in the window, for its user."
)
#: A WebSocket is closed with this, as for a session that is not there.
_CLOSED = 4404


async def _not_attached(socket: WebSocket) -> None:
    await socket.accept()
    closed = {"type": "closed", "code": UnsupportedAction.code, "reason": _NO_ATTACHING}
    await socket.send_text(to_json(closed).decode())
    await socket.close(_CLOSED)
