"""The telemetry plugin: `/metrics` for Prometheus, and signals for a collector of OpenTelemetry."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

import glovebox
from glovebox.box.executor import Call, Observer, Outcome
from glovebox.box.plugin import Context, Plugin
from glovebox.box.telemetry.measurements import BUCKETS, METRICS, Measurements, Snapshot, Snapshots
from glovebox.box.threads import Threads
from glovebox.errors import PluginFailed
from glovebox.http.endpoints import Endpoint, Reply
from glovebox.http.responses import ErrorBody, error_response
from glovebox.logs import Mask
from glovebox.protocol.base import Action

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from glovebox.box.telemetry.otel import Sending

log = logging.getLogger(__name__)

#: How long a box that stops waits for the collector to take the last signals.
FLUSH_SECONDS = 2.0
_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SIGNALS = ("traces", "metrics", "logs")
_HTTP = "http/protobuf"
#: Shorter values of headers would be found in any text.
_SHORTEST_SECRET = 6


class TelemetryPlugin(Plugin):
    """Counts actions, shows the figures on `/metrics`, and sends traces, metrics and logs to a collector."""

    name: ClassVar[str] = "telemetry"
    starts = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._measurements = Measurements()
        self._snapshots = Snapshots(context, self._measurements)
        self._exposition = _Exposition()
        self._requested = requested_signals(context.settings.telemetry_variables)
        self._later = _Later()
        self._sending: Sending | None = None

    def observers(self) -> Iterable[Observer]:
        return [self._measurements, self._later] if self._requested else [self._measurements]

    def endpoints(self) -> Iterable[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/metrics",
                self._metrics,
                "Metrics for Prometheus",
                {
                    200: Reply("Prometheus' text format.", {"type": "string"}, "text/plain"),
                    501: Reply("prometheus-client is not installed.", ErrorBody),
                },
                description="Figures on actions, plugins and the process of the server.",
            )
        ]

    async def start(self) -> None:
        """Begin to send, if that is configured; a box that cannot send serves all the same."""
        if not self._requested:
            return
        loop, gauges = asyncio.get_running_loop(), list(await self._snapshots.gauges())
        try:
            self._sending = await self.context.threads.run(self._open, loop, gauges)
        except ImportError:
            log.warning(
                "OTEL_* variables ask for telemetry, which needs the packages of OpenTelemetry: "
                "pip install 'glovebox-runtime[otel]'"
            )
        else:
            self._later.observers = tuple(self._sending.observers)

    async def health(self) -> dict[str, Any]:
        return {"sends": self._sending.signals if self._sending else []}

    async def stop(self) -> None:
        """Send the last signals, as far as the collector takes them in time."""
        sending, self._sending = self._sending, None
        self._later.observers = ()
        if sending is None or not sending.signals:
            return
        sending.leave_logs()
        threads = Threads(self.name, len(sending.shutdowns))  # of their own: they may hang for long
        flushes = [asyncio.ensure_future(threads.run(shutdown)) for shutdown in sending.shutdowns]
        _, late = await asyncio.wait(flushes, timeout=FLUSH_SECONDS)
        threads.close()
        for flush in late:
            flush.cancel()
        outcomes = await asyncio.gather(*flushes, return_exceptions=True)
        if any(outcomes):
            log.warning("The collector did not take the last telemetry in time; it is lost")

    def _open(self, loop: asyncio.AbstractEventLoop, gauges: list[str]) -> Sending:
        from glovebox.box.telemetry import otel, otel_observers

        settings = self.context.settings
        variables = settings.telemetry_variables
        mask = Mask([settings.session_api_key, *secrets(variables)])
        snapshots = otel_observers.ThreadSnapshots(self._snapshots, loop)
        signals = {
            signal: (protocol, _exporter_variable(variables, "HEADERS", signal))
            for signal, protocol in self._requested.items()
        }
        return otel.open_sending(signals, snapshots, gauges, mask)

    async def _metrics(self, request: Request) -> Response:
        taken = await self._snapshots.take()
        try:
            text = await self.context.threads.run(self._exposition.render, taken)
        except ImportError:
            missing = "Metrics need a package that is not installed: pip install prometheus-client"
            return error_response(501, PluginFailed(missing))
        return Response(text, media_type=_MEDIA_TYPE)


class _Later:
    """Forwards to observers that are created when the plugin has started."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()

    def started(self, action: Action[Any], call: Call) -> None:
        for observer in self.observers:
            observer.started(action, call)

    def finished(self, outcome: Outcome) -> None:
        for observer in self.observers:
            observer.finished(outcome)


def requested_signals(variables: Mapping[str, str]) -> dict[str, str]:
    """The signals to send according to the standard variables, each with its protocol.

    For an exporter other than OTLP, the protocol is the name of the exporter.
    """
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    requested: dict[str, str] = {}
    for signal in _SIGNALS:
        exporter = variables.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
        if exporter == "none" or not (exporter or _exporter_variable(variables, "ENDPOINT", signal)):
            continue
        if exporter in ("", "otlp"):
            exporter = _exporter_variable(variables, "PROTOCOL", signal) or _HTTP
        requested[signal] = exporter
    return requested


def _exporter_variable(variables: Mapping[str, str], what: str, signal: str) -> str:
    """The variable for one signal, or else the one for all."""
    own = variables.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}", "").strip()
    return own or variables.get(f"OTEL_EXPORTER_OTLP_{what}", "").strip()


def secrets(variables: Mapping[str, str]) -> list[str]:
    """The secrets in the variables: headers for the collector, which mostly contain a key."""
    found = []
    for name, value in variables.items():
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS"):
            shown = [part.partition("=")[2].strip() for part in value.split(",")]
            found += [value, *shown, *map(unquote, shown)]
    return [secret for secret in found if len(secret) >= _SHORTEST_SECRET]


class _Exposition:
    """Snapshots as Prometheus' text, written by its own library, which is loaded at the first request."""

    def __init__(self) -> None:
        self._registry: CollectorRegistry | None = None
        self._lock = threading.Lock()
        self._taken: Snapshot | None = None

    def render(self, taken: Snapshot) -> bytes:
        """A snapshot and the metrics of this process. Blocks.

        Raises:
            ImportError: the library is not installed.
        """
        import prometheus_client

        with self._lock:  # against concurrent requests: the registry calls `collect` for the snapshot
            if self._registry is None:
                self._registry = prometheus_client.CollectorRegistry()
                prometheus_client.ProcessCollector(registry=self._registry)
                self._registry.register(self)
            self._taken = taken
            return prometheus_client.generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The metrics of the snapshot that is being rendered."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        taken = self._taken
        if taken is None:
            return
        yield InfoMetricFamily("glovebox", "The box.", value={"version": glovebox.__version__})
        for metric in METRICS:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.prometheus, metric.help, labels=metric.labels)
            for labels, value in metric.values(taken):
                family.add_metric(labels, value)
            yield family
        seconds = HistogramMetricFamily(
            "glovebox_action_seconds", "How long actions took until they were answered.", labels=["action"]
        )
        for action, figures in taken.actions.items():
            # Each range of Prometheus includes those before it.
            counts = itertools.accumulate(figures.durations)
            ranges = list(zip((*map(str, BUCKETS), "+Inf"), counts, strict=True))
            seconds.add_metric([action], ranges, figures.seconds)
        yield seconds
        for name, value in taken.gauges.items():
            yield GaugeMetricFamily(f"glovebox_{name}", "Counted by a plugin.", value=value)
