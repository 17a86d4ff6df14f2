"""What a box sends to a collector that speaks OTLP, and what it does when there is none."""

from __future__ import annotations

import io
import socket
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

import glovebox
from tests.box.telemetry.collector import (
    SOON,
    Collector,
    collecting,
    hole,
    value,
    values,
)
from tests.support.running import KEY, RunningBox, before_all_others, running_box, wait_until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
#: Stands in commands, paths, content and output, and must never be seen outside the box.
WORD = "Krummhorn"
COLLECTOR_KEY = "key-of-the-collector"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[RunningBox]:
    environment = SOON | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={COLLECTOR_KEY}",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }
    with running_box(tmp_path_factory.mktemp("box") / "ws", environment=environment) as box:
        yield box


def ask(box: RunningBox, request_id: str, action: str, **args: Any) -> httpx.Response:
    """Carry out an action in a request with that id, below the span of a caller."""
    body = {"action": {"action": action, "args": args}, "details": True}
    headers = {"X-Request-ID": request_id, "traceparent": f"00-{TRACE}-{PARENT}-01"}
    return box.client.post("/execute_action", json=body, headers=headers)


def arrived(collector: Collector, request_id: str) -> Span:
    """The span of a request, once it is there."""
    wait_until(lambda: collector.span_of(request_id) is not None, what=f"the span of {request_id}")
    span = collector.span_of(request_id)
    assert span is not None
    return span


def test_a_command_is_a_span_below_the_callers(sending: RunningBox, collector: Collector) -> None:
    answer = ask(sending, "command", "run", command="printf 12345; (exit 3)").json()
    span = arrived(collector, "command")
    assert (span.name, span.kind) == ("run", Span.SpanKind.SPAN_KIND_SERVER)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.status.code == Status.StatusCode.STATUS_CODE_UNSET
    assert span.end_time_unix_nano > span.start_time_unix_nano
    told = values(span.attributes)
    assert told.pop("glovebox.output.bytes") == len(answer["content"])
    assert told == {
        "glovebox.action.id": answer["details"]["action_id"],
        "glovebox.action.kind": "run",
        "glovebox.action.result": "run",
        "glovebox.request.id": "command",
        "glovebox.input.bytes": len("printf 12345; (exit 3)"),
        "glovebox.session": "main",
        "glovebox.command.id": answer["details"]["command"]["id"],
        "glovebox.command.state": "ended",
        "glovebox.command.output_bytes": 5,
        "process.exit.code": 3,
    }


def test_every_action_has_one_span_also_in_streams_and_when_it_is_told_again(
    sending: RunningBox, collector: Collector
) -> None:
    key = uuid.uuid4().hex
    body = {"action": {"action": "run", "args": {"command": "true"}}}
    for _ in range(3):
        sending.client.post(
            "/execute_action", json=body | {"idempotency_key": key}, headers={"X-Request-ID": "again"}
        ).raise_for_status()
    sending.client.post("/execute_action_stream", json=body, headers={"X-Request-ID": "streamed"})
    ask(sending, "last", "read", path="/nowhere")
    arrived(collector, "last")
    assert arrived(collector, "again").trace_id != arrived(collector, "streamed").trace_id
    assert not arrived(collector, "again").parent_span_id


def test_a_failure_is_marked_with_its_code_and_without_its_text(
    sending: RunningBox, collector: Collector
) -> None:
    ask(sending, "refused", "stat", path=f"/{WORD}")
    ask(sending, "missing", "read", path=f"/{WORD}")
    for request_id, code in (("refused", "not_found"), ("missing", "error")):
        span = arrived(collector, request_id)
        assert span.status == Status(code=Status.StatusCode.STATUS_CODE_ERROR)
        told = values(span.attributes)
        assert (told["error.type"], told["glovebox.action.result"]) == (code, "error")
        assert not span.events


