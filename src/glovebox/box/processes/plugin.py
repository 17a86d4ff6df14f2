"""Processes as a plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glovebox.box.plugin import Context, Plugin
from glovebox.box.processes.endpoints import process_endpoints
from glovebox.box.processes.journal import FILE, ProcessJournal
from glovebox.box.processes.registry import ProcessRegistry
from glovebox.http.endpoints import Endpoint, Socket, all_active
from glovebox.protocol.events import ProcessFinished
from glovebox.settings import current_user


class ProcessesPlugin(Plugin):
    """Programs without a session."""

    name = "processes"
    needs = ("terminal",)
    starts = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        settings = context.settings
        self.registry = ProcessRegistry(
            user=settings.account if settings.su_to_user else current_user(),
            # Without a key, programs of the sandbox user are callers too, and must not become another user.
            fixed_user=settings.su_to_user and not settings.session_api_key,
            working_dir=settings.working_dir,
            log_size=settings.process_log_size,
            keep=settings.process_history,
            keep_size=settings.process_history_size,
        )
        self.registry.on_end = lambda info: context.events.append(ProcessFinished, process=info)

    async def start(self) -> None:
        """Know the processes of an earlier server."""
        journal = ProcessJournal(self.context.keeper.state_file(FILE))
        self.registry.open(self.context.starter, journal, await self.context.threads.run(journal.load))

    async def stop(self) -> None:
        """End the processes; detached ones stay where shells do."""
        await self.registry.close(keep_detached=self.context.settings.keep_sessions)

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        return all_active(process_endpoints(self.registry, self.context.closing))

    def gauges(self) -> Mapping[str, float]:
        return {"processes_running": self.registry.running}
