"""One look at everything there is to tell about a box. What shows it, shows the same."""

from __future__ import annotations

import asyncio
import logging
import re
import time

import msgspec

from glovebox.box.plugin import Context, Plugin
from glovebox.box.telemetry.measurements import Figures, Measurements
from glovebox.protocol.status import PluginInfo

log = logging.getLogger(__name__)

#: Endings that Prometheus keeps for other kinds of metrics are not for gauges.
_GAUGE_NAME = re.compile(r"[a-z][a-z0-9_]*(?<!_total)(?<!_count)(?<!_sum)(?<!_bucket)(?<!_info)")
#: Names that the box's own figures have.
_TAKEN = frozenset({"info", "uptime_seconds", "actions_running", "action_seconds", "plugin_state"})


class Snapshot(msgspec.Struct, frozen=True):
    """How the box was at one moment."""

    uptime: float
    running: int
    actions: dict[str, Figures]
    #: How many events there have been.
    events: int
    plugins: list[PluginInfo]
    #: What plugins count, by name.
    gauges: dict[str, float]


class Looking:
    """Looks at a box. It belongs to the event loop, like everything it looks at."""

    def __init__(self, context: Context, measurements: Measurements) -> None:
        self._context = context
        self._measurements = measurements
        self._since = time.monotonic()
        #: Plugins that something has been said about.
        self._broken: set[str] = set()

    async def look(self) -> Snapshot:
        """How the box is now."""
        gauges = await self.gauges()
        return Snapshot(
            uptime=time.monotonic() - self._since,
            running=self._measurements.running,
            actions=self._measurements.figures(),
            events=self._context.events.last,
            plugins=self._context.report(),
            gauges=gauges,
        )

    async def gauges(self) -> dict[str, float]:
        """What plugins count; what cannot be shown is left out, and costs nobody else their figures."""
        plugins = self._context.plugins()
        counted = await asyncio.gather(*map(_count, plugins), return_exceptions=True)
        found: dict[str, float] = {}
        for plugin, gauges in zip(plugins, counted, strict=True):
            if isinstance(gauges, BaseException):
                self._complain(plugin.name, gauges)
                continue
            for name, value in gauges.items():
                if _GAUGE_NAME.fullmatch(name) and name not in _TAKEN:
                    found[name] = found.get(name, 0.0) + value
                else:
                    self._complain(plugin.name, f"{name!r} cannot be the name of one")
        return found

    def _complain(self, plugin: str, problem: object) -> None:
        if plugin not in self._broken:
            self._broken.add(plugin)
            log.warning("gauges of plugin %s are not shown: %s", plugin, problem)


async def _count(plugin: Plugin) -> dict[str, float]:
    return {name: float(value) for name, value in plugin.gauges().items()}
