from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from glovebox.box.telemetry.otel import Complaints
from glovebox.logs import Mask


@pytest.fixture(autouse=True)
def sdk_logger() -> Iterator[None]:
    logger = logging.getLogger("opentelemetry")
    before = logger.handlers[:], logger.propagate
    yield
    logger.handlers, logger.propagate = before


def test_a_collector_that_is_away_is_mentioned_once(caplog: pytest.LogCaptureFixture) -> None:
    Complaints(Mask([])).listen()
    exporter = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    for attempt in range(5):
        exporter.warning("Transient error %s, retrying in %d s", "refused", attempt)
        logging.getLogger("opentelemetry.exporter.other").error("Failed to export")
    assert caplog.messages == ["Telemetry is not delivered: Transient error refused, retrying in 0 s"]


def test_it_is_mentioned_again_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    Complaints(Mask([]), silence=0.0).listen()
    for _ in range(2):
        logging.getLogger("opentelemetry.exporter.otlp").error("Failed")
    assert caplog.messages == ["Telemetry is not delivered: Failed"] * 2


def test_other_complaints_are_told_beside_it_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    Complaints(Mask(["s3cret"])).listen()
    logging.getLogger("opentelemetry.exporter.otlp").error("Failed")
    for _ in range(2):
        logging.getLogger("opentelemetry.util.re").warning("Header format invalid: %s", "key s3cret")
    logging.getLogger("opentelemetry.sdk").info("not worth a word")
    assert caplog.messages == [
        "Telemetry is not delivered: Failed",
        "OpenTelemetry: Header format invalid: key ***",
    ]


def test_a_second_listener_takes_the_place_of_the_first(caplog: pytest.LogCaptureFixture) -> None:
    Complaints(Mask([])).listen()
    Complaints(Mask([])).listen()
    logging.getLogger("opentelemetry.sdk").warning("once")
    assert caplog.messages == ["OpenTelemetry: once"]
