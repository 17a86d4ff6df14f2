"""The terminal as a plugin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from glovebox.box.executor import Handler
from glovebox.box.plugin import Context, Plugin
from glovebox.box.terminal.endpoints.attach import Attach
from glovebox.box.terminal.endpoints.commands import command_endpoints
from glovebox.box.terminal.endpoints.sessions import session_endpoints
from glovebox.box.terminal.manager import Terminal
from glovebox.errors import StartupError
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.settings import current_user

log = logging.getLogger(__name__)


class TerminalPlugin(Plugin):
    """Persistent shells."""

    name = "terminal"
    starts = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        settings = context.settings
        self.terminal = Terminal(
            working_dir=settings.working_dir,
            username=settings.account if settings.su_to_user else current_user(),
            environment=settings.command_environment,
            no_change_timeout=settings.no_change_timeout_seconds,
            events=context.events,
            state_dir=settings.state_dir or None,
            keep_sessions=settings.keep_sessions,
            orphan_seconds=settings.orphan_seconds,
            log_size=settings.terminal_log_size,
            kind=settings.terminal,
            own_columns=settings.terminal_columns,
            launched=context.services.launched,
        )
        self._shell: asyncio.Task[None] | None = None
        context.services.shell = self.terminal
        context.services.outputs = self.terminal

    async def start(self) -> None:
        """Take commands from now on. The shell starts meanwhile: a user's start-up files may take long."""
        await self.terminal.open()
        self.context.services.keeper = self.terminal.keeper
        self.context.services.starter = self.terminal.programs
        self._shell = asyncio.create_task(self._start_shell())

    async def stop(self) -> None:
        """End the shells, or leave them to the next server."""
        if self._shell is not None:
            self._shell.cancel()
        await self.terminal.close()

    def handlers(self) -> Iterable[Handler]:
        return self.terminal.handlers()

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        attach = Attach(self.terminal, self.context.events)
        return [
            *command_endpoints(self.terminal, self.context.threads, self.context.closing),
            *session_endpoints(self.terminal),
            Socket("/sessions/{name}/attach", attach.__call__),
        ]

    def gauges(self) -> Mapping[str, float]:
        """How many sessions there are."""
        return {"sessions": len(self.terminal.sessions())}

    def processes(self) -> list[int]:
        """The process that all shells descend from; one of an earlier server is not our child."""
        pid = self.terminal.holder_pid
        return [pid] if pid else []

    def hint(self) -> str | None:
        """How to attach with tmux, if that is possible."""
        return self.terminal.attach_line

    async def _start_shell(self) -> None:
        try:
            with self.context.startup.step("shell"):
                await self.terminal.start()
        except StartupError as error:
            log.error("the shell did not start; commands will try again: %s", error)
