"""A VS Code window as the one plugin of a box."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from glovebox.box.executor import Handler, Observer
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.plugin import Context, Plugin
from glovebox.box.system.stats import Stats
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.hub.window.endpoints import ShellEndpoints, refusing_endpoints, refusing_handlers
from glovebox.hub.window.files import WindowFiles
from glovebox.hub.window.search import WindowSearch
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window.transfer import WindowTransfer
from glovebox.hub.window_client import Hands

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
        self.terminal = WindowTerminal(
            hands,
            no_change_timeout=context.settings.no_change_timeout_seconds,
            events=context.events,
            threads=context.threads,
        )
        files = WindowFiles(hands, context.threads)
        self._content = FileActions(
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
            *ShellEndpoints(self.terminal, self._stats, self.context).endpoints(),
            *self._transfer.endpoints(),
            *refusing_endpoints(),
        ]

    def gauges(self) -> Mapping[str, float]:
        return {"sessions": len(self.terminal.sessions())}

    def observers(self) -> Iterable[Observer]:
        return (self._stats,)