def test_an_action_is_remembered_with_its_request_after_its_caller_has_gone(
    sending: RunningBox, collector: Collector, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    body = {"action": {"action": "run", "args": {"command": f"until test -e {go}; do sleep 0.02; done"}}}
    with sending.client.stream(
        "POST", "/execute_action_stream", json=body, headers={"X-Request-ID": "gone"}
    ) as stream:
        assert next(stream.iter_lines()) == "event: started"
    assert collector.span_of("gone") is None
    go.touch()
    assert values(arrived(collector, "gone").attributes)["glovebox.action.result"] == "run"


def test_no_word_of_what_it_was_about_leaves_the_box(
    sending: RunningBox, collector: Collector, tmp_path: Path
) -> None:
    path = str(tmp_path / f"{WORD}.txt")
    ask(sending, "secret-1", "write", path=path, content=f"{WORD}\n")
    ask(sending, "secret-2", "run", command=f"cat {path}; echo {WORD} >&2; export A={WORD}")
    ask(sending, "secret-3", "run", command=f"cat {path}.not")
    ask(sending, "secret-4", "read", path=path)
    ask(sending, "secret-5", "grep", pattern=WORD, path=str(tmp_path))
    ask(sending, "secret-6", "edit", path=path, command="str_replace", old_str=f"{WORD}!", new_str="a")
    for number in range(1, 7):
        arrived(collector, f"secret-{number}")
    seen = len(collector.bodies)
    wait_until(lambda: len(collector.bodies) > seen + 2, what="more metrics")
    assert not [body for body in collector.bodies if WORD.encode() in body]
    assert not [body for body in collector.bodies if KEY.encode() in body]


def test_the_figures_of_metrics_are_sent_too(sending: RunningBox, collector: Collector) -> None:
    for _ in range(3):
        sending.execute("mkdir", path=str(sending.workspace / uuid.uuid4().hex))

    def counted() -> dict[tuple[str, str], float]:
        points = collector.metrics["glovebox.actions"].sum.data_points if collector.metrics else ()
        told = [(values(point.attributes), point.as_int) for point in points]
        return {(labels["action"], labels["result"]): number for labels, number in told}

    wait_until(
        lambda: sum(n for (action, _), n in counted().items() if action == "mkdir") >= 3, what="metrics"
    )
    durations = {
        values(point.attributes)["action"]: point
        for point in collector.metrics["glovebox.action.duration"].histogram.data_points
    }
    assert durations["mkdir"].count == 3
    assert 0.0 < durations["mkdir"].sum < 60.0
    [running] = collector.metrics["glovebox.actions.running"].gauge.data_points
    assert running.as_int == 0
    [sessions] = collector.metrics["glovebox.sessions"].gauge.data_points
    assert sessions.as_int + sessions.as_double >= 1
    states = [
        (told["plugin"], told["state"])
        for point in collector.metrics["glovebox.plugin.state"].gauge.data_points
        if (told := values(point.attributes)) and point.as_int == 1
    ]
    assert ("terminal", "running") in states
    assert {"process.cpu.time", "process.memory.usage", "process.unix.file_descriptor.count",
            "glovebox.events", "glovebox.uptime", "glovebox.input", "glovebox.output",
            "glovebox.plugin.restarts"} <= set(collector.metrics)  # fmt: skip


def test_log_lines_are_sent_with_the_request_they_belong_to(
    sending: RunningBox, collector: Collector, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../outside", "never unpacked")
    answer = sending.client.post(
        "/upload_file",
        params={"destination": str(tmp_path), "recursive": "true"},
        files={"file": ("a.zip", packed.getvalue())},
        headers={"X-Request-ID": "upload"},
    )
    answer.raise_for_status()

    def lines() -> list[tuple[str, str]]:
        found = [
            one for one in collector.logs if values(one[1].attributes).get("glovebox.request.id") == "upload"
        ]
        return [(record.severity_text, value(record.body)) for _, record in found]

    wait_until(lambda: bool(lines()), what="the log line")
    assert lines() == [("WARNING", "1 entries of an archive were left out (outside, or links)")]
    assert {name.partition(".")[0] for name, _ in collector.logs} == {"glovebox"}


def test_the_sender_says_who_it_is_and_shows_its_key_to_the_collector(
    sending: RunningBox, collector: Collector
) -> None:
    ask(sending, "resource", "read", path="/nowhere")
    arrived(collector, "resource")
    for resource in collector.resources:
        told = values(resource.attributes)
        assert told["service.name"] == "glovebox"
        assert told["service.version"] == glovebox.__version__
        assert told["host.name"] == socket.gethostname()
        assert told["deployment.environment"] == "test"
    assert all(headers["api-key"] == COLLECTOR_KEY for headers in collector.headers)
    assert COLLECTOR_KEY not in sending.run("env")


def test_what_is_left_is_sent_when_the_box_stops(tmp_path: Path) -> None:
    with collecting() as collector:
        never = {"OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_METRIC_EXPORT_INTERVAL": "600000"}
        environment = {**SOON, **never, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                       "OTEL_SERVICE_NAME": "chosen"}  # fmt: skip
        with running_box(tmp_path / "ws", environment=environment) as box:
            box.run("true")
            assert not collector.spans
        assert [span.name for span in collector.spans] == ["run"]
        assert "glovebox.actions" in collector.metrics
        assert values(collector.resources[0].attributes)["service.name"] == "chosen"


def test_only_the_signals_that_are_asked_for_are_sent(tmp_path: Path) -> None:
    with collecting() as collector:
        environment = SOON | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces"}
        with running_box(tmp_path / "ws", environment=environment) as box:
            box.run("true")
            [plugin] = [one for one in box.client.get("/plugins").json() if one["name"] == "telemetry"]
            assert plugin["health"] == {"sends": ["traces"]}
        assert [span.name for span in collector.spans] == ["run"]
        assert not collector.metrics


def test_a_collector_that_hangs_holds_up_neither_actions_nor_the_stop(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with hole() as collector:
        # Whoever waited for an answer would wait longer than a box may take to stop.
        environment = SOON | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
        }
        with running_box(tmp_path / "ws", environment=environment) as box:
            box.run("true")
            wait_until(lambda: len(collector.taken) >= 2, what="spans and metrics on their way")
            for number in range(50):
                assert box.run(f"echo {number}") == str(number)
        assert box.process.returncode == 0
    said = capfd.readouterr().err
    assert "The collector did not take the last telemetry in time" in said
    assert "did not stop as it should" not in said


def test_a_collector_that_is_away_is_mentioned_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    environment = SOON | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    said = ""

    def mentioned() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "Telemetry is not delivered" in said

    with running_box(tmp_path / "ws", environment=environment) as box:
        box.run("true")
        wait_until(mentioned, what="the complaint")
        for number in range(20):
            assert box.run(f"echo {number}") == str(number)
    said += capfd.readouterr().err
    assert said.count("Telemetry is not delivered") == 1
    assert "Traceback" not in said
    assert {line.split()[3].partition(".")[0] for line in said.splitlines()} == {"glovebox"}


@pytest.fixture
def without_opentelemetry(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file that tells whether somebody tried to import OpenTelemetry, and what makes it impossible."""
    tried, package = tmp_path / "tried", tmp_path / "path" / "opentelemetry"
    package.mkdir(parents=True)
    source = f"open({str(tried)!r}, 'w').close()\nraise ImportError('not installed')\n"
    (package / "__init__.py").write_text(source, encoding="utf-8")
    return tried, before_all_others(package.parent)


def test_nothing_of_it_is_loaded_unless_it_is_asked_for(
    tmp_path: Path, without_opentelemetry: tuple[Path, dict[str, str]]
) -> None:
    tried, environment = without_opentelemetry
    environment |= {"OTEL_SERVICE_NAME": "box", "OTEL_TRACES_EXPORTER": "none"}
    with running_box(tmp_path / "ws", environment=environment) as box:
        box.run("true")
        assert box.client.get("/metrics").status_code == 200
    assert not tried.exists()


def test_a_box_without_the_packages_serves_and_says_what_to_install(
    tmp_path: Path, without_opentelemetry: tuple[Path, dict[str, str]], capfd: pytest.CaptureFixture[str]
) -> None:
    tried, environment = without_opentelemetry
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "LOG_LEVEL": "WARNING"}
    with running_box(tmp_path / "ws", environment=environment) as box:
        assert box.run("echo hi") == "hi"
    assert tried.exists()
    [line] = capfd.readouterr().err.splitlines()
    assert "pip install 'glovebox-runtime[otel]'" in line


def test_a_protocol_that_cannot_be_spoken_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "path" / "grpc"  # the exporter may be installed, but not without this
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    environment = {
        **before_all_others(package.parent),
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_METRICS_EXPORTER": "console",
        "LOG_JSON": "0",
    }
    with running_box(tmp_path / "ws", environment=environment) as box:
        assert box.run("echo hi") == "hi"
    said = capfd.readouterr().err
    assert "Traces are not sent: grpc needs the package opentelemetry-exporter-otlp-proto-grpc" in said
    assert "Metrics are not sent: 'console' is not known here; there are http/protobuf and grpc" in said
