"""Sends traces, metrics and logs with OpenTelemetry. Importing this loads the SDK.

The SDK reads its variables itself, but for headers: secrets have been removed from the environment. It sends
from threads of its own; an unreachable collector costs memory, up to the limits of its queues.
"""

from __future__ import annotations

import importlib
import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.re import parse_env_headers

import glovebox
from glovebox import tracing
from glovebox.box.executor import Observer
from glovebox.box.telemetry.otel_observers import Instruments, Spans, ThreadSnapshots
from glovebox.logs import Mask

log = logging.getLogger(__name__)
#: The logger above all others of the box.
_LOGGER = logging.getLogger(glovebox.__name__)
#: How long a warning of the SDK is not logged again.
SILENCE_SECONDS = 600.0
_LONGEST = 300


class Complaints(logging.Handler):
    """Passes warnings of the SDK on to our log, without repetitions and secrets."""

    def __init__(self, mask: Mask, silence: float = SILENCE_SECONDS) -> None:
        super().__init__(logging.WARNING)
        self._mask = mask
        self._silence = silence
        self._logged: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        exporting = record.name.startswith("opentelemetry.exporter")
        # Exporters log one problem in many ways: for each attempt, each signal, each batch.
        kind = "exporter" if exporting else record.msg
        now = time.monotonic()
        if now - self._logged.get(kind, -self._silence) < self._silence:
            return
        self._logged[kind] = now
        prefix = "Telemetry is not delivered" if exporting else "OpenTelemetry"
        log.warning("%s: %s", prefix, self._mask(record.getMessage())[:_LONGEST])

    def listen(self) -> None:
        """Take over the SDK's log, for good: its threads may log something after they were ended."""
        logger = logging.getLogger("opentelemetry")
        logger.handlers = [self]
        logger.propagate = False


#: Where each protocol has its exporters, and what to install for it.
_PROTOCOLS = {
    "http/protobuf": ("opentelemetry.exporter.otlp.proto.http", "opentelemetry-exporter-otlp-proto-http"),
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc", "opentelemetry-exporter-otlp-proto-grpc"),
}
_EXPORTERS = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
}


@dataclass(slots=True)
class Sending:
    """The signals that are sent, and how that is ended."""

    signals: list[str] = field(default_factory=list)
    observers: list[Observer] = field(default_factory=list)
    #: Each sends the rest of a signal, however long that takes. They may be called in threads, in parallel.
    shutdowns: list[Callable[[], None]] = field(default_factory=list)
    log_records: LogRecords | None = None

    def leave_logs(self) -> None:
        if self.log_records is not None:
            _LOGGER.removeHandler(self.log_records)


def open_sending(
    requested: Mapping[str, tuple[str, str]], snapshots: ThreadSnapshots, gauges: Iterable[str], mask: Mask
) -> Sending:
    """Set up the requested signals, each given with protocol and headers; failures are logged. Blocks."""
    Complaints(mask).listen()
    sending = Sending()
    resource = _resource()
    for signal, (protocol, headers) in requested.items():
        try:
            exporter = _exporter(signal, protocol, headers)
            if signal == "traces":
                _send_traces(sending, exporter, resource)
            elif signal == "metrics":
                _send_metrics(sending, exporter, resource, snapshots, gauges)
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
    sending: Sending, exporter: Any, resource: Resource, snapshots: ThreadSnapshots, gauges: Iterable[str]
) -> None:
    reader = PeriodicExportingMetricReader(exporter)
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    # Before the span ends, so that an exemplar of a duration can name its trace.
    sending.observers.insert(0, Instruments(provider, snapshots, gauges))
    sending.shutdowns.append(provider.shutdown)


def _send_logs(sending: Sending, exporter: Any, resource: Resource, mask: Mask) -> None:
    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    sending.log_records = LogRecords(provider, mask)
    _LOGGER.addHandler(sending.log_records)
    sending.shutdowns.append(provider.shutdown)


def _resource() -> Resource:
    """The attributes of this service; the standard variables have priority."""
    own = {
        "service.name": "glovebox",
        "service.version": glovebox.__version__,
        "host.name": socket.gethostname(),
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())


def _exporter(signal: str, protocol: str, headers: str) -> Any:
    """The SDK's exporter for a signal.

    Raises:
        ImportError: it is not installed.
        ValueError: there is none for that protocol, or a variable has an invalid value.
    """
    if protocol not in _PROTOCOLS:
        raise ValueError(f"{protocol!r} is not known here; there are {' and '.join(_PROTOCOLS)}")
    module, name = _EXPORTERS[signal]
    exporter = getattr(importlib.import_module(f"{_PROTOCOLS[protocol][0]}.{module}"), name)
    return exporter(headers=parse_env_headers(headers, liberal=True) or None)


#: Messages of this package are not sent: most say that the collector is unreachable.
_OWN = __name__.rpartition(".")[0]
_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.DEBUG, SeverityNumber.DEBUG),
)


class LogRecords(logging.Handler):
    """A logging handler that sends log lines with OpenTelemetry, with the same masks as standard error."""

    def __init__(self, provider: LoggerProvider, mask: Mask) -> None:
        super().__init__()
        self._provider = provider
        self._mask = mask
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. The SDK adds the trace of the current context."""
        if record.name.startswith(_OWN):
            return
        try:
            self._provider.get_logger(record.name).emit(self._convert(record))
        except (TypeError, ValueError):  # arguments that do not fit must not fail the caller
            self.handleError(record)

    def _convert(self, record: logging.LogRecord) -> LogRecord:
        attributes: dict[str, str] = {}
        if request_id := tracing.request_id.get():
            attributes["glovebox.request.id"] = request_id
        if record.exc_info and record.exc_info[0] is not None:
            attributes["exception.type"] = record.exc_info[0].__name__
            attributes["exception.stacktrace"] = self._clean(self._formatter.formatException(record.exc_info))
        return LogRecord(
            timestamp=int(record.created * 1e9),
            severity_text=record.levelname,
            severity_number=_severity(record.levelno),
            body=self._clean(record.getMessage()),
            attributes=attributes,
        )

    def _clean(self, text: str) -> str:
        """Masked, and as text that can be sent: odd file names are not valid Unicode."""
        return self._mask(text).encode("utf-8", "replace").decode("utf-8")


def _severity(level: int) -> SeverityNumber:
    return next((severity for least, severity in _SEVERITIES if level >= least), SeverityNumber.TRACE)
