"""Observers that send actions to OpenTelemetry, as metrics and as spans. Importing this loads the SDK."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import Token
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.metrics import CallbackOptions, Meter
from opentelemetry.metrics import Observation as Observed
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import glovebox
from glovebox import tracing
from glovebox.box.executor import Call, Outcome
from glovebox.box.telemetry.measurements import (
    BUCKETS,
    METRICS,
    MetricSpec,
    Snapshot,
    Snapshots,
    input_bytes,
    result_of,
    text_bytes,
)
from glovebox.errors import GloveboxError
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.observations import ErrorObservation

#: All instruments are read in a row; they share a snapshot.
_FRESH_SECONDS = 0.1
#: If the event loop is busy for longer, there is no snapshot this time.
_PATIENCE_SECONDS = 1.0


class ThreadSnapshots:
    """Takes snapshots on the event loop, for the threads of the SDK."""

    def __init__(self, snapshots: Snapshots, loop: asyncio.AbstractEventLoop) -> None:
        self._snapshots = snapshots
        self._loop = loop
        self._last: Snapshot | None = None
        self._at = -_FRESH_SECONDS

    def take(self) -> Snapshot | None:
        """A recent snapshot, or None if the event loop does not answer."""
        if time.monotonic() - self._at > _FRESH_SECONDS:
            self._last = None if self._loop.is_closed() else self._take()
            self._at = time.monotonic()
        return self._last

    def _take(self) -> Snapshot | None:
        taken = asyncio.run_coroutine_threadsafe(self._snapshots.take(), self._loop)
        try:
            return taken.result(_PATIENCE_SECONDS)
        except TimeoutError:
            taken.cancel()
            return None


class Instruments:
    """The figures of snapshots as instruments; and as an observer, the durations of actions."""

    def __init__(self, provider: MeterProvider, snapshots: ThreadSnapshots, gauges: Iterable[str]) -> None:
        self._snapshots = snapshots
        meter = provider.get_meter(glovebox.__name__, glovebox.__version__)
        self._durations = meter.create_histogram(
            "glovebox.action.duration", "s", "How long actions took until they were answered.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )  # fmt: skip
        for metric in METRICS:
            is_counter = metric.kind == "counter"
            create = meter.create_observable_counter if is_counter else meter.create_observable_gauge
            create(metric.otel, [self._callback(metric)], metric.unit, metric.help)
        for name in gauges:
            counted = [self._gauge_callback(name)]
            meter.create_observable_gauge(f"glovebox.{name}", counted, "1", "Counted by a plugin.")
        _measure_process(meter)

    def started(self, action: Action[Any], call: Call) -> None: ...

    def finished(self, outcome: Outcome) -> None:
        self._durations.record(outcome.seconds, {"action": outcome.action.action})

    def _callback(self, metric: MetricSpec) -> Callable[[CallbackOptions], Iterable[Observed]]:
        def callback(options: CallbackOptions) -> Iterator[Observed]:
            if (taken := self._snapshots.take()) is not None:
                for labels, value in metric.values(taken):
                    yield Observed(value, dict(zip(metric.labels, labels, strict=True)))

        return callback

    def _gauge_callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observed]]:
        def callback(options: CallbackOptions) -> Iterator[Observed]:
            if (taken := self._snapshots.take()) is not None and name in taken.gauges:
                yield Observed(taken.gauges[name])

        return callback


def _measure_process(meter: Meter) -> None:
    """Metrics of this process, under the names of the semantic conventions."""
    import psutil

    process = psutil.Process()

    def seconds(options: CallbackOptions) -> Iterator[Observed]:
        times = process.cpu_times()
        yield Observed(times.user, {"cpu.mode": "user"})
        yield Observed(times.system, {"cpu.mode": "system"})

    def memory(options: CallbackOptions) -> Iterator[Observed]:
        yield Observed(process.memory_info().rss)

    def descriptors(options: CallbackOptions) -> Iterator[Observed]:
        yield Observed(process.num_fds())

    meter.create_observable_counter("process.cpu.time", [seconds], "s", "CPU time of the server.")
    meter.create_observable_gauge("process.memory.usage", [memory], "By", "Memory of the server.")
    meter.create_observable_gauge(
        "process.unix.file_descriptor.count", [descriptors], "{file_descriptor}", "Open descriptors."
    )


#: Other texts in place of a name may be contents.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

Attributes = dict[str, str | int | float | bool]


class Spans:
    """An observer that begins and ends spans."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer(glovebox.__name__, glovebox.__version__)
        self._propagator = TraceContextTextMapPropagator()
        self._open: dict[Call, tuple[Span, Token[Context]]] = {}

    def started(self, action: Action[Any], call: Call) -> None:
        """Begin a span, as a child of the caller's span or of the action that started this one."""
        inner = get_current_span().get_span_context().is_valid
        context = get_current()
        if not inner and (parent := tracing.traceparent.get()):
            context = self._propagator.extract({"traceparent": parent}, context)
        kind = SpanKind.INTERNAL if inner else SpanKind.SERVER
        span = self._tracer.start_span(action.action, context, kind, _beginning(action, call))
        self._open[call] = span, attach(set_span_in_context(span))

    def finished(self, outcome: Outcome) -> None:
        opened = self._open.pop(outcome.call, None)
        if opened is None:  # it began before spans did
            return
        span, token = opened
        if span.is_recording():
            span.set_attributes(_end(outcome.call, outcome.observation, outcome.error))
            if problem := _problem(outcome.observation, outcome.error):
                span.set_attribute("error.type", problem)
                span.set_status(StatusCode.ERROR)
        span.end()
        detach(token)


def _beginning(action: Action[Any], call: Call) -> Attributes:
    attributes: Attributes = {
        "glovebox.action.id": call.id,
        "glovebox.action.kind": action.action,
        "glovebox.input.bytes": input_bytes(action),
    }
    if request_id := tracing.request_id.get():
        attributes["glovebox.request.id"] = request_id
    if call.resumed:
        attributes["glovebox.action.resumed"] = True
    for where in ("session", "kernel"):
        name = getattr(action, where, None)
        if isinstance(name, str) and _NAME.fullmatch(name):
            attributes[f"glovebox.{where}"] = name
    return attributes


def _end(call: Call, observation: Observation | None, error: GloveboxError | None) -> Attributes:
    attributes: Attributes = {"glovebox.action.result": result_of(observation, error)}
    if observation is not None:
        attributes["glovebox.output.bytes"] = text_bytes(observation.content)
    if call.command is not None:
        command = call.command
        attributes["glovebox.session"] = command.session
        attributes["glovebox.command.id"] = command.id
        attributes["glovebox.command.state"] = command.state
        attributes["glovebox.command.output_bytes"] = command.output_bytes
        if command.exit_code is not None:
            attributes["process.exit.code"] = command.exit_code
        if command.limit is not None:
            attributes["glovebox.command.limited"] = True
        if command.oom is not None:
            attributes["glovebox.command.out_of_memory"] = True
    return attributes


def _problem(observation: Observation | None, error: GloveboxError | None) -> str:
    """The code of a failure; empty for a success."""
    if isinstance(observation, ErrorObservation):
        return observation.error_id or observation.observation
    return "" if observation is not None else result_of(observation, error)
