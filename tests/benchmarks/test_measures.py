"""The measures see what really happened: a wrong answer is counted, and what is late or lost is no result."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchmarks.harness import OWN, REFERENCE, Results
from benchmarks.load import Outcome
from benchmarks.measures import boxes, browser, mcp, notebook, server, terminal
from benchmarks.peers.browsergym import PICTURE, Page
from benchmarks.peers.browsers import page_in
from benchmarks.peers.clients import Client
from benchmarks.peers.host_clients import PROCESS, Started
from benchmarks.peers.mcp import EventSession, HttpSession, opened, time_to_tools
from benchmarks.peers.openhands import OpenHandsApi, fresh_box
from benchmarks.peers.server import Peer
from benchmarks.processes import Failed, in_child

from tests.benchmarks.fakes import answering

LOST = "[Code executed successfully with no output]"


class EndsAtOnce(Peer):
    """A server that does not start."""

    name = REFERENCE
    api = OpenHandsApi
    has_cells = has_mcp = True

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        return ["sh", "-c", "echo no luck today; exit 1"]


def cells(*contents: str) -> Callable[[str, Any], tuple[int, Any]]:
    """Answers to cells, the last one again and again."""
    left = list(contents)
    return lambda path, body: (
        200,
        {"observation": "run_ipython", "content": left.pop(0) if len(left) > 1 else left[0]},
    )


def printed(text: str) -> tuple[str, str]:
    return "output", json.dumps({"text": text})


def observed(text: str) -> tuple[str, str]:
    return "observation", json.dumps({"observation": "run_ipython", "content": text})


def results_of(group: Any, *names: str, **changes: object) -> Results:
    return Results(group.GROUP.size(quick=True, **changes), names or [REFERENCE])


@pytest.mark.parametrize(
    "measure", [notebook.measure_starts, partial(mcp.measure_first_lists, stack=ExitStack())]
)
def test_a_server_that_does_not_start_leaves_its_reason(measure: Callable[..., object]) -> None:
    results = results_of(notebook, settle=0)
    measure(results, [EndsAtOnce()])
    assert results.reason(REFERENCE, "start") == "ended at start: no luck today"
    assert not results.samples


def test_a_request_that_is_answered_wrong_or_not_known_is_not_measured() -> None:
    results = results_of(server)
    with answering(lambda path, body: (200, {"status": "no"})) as asleep:
        server.measure_requests(results, "alive", [asleep])
    assert results.reason(REFERENCE, "alive.8") == 'wrong answer: HTTP 200 {"status": "no"}'
    with answering(lambda path, body: (404, {})) as other:
        server.measure_requests(results, "glob", [other])
    assert results.reason(REFERENCE, "glob.1") == "not offered"
    with pytest.raises(Failed, match="cannot make its files"), answering(cells("")) as other:
        server.make_files(other)


def test_a_line_has_arrived_when_its_end_has_and_none_may_be_missing() -> None:
    assert terminal.line_times([("0 1000000\r\n1 20", 3_000_000), ("00000\r\n", 7_000_000)], 2) == [2.0, 5.0]
    for text in ("0 1\n", "0 1\n0 1\n", "1 1\n0 1\n"):
        with pytest.raises(Failed, match="of 2 lines"):
            terminal.line_times([(text, 2)], 2)
    assert len(f"echo {terminal.long_text(3)}") == 5_000
    assert terminal.long_text(3) != terminal.long_text(4)


@pytest.mark.parametrize("kinds", [list(notebook.KINDS), ["print", "expression"], ["print"], ["lines"]])
def test_no_two_cells_in_a_row_show_the_same(kinds: Sequence[str]) -> None:
    shown = [notebook.KINDS[kinds[number % len(kinds)]](number)[1] for number in range(1_000)]
    assert all(before != after for before, after in pairwise(shown))


def test_every_lost_cell_is_counted_and_the_aim_missed() -> None:
    results = results_of(notebook, OWN)
    with answering(cells(LOST), OWN) as lossy:
        notebook.count_lost_cells(results, [lossy])
        with pytest.raises(Failed, match="no output"):
            notebook.first_cell(lossy)
    for series, count in (("idle", 300), ("busy", 100)):
        assert (results.wrong(series).values, results.wrong(series).out_of) == ((count,), count)
    assert [aim.reached for aim in notebook.aims(results) if "none lost" in aim.text] == [False, False]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([printed("first 3\n"), printed("last 3\n"), observed("first 3\nlast 3")], ""),
        ([printed("first 3\nlast 3\n"), observed("first 3\nlast 3")], "while the cell ran"),
        ([observed("first 3\nlast 3")], "while the cell ran"),
        ([printed("first 3\n"), observed("first 3\nlast 3")], "streamed"),
        ([printed("first 3\n"), printed("last 3\n"), observed(LOST)], "answered"),
        ([printed("first 3\n"), ("error", "{}")], "without an observation"),
        ([printed("first 3\n")], "without an observation"),
    ],
)
def test_a_stream_that_is_late_or_incomplete_is_no_result(
    events: Sequence[tuple[str, str]], problem: str
) -> None:
    with answering(lambda path, body: (200, events)) as streaming:
        if problem:
            with pytest.raises(Failed, match=problem):
                notebook.first_output(streaming, 3)
        else:
            assert notebook.first_output(streaming, 3) > 0


@pytest.mark.parametrize(
    ("answers", "problem"),
    [([LOST], "no output"), (["[Execution timed out (1.0 seconds).]", "NameError"], "NameError")],
)
def test_a_cell_past_its_limit_has_to_say_so_and_leave_its_variables(
    answers: list[str], problem: str
) -> None:
    with answering(cells("7", *answers)) as slow, pytest.raises(Failed, match=problem):
        notebook.overshoot(slow, 7)
    with answering(cells("7", "[Execution timed out (1.0 seconds).]", "7")) as right:
        late, following = notebook.overshoot(right, 7)
    assert late < following


def counted(outcome: Outcome) -> tuple[int, int, int]:
    return outcome.right, outcome.wrong, outcome.unanswered


def test_only_the_text_of_a_call_is_a_right_answer_to_it() -> None:
    calls = partial(mcp.calls, EventSession, "echo")
    with fresh_box() as box:
        with pytest.raises(Failed, match="no stream: HTTP 404"):
            EventSession(box.site)
        for kind, right in (("echo", 3), ("wrong", 0)):
            assert time_to_tools(box.site, {"one": kind}) > 0
            outcome = in_child(partial(calls, box.site, "word", 3), 60)
            assert counted(outcome) == (right, 3 - right, 0)
            at_once = in_child(partial(mcp.crowds, box.site, "word", 1), 60)
            assert at_once.right + at_once.wrong == mcp.AT_ONCE
            assert bool(at_once.right) is bool(right)
        assert "'wrong' instead of 'word 0'" in outcome.example
        gone = in_child(partial(mcp.calls, EventSession, "nowhere", box.site, "word", 3), 60)
        assert gone.right == 0
        assert gone.bad


def test_a_list_of_servers_whose_tools_are_not_there_is_seen_and_others_are_called_over_both_transports() -> (
    None
):
    with fresh_box() as box:
        with pytest.raises(Failed, match="tools/list: other instead of echo"):
            time_to_tools(box.site, {"one": "renamed"})
        time_to_tools(box.site, {"one": "echo", "two": "echo"})
        for session in (EventSession(box.site), HttpSession(box.site)):
            with opened(session):
                assert session.call("two_echo", "hello") == "hello"


GOTO, NOOP, FILL, CLICK = browser.steps("http://127.0.0.1:1")


def done(step: browser.Step, **flaw: Any) -> Page:
    page = {
        "milliseconds": 10.0,
        "url": step.url,
        "text": f"\t{step.shows}\n",
        "error": "",
        "pictures": 2,
        "size": 5,
    }
    return Page(**{**page, **flaw})


def test_a_step_that_was_not_done_or_whose_answer_has_a_flaw_is_wrong() -> None:
    assert FILL.is_right(done(FILL))
    flaws: list[dict[str, Any]] = [{"url": "about:blank"}, {"text": ""}, {"error": "no"}, {"pictures": 1}]
    assert not any(FILL.is_right(done(FILL, **flaw)) for flaw in flaws)
    for before, step in ((CLICK, GOTO), (NOOP, FILL), (FILL, CLICK), (CLICK, browser.large_step("http://a"))):
        assert not step.is_right(done(before))


@pytest.mark.parametrize(
    "extras", [None, {}, {"url": "u", "last_browser_action_error": "", "screenshot": None}]
)
def test_an_answer_without_a_page_is_no_result(extras: dict[str, Any] | None) -> None:
    with pytest.raises(Failed, match="no page: HTTP 500"):
        page_in(500, json.dumps({"content": "no", "extras": extras}).encode(), 7)
    whole = {"url": "u", "last_browser_action_error": "", "screenshot": PICTURE, "set_of_marks": ""}
    assert page_in(200, json.dumps({"content": "c", "extras": whole}).encode(), 7).pictures == 1


class LyingClient:
    """A host client whose box never has what was sent."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def begin(self, kind: str) -> Started:
        return Started(1.0, 2.0, 3.0, workspace="/nowhere")

    def output(self, command: str) -> str:
        return "1 0123456789abcdef" if "sha256sum" in command else ""

    def copy_in(self, source: str, directory: str, is_tree: bool) -> float:
        return 1.0

    def copy_out(self, directory: str) -> tuple[float, str]:
        with zipfile.ZipFile(f"/tmp/{self.mark}.zip", "w"):
            return 1.0, f"/tmp/{self.mark}.zip"

    def close(self) -> None:
        """Nothing was started."""


def test_a_copy_that_is_not_what_was_sent_is_no_copy() -> None:
    results = results_of(boxes, OWN, copy_megabytes=1, copy_files=10)
    with Client(OWN, None, ("tests.benchmarks.test_measures", "LyingClient")) as client:
        client.wait_ready(client.mark)
        boxes.measure_copies(results, [client], {OWN: client.ask("begin", PROCESS)})
    assert "the box has something else than file: 1 0123456789abcdef" in results.reason(OWN, "copy")
    assert not [series for _, series in results.samples if series.endswith((".in", ".out"))]
    assert results.has_own_failure
