"""The plugin that measures: always there, and quiet until somebody asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Call, Observer, Outcome
from glovebox.box.plugin import Context, Plugin
from glovebox.box.telemetry.measurements import Measurements
from glovebox.box.telemetry.otel_settings import asked_for, secrets
from glovebox.box.telemetry.prometheus import MEDIA_TYPE, Exposition
from glovebox.box.telemetry.snapshot import Looking
from glovebox.box.threads import Threads
from glovebox.errors import PluginFailed
from glovebox.http.endpoints import Endpoint, Reply
from glovebox.http.responses import ErrorBody, error_response
from glovebox.logs import Mask
from glovebox.protocol.base import Action

if TYPE_CHECKING:
    from glovebox.box.telemetry.otel import Sending

log = logging.getLogger(__name__)

#: How long the box waits, when it stops, for a collector to take what is left.
FLUSH_SECONDS = 2.0


class TelemetryPlugin(Plugin):
    """Counts actions, shows the figures on `/metrics`, and sends traces, metrics and logs to a collector."""

    name: ClassVar[str] = "telemetry"
    starts: ClassVar[Literal["first", "background", "on_use"]] = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._measurements = Measurements()
        self._looking = Looking(context, self._measurements)
        self._exposition = Exposition()
        self._asked = asked_for(context.settings.telemetry_variables)
        self._later = _Later()
        self._sending: Sending | None = None

    def observers(self) -> Iterable[Observer]:
        """Who counts, and who traces if that is asked for."""
        return [self._measurements, self._later] if self._asked else [self._measurements]

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
        """Begin to send, if that is asked for; that it cannot be done keeps no box from serving."""
        if not self._asked:
            return
        loop, gauges = asyncio.get_running_loop(), list(await self._looking.gauges())
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
        """What is sent to a collector."""
        return {"sends": self._sending.signals if self._sending else []}

    async def stop(self) -> None:
        """Send what is left, as far as the collector takes it in time."""
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
        from glovebox.box.telemetry import instruments, otel

        settings = self.context.settings
        look = instruments.LookFromThread(self._looking, loop)
        mask = Mask([settings.session_api_key, *secrets(settings.telemetry_variables)])
        return otel.open_sending(self._asked, settings.telemetry_variables, look, gauges, mask)

    async def _metrics(self, request: Request) -> Response:
        look = await self._looking.look()
        try:
            text = await self.context.threads.run(self._exposition.render, look)
        except ImportError:
            missing = "Metrics need a package that is not installed: pip install prometheus-client"
            return error_response(501, PluginFailed(missing))
        return Response(text, media_type=MEDIA_TYPE)


class _Later:
    """Passes on to observers that are there only once the plugin has started."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()

    def started(self, action: Action[Any], call: Call) -> None:
        for observer in self.observers:
            observer.started(action, call)

    def finished(self, outcome: Outcome) -> None:
        for observer in self.observers:
            observer.finished(outcome)
