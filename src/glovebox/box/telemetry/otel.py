"""OpenTelemetry. Import this only when it is asked for: it loads the SDK.

The SDK reads its variables itself, but for headers: secrets have left the environment. Whatever it sends, it
sends from threads of its own; a collector that is away costs memory up to the limits of its queues, and
nothing else.
"""

from __future__ import annotations

import importlib
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.re import parse_env_headers

import glovebox
from glovebox.box.executor import Observer
from glovebox.box.telemetry.asked import Signal, headers
from glovebox.box.telemetry.complaints import Complaints
from glovebox.box.telemetry.instruments import Instruments, LookFromThread
from glovebox.box.telemetry.log_records import LogRecords
from glovebox.box.telemetry.spans import Spans
from glovebox.logs import Mask

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
