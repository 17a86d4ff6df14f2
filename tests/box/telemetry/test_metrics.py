"""`GET /metrics`, read as Prometheus reads it; and the page that says what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import glovebox
from tests.support.running import RunningBox, before_all_others, running_box, wait_until
from tests.support.waiting import LIMIT

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operations.md"
SOURCES = ROOT / "src" / "glovebox" / "box" / "telemetry"


def samples(box: RunningBox) -> list[Sample]:
    answer = box.client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]


def read(box: RunningBox, name: str, **labels: str) -> float:
    """The value of a metric; 0 while there is none."""
    found = [one.value for one in samples(box) if one.name == name and labels.items() <= one.labels.items()]
    assert len(found) <= 1
    return found[0] if found else 0.0


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    with running_box(tmp_path_factory.mktemp("box") / "ws") as box:
        yield box


def test_actions_are_counted_by_what_they_came_to(measured: RunningBox) -> None:
    def counts() -> list[float]:
        return [
            read(measured, "glovebox_actions_total", action="stat", result="stat"),
            read(measured, "glovebox_actions_total", action="stat", result="error"),
            read(measured, "glovebox_action_seconds_count", action="stat"),
            read(measured, "glovebox_action_seconds_bucket", action="stat", le="+Inf"),
        ]

    before = counts()
    for path in ("/", "/tmp", "/nowhere"):
        measured.execute("stat", path=path)
    assert [after - then for after, then in zip(counts(), before, strict=True)] == [2, 1, 3, 3]
    seconds = [
        one.value
        for one in samples(measured)
        if one.name == "glovebox_action_seconds_bucket" and one.labels["action"] == "stat"
    ]
    assert seconds == sorted(seconds)


def test_output_is_counted_in_bytes(measured: RunningBox) -> None:
    before = read(measured, "glovebox_output_bytes_total", action="run")
    measured.run("printf '%100000d' 1")
    assert read(measured, "glovebox_output_bytes_total", action="run") - before == 100_000


def test_an_action_that_runs_is_counted_while_it_does(measured: RunningBox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with ThreadPoolExecutor() as threads:
        running = threads.submit(measured.run, f"until test -e {go}; do sleep 0.02; done")
        wait_until(lambda: read(measured, "glovebox_actions_running") == 1, what="a running action")
        go.touch()
        running.result(LIMIT)
    wait_until(lambda: read(measured, "glovebox_actions_running") == 0, what="the end of the action")


def test_plugins_are_shown_with_their_state_and_what_they_count(measured: RunningBox) -> None:
    assert read(measured, "glovebox_plugin_state", plugin="terminal", state="running") == 1
    assert read(measured, "glovebox_plugin_state", plugin="terminal", state="failed") == 0
    assert read(measured, "glovebox_plugin_restarts_total", plugin="terminal") == 0
    before = read(measured, "glovebox_sessions")
    measured.execute("run", command="true", session="another")
    assert read(measured, "glovebox_sessions") == before + 1


def test_the_box_and_its_process_are_shown(measured: RunningBox) -> None:
    assert read(measured, "glovebox_info", version=glovebox.__version__) == 1
    assert read(measured, "glovebox_uptime_seconds") > 0
    assert read(measured, "glovebox_events_total") > 0
    assert read(measured, "process_resident_memory_bytes") > 1_000_000
    assert read(measured, "process_open_fds") > 3


def test_the_key_is_needed(measured: RunningBox) -> None:
    assert measured.client.get("/metrics", headers={"X-Session-API-Key": "wrong"}).status_code == 403


def test_many_may_ask_at_the_same_time(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: box.client.get("/metrics"), range(24)))
        assert {answer.status_code for answer in answers} == {200}
        assert all("glovebox_info{" in answer.text for answer in answers)


def test_the_library_is_loaded_by_the_first_who_asks_and_may_be_missing(tmp_path: Path) -> None:
    tried, package = tmp_path / "tried", tmp_path / "path" / "prometheus_client"
    package.mkdir(parents=True)
    source = f"open({str(tried)!r}, 'w').close()\nraise ImportError('not installed')\n"
    (package / "__init__.py").write_text(source, encoding="utf-8")
    with running_box(tmp_path / "ws", environment=before_all_others(package.parent)) as box:
        box.run("true")
        assert not tried.exists()
        answer = box.client.get("/metrics")
        assert tried.exists()
        assert answer.status_code == 501
        assert "pip install prometheus-client" in answer.json()["detail"]


# The page.


def documented() -> dict[str, str]:
    """The rows of the page's tables, by the metric or attribute they begin with."""
    rows = re.findall(r"^\| `([a-z][a-z_.]+)` \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(dict(rows))
    return dict(rows)


def test_every_metric_is_documented_and_every_documented_one_is_there(measured: RunningBox) -> None:
    measured.run("true")
    families = text_string_to_metric_families(measured.client.get("/metrics").text)
    shown = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    rows = {name: row for name, row in documented().items() if re.match(r"glovebox_|process_", name)}
    optional = {name for name, row in rows.items() if "with the plugin" in row}
    assert shown <= set(rows)
    assert set(rows) - optional <= shown


def test_expressions_use_metrics_that_are_there() -> None:
    used = set(re.findall(r"\b(?:glovebox|process)_[a-z_]+", PAGE.read_text(encoding="utf-8")))
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in used} <= set(documented())


def test_everything_that_is_sent_to_a_collector_is_documented() -> None:
    sources = [path.read_text("utf-8") for path in SOURCES.glob("*.py")]
    sent = set(re.findall(r'"((?:glovebox|process|error|exception)\.[a-z_.]+)"', "".join(sources)))
    assert sent
    assert sent <= set(documented())
