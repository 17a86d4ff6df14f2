"""OpenTelemetry. Import this only when it is asked for: it loads the SDK.

The SDK reads its variables itself, but for headers: secrets have left the environment. Whatever it sends, it
sends from threads of its own; a collector that is away costs memory up to the limits of its queues, and
nothing else.
"""

from __future__ import annotations

import importlib
import logging
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import Token
from dataclasses import dataclass, field
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.re import parse_env_headers

import glovebox
from glovebox import tracing
from glovebox.box.executor import Call, Observer, Outcome
from glovebox.box.telemetry.instruments import Instruments, LookFromThread
from glovebox.box.telemetry.measurements import input_bytes, result_of, text_bytes
from glovebox.box.telemetry.otel_settings import Signal, headers
from glovebox.errors import GloveboxError
from glovebox.logs import Mask
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.observations import ErrorObservation

#: How long nothing is said of a complaint that was told.
SILENCE_SECONDS = 600.0
_LONGEST = 300


class Complaints(logging.Handler):
    """Stands between the SDK's log and ours."""

    def __init__(self, mask: Mask, silence: float = SILENCE_SECONDS) -> None:
        super().__init__(logging.WARNING)
        self._mask = mask
        self._silence = silence
        self._told: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it, unless it was told."""
        exporting = record.name.startswith("opentelemetry.exporter")
        # An exporter says the same in many words: of each attempt, of each signal, of each batch.
        kind = "exporter" if exporting else record.msg
        now = time.monotonic()
        if now - self._told.get(kind, -self._silence) < self._silence:
            return
        self._told[kind] = now
        said = self._mask(record.getMessage())[:_LONGEST]
        if exporting:
            log.warning("Telemetry is not delivered: %s", said)
        else:
            log.warning("OpenTelemetry: %s", said)

    def listen(self) -> None:
        """Take over the SDK's log, for good: its threads may have something to say after they were ended."""
        logger = logging.getLogger("opentelemetry")
        logger.handlers = [self]
        logger.propagate = False


log = logging.getLogger(__name__)
#: The logger above all others of the box.
_LOGGER = logging.getLogger(glovebox.__name__)

#: Where each protocol has its exporters, and what to install for it.
_PROTOCOLS = {
    "http/protobuf": ("opentelemetry.exporter.otlp.proto.http", "opentelemetry-exporter-otlp-proto-http"),
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc", "opentelemetry-exporter-otlp-proto-grpc"),
}
_EXPORTERS: Mapping[Signal, tuple[str, str]] = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
}


@dataclass(slots=True)
class Sending:
    """What is sent, and how that is ended."""

    signals: list[Signal] = field(default_factory=list)
    observers: list[Observer] = field(default_factory=list)
    #: Each sends what is left, as long as that takes. They may be called in threads, at the same time.
    shutdowns: list[Callable[[], None]] = field(default_factory=list)
    log_records: LogRecords | None = None

    def leave_logs(self) -> None:
        """Take no more log lines."""
        if self.log_records is not None:
            _LOGGER.removeHandler(self.log_records)


def open_sending(
    asked: Mapping[Signal, str],
    variables: Mapping[str, str],
    look: LookFromThread,
    gauges: Iterable[str],
    mask: Mask,
) -> Sending:
    """Set up what is asked for, as far as it can be; what cannot be is said in the log. Blocking."""
    Complaints(mask).listen()
    sending = Sending()
    resource = _resource()
    for signal, protocol in asked.items():
        try:
            exporter = _exporter(signal, protocol, headers(variables, signal))
            if signal == "traces":
                _send_traces(sending, exporter, resource)
            elif signal == "metrics":
                _send_metrics(sending, exporter, resource, look, gauges)
            else:
                _send_logs(sending, exporter, resource, mask)
        except ImportError:
            needed = _PROTOCOLS[protocol][1]
            log.warning("%s are not sent: %s needs the package %s", signal.capitalize(), protocol, needed)
        except ValueError as error:
            log.warning("%s are not sent: %s", signal.capitalize(), mask(str(error)))
        else:
            sending.signals.append(signal)
    return sending


