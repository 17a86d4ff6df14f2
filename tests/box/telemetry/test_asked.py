from __future__ import annotations

import pytest

from glovebox.box.telemetry.plugin import requested_signals, secrets

ALL = {"traces": "http/protobuf", "metrics": "http/protobuf", "logs": "http/protobuf"}
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"OTEL_SERVICE_NAME": "box", "OTEL_TRACES_SAMPLER": "always_on"}, {}),
        (ENDPOINT, ALL),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, {}),
        (ENDPOINT | {"OTEL_SDK_DISABLED": " True "}, {}),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "false"}, ALL),
        (ENDPOINT | {"OTEL_LOGS_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
         {"traces": "http/protobuf"}),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a/v1/metrics"}, {"metrics": "http/protobuf"}),
        ({"OTEL_LOGS_EXPORTER": "otlp"}, {"logs": "http/protobuf"}),
        ({"OTEL_TRACES_EXPORTER": "none"}, {}),
        ({"OTEL_TRACES_EXPORTER": "console"}, {"traces": "console"}),
        (ENDPOINT
         | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf"},
         {"traces": "grpc", "metrics": "grpc", "logs": "http/protobuf"}),
    ],
)  # fmt: skip
def test_what_is_sent_is_what_the_standard_variables_say(
    variables: dict[str, str], expected: dict[str, str]
) -> None:
    assert requested_signals(variables) == expected


def test_headers_for_the_collector_are_secrets_in_each_way_they_can_be_written() -> None:
    found = secrets(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=abc%20def, x-tenant=1",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "no equals sign",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        }
    )
    assert {"abc%20def", "abc def", "api-key=abc%20def, x-tenant=1", "no equals sign"} == set(found)
