"""The measures see what really happened: a wrong answer is counted, and what is late or lost is no result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchmarks.load import Outcome
from benchmarks.measures import boxes, browser, mcp, notebook, server, terminal
from benchmarks.peers.browsergym import PICTURE, Page
from benchmarks.peers.browsers import page_in
from benchmarks.peers.mcp import EventSession, opened, time_to_tools
from benchmarks.peers.openhands import OpenHandsApi, fresh_box
from benchmarks.peers.server import Peer
from benchmarks.processes import Failed, Unavailable, Wrong, in_child

from tests.benchmarks.fakes import answering

LOST = "[Code executed successfully with no output]"
LATE = "[Execution timed out (1.0 seconds).]"


class EndsAtOnce(Peer):
    """A server that does not start."""

    name = "reference"
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


@pytest.mark.parametrize("start", [server.start, notebook.start, partial(mcp.first_list, 0.0)])
def test_a_server_that_does_not_start_leaves_its_last_words(start: Callable[..., object]) -> None:
    with pytest.raises(Failed, match="ended at start: no luck today"):
        start(EndsAtOnce(), 0)


def test_a_request_that_is_answered_wrong_or_not_known_is_not_measured() -> None:
    with (
        answering(lambda path, body: (200, {"status": "no"})) as asleep,
        pytest.raises(Failed, match="wrong"),
    ):
        server.load("alive", 1, 0.1, asleep, 0)
    with answering(lambda path, body: (404, {})) as other, pytest.raises(Unavailable):
        server.load("glob", 1, 0.1, other, 0)
    with pytest.raises(Failed, match="cannot make its files"), answering(cells("")) as other:
        server.make_files(other)


def test_a_line_has_arrived_when_its_end_has_and_none_may_be_missing() -> None:
    assert terminal.line_times([("0 1000000\r\n1 20", 3_000_000), ("00000\r\n", 7_000_000)], 2) == [2.0, 5.0]
    for text in ("0 1\n", "0 1\n0 1\n", "1 1\n0 1\n"):
        with pytest.raises(Failed, match="of 2 lines"):
            terminal.line_times([(text, 2)], 2)
    assert terminal.text_file(2, 1).read_bytes()[:9] == b"00\n01\n02\n"
    assert terminal.text_file(80, 1).stat().st_size == 12_345 * 81


@pytest.mark.parametrize("kind", notebook.KINDS)
def test_no_two_cells_in_a_row_show_the_same(kind: str) -> None:
    shown = [notebook.KINDS[kind](number)[1] for number in range(100)]
    assert all(before != after for before, after in pairwise(shown))


@pytest.mark.parametrize(
    ("events", "is_right"),
    [
        ([printed("first 3\n"), printed("last 3\n"), observed("first 3\nlast 3")], True),
        ([printed("first 3\nlast 3\n"), observed("first 3\nlast 3")], False),
        ([observed("first 3\nlast 3")], False),
        ([printed("first 3\n"), printed("last 3\n"), observed(LOST)], False),
        ([printed("first 3\n"), ("error", "{}")], False),
        ([printed("first 3\n")], False),
    ],
)
def test_a_stream_that_is_late_or_incomplete_is_no_result(
    events: Sequence[tuple[str, str]], is_right: bool
) -> None:
    with answering(lambda path, body: (200, events)) as streaming:
        if is_right:
            assert notebook.first_output(streaming, 3) > 0
        else:
            with pytest.raises(Failed, match="streamed"):
                notebook.first_output(streaming, 3)


@pytest.mark.parametrize(("answers", "problem"), [([LOST], "no output"), ([LATE, "NameError"], "NameError")])
def test_a_cell_past_its_limit_has_to_say_so_and_leave_its_variables(
    answers: list[str], problem: str
) -> None:
    with answering(cells("7", *answers)) as slow, pytest.raises(Failed, match=problem):
        notebook.overshoot(slow, 7)
    with answering(cells("7", LATE, "7")) as right:
        found = notebook.overshoot(right, 7)
    assert found["late"] < found["next"]


def counted(outcome: Outcome) -> tuple[int, int, int]:
    return outcome.right, outcome.wrong, outcome.unanswered


def test_only_the_text_of_a_call_is_a_right_answer_to_it_and_other_tools_are_seen() -> None:
    with fresh_box() as box:
        with pytest.raises(Failed, match="no stream: HTTP 404"):
            EventSession(box.site)
        for kind, right in (("echo", 3), ("wrong", 0)):
            assert time_to_tools(box.site, {"one": kind}) > 0
            outcome = in_child(partial(mcp.calls, box.site, "word", 3), 60)
            assert counted(outcome) == (right, 3 - right, 0)
        assert "'wrong' instead of 'word 0'" in outcome.example
        with pytest.raises(Failed, match="tools/list: other instead of echo"):
            time_to_tools(box.site, {"one": "renamed"})
        time_to_tools(box.site, {"one": "echo", "two": "echo"})
        with opened(EventSession(box.site)) as session:
            assert session.call("two_echo", "hello") == "hello"


GOTO, NOOP, FILL, CLICK = browser.steps("http://127.0.0.1:1")


def done(step: browser.Step, **flaw: Any) -> Page:
    page = {"milliseconds": 10.0, "url": step.url, "text": f"\t{step.shows}\n", "error": "", "pictures": 2}
    return Page(**{**page, "size": 5, **flaw})


def test_a_step_that_was_not_done_or_whose_answer_has_a_flaw_is_wrong() -> None:
    assert browser.checked(FILL, done(FILL))["ms"] == 10
    flaws: list[dict[str, Any]] = [{"url": "about:blank"}, {"text": ""}, {"error": "no"}, {"pictures": 1}]
    wrong = [(FILL, done(FILL, **flaw)) for flaw in flaws]
    pairs = ((CLICK, GOTO), (NOOP, FILL), (FILL, CLICK), (CLICK, browser.large_step("http://a")))
    for step, page in (*wrong, *((step, done(before)) for before, step in pairs)):
        with pytest.raises(Wrong):
            browser.checked(step, page)


@pytest.mark.parametrize(
    "extras", [None, {}, {"url": "u", "last_browser_action_error": "", "screenshot": None}]
)
def test_an_answer_without_a_page_is_no_result(extras: dict[str, Any] | None) -> None:
    with pytest.raises(Failed, match="no page: HTTP 500"):
        page_in(500, json.dumps({"content": "no", "extras": extras}).encode(), 7)
    whole = {"url": "u", "last_browser_action_error": "", "screenshot": PICTURE, "set_of_marks": ""}
    assert page_in(200, json.dumps({"content": "c", "extras": whole}).encode(), 7).pictures == 1


def test_a_copy_that_is_not_what_was_sent_has_another_digest(tmp_path: Path) -> None:
    boxes.make_files(tmp_path / "one", 120, 2_000, 1)
    boxes.make_files(tmp_path / "other", 120, 2_000, 1)
    assert boxes.digest(str(tmp_path / "one")) == boxes.digest(str(tmp_path / "one"))
    assert boxes.digest(str(tmp_path / "one")) != boxes.digest(str(tmp_path / "other"))
