"""VS Code as a plugin."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.plugin import Context, Plugin
from glovebox.box.vscode.options import VSCodeOptions
from glovebox.errors import PluginFailed
from glovebox.http.endpoints import Endpoint, Reply, Socket
from glovebox.http.responses import json_response
from glovebox.protocol.base import Message

if TYPE_CHECKING:
    from glovebox.box.vscode.server import VSCode

log = logging.getLogger(__name__)


class ConnectionToken(Message):
    """The token of the VS Code server; null without one."""

    token: str | None


class VSCodePlugin(Plugin):
    """Shows the workspace in VS Code, in a web browser. The server itself starts when somebody opens it.

    Without a server the plugin goes on, since one may be installed while the box runs; its health tells.
    """

    name = "vscode"
    options = VSCodeOptions
    starts = "background"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options(VSCodeOptions)
        self._vscode: VSCode | None = None

    @property
    def vscode(self) -> VSCode:
        """VS Code.

        Raises:
            PluginFailed: the plugin is not started.
        """
        if self._vscode is None:
            raise PluginFailed("Plugin vscode is not started.")
        return self._vscode

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        return [
            Endpoint(
                "GET", "/vscode/connection_token", self.connection_token, "The token of the VS Code server",
                {200: Reply("Null when none can be served; `/plugins/vscode` says why.", ConnectionToken)},
            ),
        ]  # fmt: skip

    def gauges(self) -> Mapping[str, float]:
        return {"vscode_running": self._vscode.is_running if self._vscode else 0}

    async def connection_token(self, request: Request) -> Response:
        """What VS Code has to be shown."""
        return json_response(ConnectionToken(token=await self.vscode.token()))

    async def start(self) -> None:
        """Be ready; a server that an earlier server of the box left is taken over."""
        from glovebox.box.vscode.server import VSCode

        if self._vscode is None:
            self._vscode = VSCode(
                self.context.settings,
                self._options,
                keeper=self.context.keeper,
                threads=self.context.threads,
                crashed=self._crashed,
            )
        try:
            await self._vscode.open()
        except PluginFailed as error:
            log.warning("VS Code cannot be opened: %s", error)

    def _crashed(self, reason: str) -> bool:
        """Have the plugin started once more, but not again: one that has failed could not say its token."""
        restarts = {plugin.name: plugin.restarts for plugin in self.context.report()}
        if restarts[self.name]:
            log.error("plugin vscode crashed again: %s", reason)
            return False
        self.context.crashed(reason)
        return True

    async def health(self) -> dict[str, Any]:
        """Whether it can be opened, and where; one that nobody has opened yet is well."""
        return await self.vscode.health()

    async def stop(self) -> None:
        """End it; if the box closes, it ends with the box or waits for the next server of the box."""
        if self._vscode is not None:
            await self._vscode.close(end=not self.context.closing.is_set())