def _send_traces(sending: Sending, exporter: Any, resource: Resource) -> None:
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    sending.observers.append(Spans(provider))
    sending.shutdowns.append(provider.shutdown)


def _send_metrics(
    sending: Sending, exporter: Any, resource: Resource, look: LookFromThread, gauges: Iterable[str]
) -> None:
    reader = PeriodicExportingMetricReader(exporter)
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    # Told before the span has ended, so that an example of a duration can name its trace.
    sending.observers.insert(0, Instruments(provider, look, gauges))
    sending.shutdowns.append(provider.shutdown)


def _send_logs(sending: Sending, exporter: Any, resource: Resource, mask: Mask) -> None:
    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    sending.log_records = LogRecords(provider, mask)
    _LOGGER.addHandler(sending.log_records)
    sending.shutdowns.append(provider.shutdown)


def _resource() -> Resource:
    """Who sends; what the standard variables say wins."""
    own = {
        "service.name": "glovebox",
        "service.version": glovebox.__version__,
        "host.name": socket.gethostname(),
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())


def _exporter(signal: Signal, protocol: str, shown: str) -> Any:
    """What sends a signal, and shows these headers.

    Raises:
        ImportError: it is not installed.
        ValueError: there is none for that protocol, or a variable has a value that cannot be used.
    """
    if protocol not in _PROTOCOLS:
        raise ValueError(f"{protocol!r} is not known here; there are {' and '.join(_PROTOCOLS)}")
    module, name = _EXPORTERS[signal]
    exporter = getattr(importlib.import_module(f"{_PROTOCOLS[protocol][0]}.{module}"), name)
    return exporter(headers=parse_env_headers(shown, liberal=True) or None)


#: What is said here is mostly that the collector cannot be reached.
_OWN = __name__.rpartition(".")[0]
_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.DEBUG, SeverityNumber.DEBUG),
)


class LogRecords(logging.Handler):
    """A logging handler that gives lines to OpenTelemetry; it shows no more than standard error does."""

    def __init__(self, provider: LoggerProvider, mask: Mask) -> None:
        super().__init__()
        self._provider = provider
        self._mask = mask
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. What traces it comes from the context it was written in."""
        if record.name.startswith(_OWN):
            return
        try:
            self._provider.get_logger(record.name).emit(self._made_of(record))
        except (TypeError, ValueError):  # a line whose parts do not fit must not fail whoever wrote it
            self.handleError(record)

    def _made_of(self, record: logging.LogRecord) -> LogRecord:
        attributes: dict[str, str] = {}
        if request_id := tracing.request_id.get():
            attributes["glovebox.request.id"] = request_id
        if record.exc_info and record.exc_info[0] is not None:
            attributes["exception.type"] = record.exc_info[0].__name__
            attributes["exception.stacktrace"] = self._shown(self._formatter.formatException(record.exc_info))
        return LogRecord(
            timestamp=int(record.created * 1e9),
            severity_text=record.levelname,
            severity_number=_severity(record.levelno),
            body=self._shown(record.getMessage()),
            attributes=attributes,
        )

    def _shown(self, text: str) -> str:
        """Masked, and as text that can be sent: odd file names are not valid Unicode."""
        return self._mask(text).encode("utf-8", "replace").decode("utf-8")


def _severity(level: int) -> SeverityNumber:
    return next((severity for least, severity in _SEVERITIES if level >= least), SeverityNumber.TRACE)


#: Whatever else is given for a name was not chosen as one.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

Attributes = dict[str, str | int | float | bool]


class Spans:
    """An observer that begins and ends spans."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer(glovebox.__name__, glovebox.__version__)
        self._propagator = TraceContextTextMapPropagator()
        self._open: dict[Call, tuple[Span, Token[Context]]] = {}

    def started(self, action: Action[Any], call: Call) -> None:
        """Begin a span, below the one the caller named or the action that asked for this one."""
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
    """The code of what went wrong; empty if nothing did."""
    if isinstance(observation, ErrorObservation):
        return observation.error_id or observation.observation
    return "" if observation is not None else result_of(observation, error)
