"""Spans of actions that are run by a real executor; the SDK keeps them in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from glovebox import tracing
from glovebox.box.events import EventLog
from glovebox.box.executor import Call, Executor, Outcome
from glovebox.box.telemetry.otel import LogRecords
from glovebox.box.telemetry.otel_observers import Spans
from glovebox.errors import ActionError
from glovebox.logs import Mask
from glovebox.protocol.actions import FileReadAction, FileWriteAction
from glovebox.protocol.observations import ErrorObservation, FileReadObservation, FileWriteObservation

log = logging.getLogger("glovebox.test")


class Traced:
    """An executor whose spans are kept; one of its actions asks for another."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.spans = Spans(provider)
        self.executor = Executor([self.read, self.write], EventLog(), [self.spans])

    @property
    def kept(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    async def read(self, action: FileReadAction, call: Call) -> FileReadObservation | ErrorObservation:
        if action.path == "never":
            await asyncio.Event().wait()
        if action.path == "broken":
            raise LookupError("a defect")
        log.warning("reads")
        return FileReadObservation(path=action.path)

    async def write(self, action: FileWriteAction, call: Call) -> FileWriteObservation | ErrorObservation:
        await asyncio.create_task(self.executor.execute(FileReadAction(path=action.path)))
        return FileWriteObservation(path=action.path)


async def test_an_action_that_another_asked_for_is_below_it() -> None:
    traced = Traced()
    tracing.traceparent.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    await traced.executor.execute(FileWriteAction(path="a", content=""))
    inner, outer = traced.kept
    assert (outer.name, outer.kind, inner.name, inner.kind) == (
        "write", SpanKind.SERVER, "read", SpanKind.INTERNAL,
    )  # fmt: skip
    assert outer.parent is not None
    assert outer.parent.span_id == 0xB7AD6B7169203331
    assert inner.parent is not None
    assert (inner.parent.trace_id, inner.parent.span_id) == identity(outer)


@pytest.mark.parametrize("given", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\xff"])
async def test_a_parent_that_cannot_be_one_is_none(given: str) -> None:
    traced = Traced()
    tracing.traceparent.set(given)
    await traced.executor.execute(FileReadAction(path="a"))
    [span] = traced.kept
    assert span.parent is None


async def test_a_caller_that_does_not_record_decides_for_its_actions() -> None:
    traced = Traced()
    tracing.traceparent.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
    await traced.executor.execute(FileReadAction(path="a"))
    assert not traced.kept


async def test_actions_are_carried_out_as_ever_when_nothing_is_recorded() -> None:
    traced = Traced(ALWAYS_OFF)
    assert (await traced.executor.execute(FileReadAction(path="a"))).observation == "read"
    assert not traced.kept
    assert not get_current_span().get_span_context().is_valid


async def test_an_action_that_is_cancelled_or_broken_ends_its_span() -> None:
    traced = Traced()
    task = asyncio.create_task(traced.executor.execute(FileReadAction(path="never")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    with pytest.raises(ActionError):
        await traced.executor.execute(FileReadAction(path="broken"))
    assert [(span.attributes or {})["error.type"] for span in traced.kept] == ["cancelled", "action_failed"]
    assert {(span.status.status_code, span.status.description) for span in traced.kept} == {
        (StatusCode.ERROR, None)
    }
    assert not [event for span in traced.kept for event in span.events]


async def test_an_action_that_began_before_spans_did_has_none() -> None:
    traced = Traced()
    action, call = FileReadAction(path="a"), Call("id", EventLog())
    traced.spans.finished(Outcome(action, call, FileReadObservation(path="a"), None, 0.1))
    assert not traced.kept


# Log lines, which belong to spans.


@pytest.fixture
def lines() -> Iterator[InMemoryLogRecordExporter]:
    kept = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    handler = LogRecords(provider, Mask(["s3cret"]))
    logger = logging.getLogger("glovebox")
    logger.addHandler(handler)
    yield kept
    logger.removeHandler(handler)


def identity(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def attributes(record: ReadableLogRecord) -> dict[str, object]:
    return dict(record.log_record.attributes or {})


async def test_a_line_has_the_ids_of_its_span_and_its_request(lines: InMemoryLogRecordExporter) -> None:
    traced = Traced()
    tracing.request_id.set("r1")
    await traced.executor.execute(FileReadAction(path="a"))
    [record] = lines.get_finished_logs()
    [span] = traced.kept
    assert (record.log_record.trace_id, record.log_record.span_id) == identity(span)
    assert attributes(record) == {"glovebox.request.id": "r1"}


def test_a_line_is_sent_without_secrets_also_in_its_traceback(lines: InMemoryLogRecordExporter) -> None:
    try:
        raise LookupError("of s3cret")
    except LookupError:
        log.exception("lost %s", "s3cret")
    [record] = lines.get_finished_logs()
    assert record.log_record.body == "lost ***"
    assert attributes(record)["exception.type"] == "LookupError"
    assert "LookupError: of ***" in str(attributes(record)["exception.stacktrace"])
    assert "s3cret" not in record.to_json()


def test_a_line_about_an_odd_file_name_can_be_sent(lines: InMemoryLogRecordExporter) -> None:
    log.warning("about %s", "a\udcffb")
    [record] = lines.get_finished_logs()
    assert record.log_record.body == "about a?b"


def test_a_line_whose_parts_do_not_fit_fails_nobody(
    lines: InMemoryLogRecordExporter, capsys: pytest.CaptureFixture[str]
) -> None:
    record = logging.makeLogRecord({"name": "glovebox.test", "msg": "%d", "args": ("x",), "levelno": 30})
    for handler in logging.getLogger("glovebox").handlers:
        handler.handle(record)
    assert not lines.get_finished_logs()
    assert "Logging error" in capsys.readouterr().err


def test_what_is_said_about_sending_is_not_sent(lines: InMemoryLogRecordExporter) -> None:
    logging.getLogger("glovebox.box.telemetry.otel").warning("the collector is away")
    logging.getLogger("elsewhere").warning("of another library")
    assert not lines.get_finished_logs()
