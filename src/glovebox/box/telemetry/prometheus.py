"""The text that Prometheus reads, made with its own library, which is loaded when somebody first asks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

import glovebox
from glovebox.box.telemetry.measurements import BUCKETS, Figures
from glovebox.box.telemetry.snapshot import Snapshot
from glovebox.protocol.status import PluginState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """Shows looks at the box. Everything here blocks: call it in a thread."""

    def __init__(self) -> None:
        self._registry: CollectorRegistry | None = None
        self._lock = threading.Lock()
        self._look: Snapshot | None = None

    def render(self, look: Snapshot) -> bytes:
        """A look, and what the process uses.

        Raises:
            ImportError: the library is not installed.
        """
        import prometheus_client

        with self._lock:  # two may ask at the same time, and the registry asks back for the look
            if self._registry is None:
                self._registry = prometheus_client.CollectorRegistry()
                prometheus_client.ProcessCollector(registry=self._registry)
                self._registry.register(self)
            self._look = look
            return prometheus_client.generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The metrics of the look that is being shown."""
        if self._look is not None:
            yield from _box(self._look)
            yield from _actions(self._look)
            yield from _plugins(self._look)


def _box(look: Snapshot) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    yield InfoMetricFamily("glovebox", "The box.", value={"version": glovebox.__version__})
    yield GaugeMetricFamily("glovebox_uptime_seconds", "How long the box has been there.", value=look.uptime)
    yield CounterMetricFamily("glovebox_events_total", "Events of the event log.", value=look.events)


def _actions(look: Snapshot) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    ended = CounterMetricFamily(
        "glovebox_actions_total", "Actions that ended, by what they came to.", labels=["action", "result"]
    )
    seconds = HistogramMetricFamily(
        "glovebox_action_seconds", "How long actions took until they were answered.", labels=["action"]
    )
    read = CounterMetricFamily("glovebox_input_bytes_total", "Text actions brought along.", labels=["action"])
    printed = CounterMetricFamily(
        "glovebox_output_bytes_total", "What commands printed and other actions answered.", labels=["action"]
    )
    for kind, figures in look.actions.items():
        for result, count in figures.results.items():
            ended.add_metric([kind, result], count)
        seconds.add_metric([kind], _ranges(figures), figures.seconds)
        read.add_metric([kind], figures.input_bytes)
        printed.add_metric([kind], figures.output_bytes)
    yield from (ended, seconds, read, printed)
    yield GaugeMetricFamily("glovebox_actions_running", "Actions not answered yet.", value=look.running)


def _ranges(figures: Figures) -> list[tuple[str, float]]:
    """Durations as Prometheus wants them: each range includes those before it."""
    ranges: list[tuple[str, float]] = []
    count = 0
    for end, more in zip((*map(str, BUCKETS), "+Inf"), figures.durations, strict=True):
        count += more
        ranges.append((end, count))
    return ranges


def _plugins(look: Snapshot) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    states = GaugeMetricFamily(
        "glovebox_plugin_state", "1 for the state a plugin is in.", labels=["plugin", "state"]
    )
    restarts = CounterMetricFamily(
        "glovebox_plugin_restarts_total", "How often a plugin was started again.", labels=["plugin"]
    )
    for plugin in look.plugins:
        for state in get_args(PluginState):
            states.add_metric([plugin.name, state], float(plugin.state == state))
        restarts.add_metric([plugin.name], plugin.restarts)
    yield from (states, restarts)
    for name, value in look.gauges.items():
        yield GaugeMetricFamily(f"glovebox_{name}", "Counted by a plugin.", value=value)
