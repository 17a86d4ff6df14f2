"""A collector on loopback that takes OTLP over HTTP, and one that takes it and never answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

#: What makes a box send soon, and to nobody else.
SOON = {
    "OTEL_BSP_SCHEDULE_DELAY": "50",
    "OTEL_BLRP_SCHEDULE_DELAY": "50",
    "OTEL_METRIC_EXPORT_INTERVAL": "200",
    "NO_PROXY": "127.0.0.1",
}


class Collector:
    """What has arrived."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.resources: list[Resource] = []
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        self.logs: list[tuple[str, LogRecord]] = []

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.bodies.append(body)
        self.headers.append(headers)
        if path == "/v1/traces":
            for traces in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(traces.resource)
                self.spans += [span for scope in traces.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.resources.append(metrics.resource)
                found = [metric for scope in metrics.scope_metrics for metric in scope.metrics]
                self.metrics |= {metric.name: metric for metric in found}
        elif path == "/v1/logs":
            for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.resources.append(logs.resource)
                self.logs += [
                    (scope.scope.name, one) for scope in logs.scope_logs for one in scope.log_records
                ]

    def span_of(self, request_id: str) -> Span | None:
        """The span of the action that a request asked for."""
        spans = [
            span for span in self.spans if values(span.attributes).get("glovebox.request.id") == request_id
        ]
        assert len(spans) <= 1
        return spans[0] if spans else None


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that works."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(self.path, dict(self.headers), body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Hole:
    """Takes connections, and nothing comes back."""

    def __init__(self, listener: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.taken: list[socket.socket] = []
        self._listener = listener

    def take_all(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                self.taken.append(self._listener.accept()[0])


@contextlib.contextmanager
def hole() -> Iterator[Hole]:
    """A collector that hangs."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = Hole(listener)
    thread = threading.Thread(target=found.take_all)
    thread.start()
    try:
        yield found
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()
        for connection in found.taken:
            connection.close()


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as a dictionary."""
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: value(pair.value) for pair in pairs}


def value(of: AnyValue) -> Any:
    """What is in a value, whatever its type."""
    kind = of.WhichOneof("value")
    return getattr(of, kind) if kind else None
