"""What the box and its machine use, as a plugin."""

from __future__ import annotations

import os
from collections.abc import Iterable

from glovebox.box.executor import Observer
from glovebox.box.plugin import Context, Plugin
from glovebox.box.system.endpoints import SystemEndpoints
from glovebox.box.system.memory_monitor import MemoryMonitor
from glovebox.box.system.stats import LastAction, Stats
from glovebox.http.endpoints import Endpoint


class SystemPlugin(Plugin):
    """Statistics, and the monitor of memory."""

    name = "system"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.stats = Stats()
        self._endpoints = SystemEndpoints(
            self.stats, self.roots, context.settings.working_dir, context.threads, context.closing
        )
        self._monitor = MemoryMonitor(self.roots)

    def roots(self) -> list[int]:
        """The processes that all processes of the box descend from."""
        found = [os.getpid()]
        for plugin in self.context.plugins():
            found += plugin.processes()
        return found

    async def start(self) -> None:
        """Measure from now on, and log the use of memory if that is wanted."""
        await self._endpoints.start()
        if self.context.settings.runtime_memory_monitor:
            self._monitor.start()

    async def stop(self) -> None:
        """Stop logging."""
        await self.context.threads.run(self._monitor.stop)

    def endpoints(self) -> Iterable[Endpoint]:
        """`/server_info` and `/metrics/system`."""
        return self._endpoints.endpoints()

    def observers(self) -> Iterable[Observer]:
        """Notes when the box was last asked for something."""
        return (LastAction(self.stats),)
