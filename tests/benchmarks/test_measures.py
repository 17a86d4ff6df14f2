"""The measures see what really happened: a wrong answer is counted, and what is late or lost is no result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchmarks.measures import browser, mcp, notebook, server, terminal
from benchmarks.peers.browsergym import PICTURE, Page
from benchmarks.peers.browsers import page_in
from benchmarks.peers.openhands import OpenHandsApi, fresh_box
from benchmarks.peers.server import Peer
from benchmarks.processes import Failed, Unavailable, Wrong

from tests.benchmarks.fakes import answering

LOST = "[Code executed successfully with no output]"


class EndsAtOnce(Peer):
    """A server that does not start."""

    name = "reference"
    api = OpenHandsApi

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        return ["sh", "-c", "echo no luck today; exit 1"]


def cells(content: str) -> Callable[[str, Any], tuple[int, Any]]:
    """The same answer to every cell."""
    return lambda path, body: (200, {"observation": "run_ipython", "content": content})


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
        server.load("view", 1, 0.1, other, 0)
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


def test_a_cell_whose_output_is_lost_is_wrong() -> None:
    with answering(cells(LOST)) as lossy:
        outcome = notebook.load("print", 0.1, lossy, 0)
        with pytest.raises(Wrong, match="no output"):
            notebook.first_cell(lossy)
    assert outcome.right == 0 < outcome.wrong
    assert LOST in outcome.example


def test_only_the_text_of_a_call_is_a_right_answer_to_it_and_other_tools_are_seen() -> None:
    with fresh_box() as box:
        with pytest.raises(Failed, match="no stream: HTTP 404"):
            mcp.Session(box.site)
        for kind, right in (("echo", 3), ("wrong", 0)):
            assert mcp.time_to_tools(box.site, kind) > 0
            outcome = mcp.calls(3, box, 0)
            assert (outcome.right, outcome.wrong, outcome.unanswered) == (right, 3 - right, 0)
        assert "instead of 'turn 0 0'" in outcome.example
        with pytest.raises(Failed, match="other tools"):
            mcp.time_to_tools(box.site, "renamed")


GOTO, NOOP, FILL, CLICK = browser.steps("http://127.0.0.1:1")


def done(step: browser.Step, **flaw: Any) -> Page:
    page = {"milliseconds": 10.0, "url": step.url, "text": f"\t{step.shows}\n", "error": "", "pictures": 2}
    return Page(**{**page, **flaw})


def test_a_step_that_was_not_done_or_whose_answer_has_a_flaw_is_wrong() -> None:
    assert browser.checked(FILL, done(FILL)) == 10
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
