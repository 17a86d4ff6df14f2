"""The measures of the browser see what really happened."""

from __future__ import annotations

import argparse
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser

import psutil
import pytest
from benchmarks.__main__ import Run
from benchmarks.browser.box import seen_in
from benchmarks.browser.gym import GYM, GYM_IN_OPENHANDS
from benchmarks.browser.lives import Openers, measure_lives
from benchmarks.browser.pages import LARGE, large_page, served_pages
from benchmarks.browser.rounds import measure_rounds
from benchmarks.browser.seen import PICTURE, Seen
from benchmarks.browser.steps import Step, large, steps
from benchmarks.browser.tally import Tally
from benchmarks.competitors import Unavailable
from benchmarks.load import LoadError
from benchmarks.plan import BrowserPlan
from benchmarks.report import Cell, Row

from benchmarks import plan as plans

SITE = "http://127.0.0.1:1"
GOTO, NOOP, FILL, CLICK = steps(SITE)
PLAN = BrowserPlan(
    starts=2, slow_starts=1, steps=4, settle=0, rounds=3, slow_rounds=1, observations=2, large_observations=2
)


def nothing(text: str) -> None:
    """Say it to nobody."""


def done(step: Step, milliseconds: float = 10.0) -> Seen:
    """What is seen after a step that was done."""
    return Seen(milliseconds, step.url, f"\t{step.shows}\n", "", 2, 5_000)


class Scripted:
    """A browser that does each step in the same time, until it has done so many."""

    def __init__(self, name: str, milliseconds: float, *, steps_until_gone: int = 1_000) -> None:
        self.name = name
        self.began = time.perf_counter()
        self.asked: list[str] = []
        self._milliseconds = milliseconds
        self._left = steps_until_gone
        self._last = GOTO

    def step(self, actions: str) -> Seen:
        if len(self.asked) >= self._left:
            raise LoadError("gone")
        self.asked.append(actions)
        self._last = next(step for step in (*steps(SITE), large(SITE)) if step.actions == actions)
        return done(self._last, self._milliseconds)

    def observe(self) -> Seen:
        return done(self._last, self._milliseconds)

    def processes(self) -> set[psutil.Process]:
        return {psutil.Process()}


def rows_of(rows: Sequence[Row]) -> Mapping[str, Mapping[str, Cell]]:
    return {row.measure.removeprefix("browser: "): row.cells for row in rows}


class Elements(HTMLParser):
    """Counts elements."""

    count = 0

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.count += 1


def test_the_large_page_has_as_many_elements_as_it_is_said_to_have() -> None:
    elements = Elements()
    elements.feed(large_page())
    assert elements.count == LARGE


def test_pages_are_served_on_loopback_and_no_others() -> None:
    with served_pages() as pages:
        assert pages.startswith("http://127.0.0.1:")
        for path, text in (("/", b"Hello"), ("/b.html", b"Page B"), ("/large.html", b"Entry 1999")):
            with urllib.request.urlopen(pages + path) as answer:
                assert text in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"{pages}/other")
        refused.value.close()


@pytest.mark.parametrize(
    "flaw",
    [{"url": "about:blank"}, {"text": "RootWebArea ''"}, {"error": "ValueError: no"}, {"pictures": 1}],
)
def test_an_answer_with_a_flaw_is_wrong(flaw: Mapping[str, object]) -> None:
    assert FILL.is_right(done(FILL))
    assert not FILL.is_right(replace(done(FILL), **flaw))  # type: ignore[arg-type]


def test_what_was_seen_before_a_step_is_no_right_answer_to_it() -> None:
    for before, step in ((CLICK, GOTO), (NOOP, FILL), (FILL, CLICK), (CLICK, large(SITE))):
        assert not step.is_right(done(before))


def answer(**extras: object) -> bytes:
    pictures = {"screenshot": f"{PICTURE}iVBO", "set_of_marks": f"{PICTURE}iVBO"}
    page = {"url": SITE, "last_browser_action_error": "", **pictures, **extras}
    return json.dumps({"observation": "browse", "content": "[3] generic", "extras": page}).encode()


def test_the_page_is_read_from_the_answer_of_a_box() -> None:
    body = answer()
    assert seen_in(200, body, 7) == Seen(7, SITE, "[3] generic", "", 2, len(body))
    assert seen_in(200, answer(set_of_marks=""), 7).pictures == 1
    assert seen_in(200, answer(last_browser_action_error="Error: no"), 7).error == "Error: no"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"detail": "no"}',
        b'{"observation": "error", "content": "Browser functionality is not supported", "extras": {}}',
        answer(screenshot=None),
    ],
)
def test_an_answer_without_a_page_is_no_result(body: bytes) -> None:
    with pytest.raises(LoadError, match="no page: HTTP 500"):
        seen_in(500, body, 7)


def test_only_right_answers_are_timed_and_wrong_ones_counted() -> None:
    said: list[str] = []
    tally = Tally(said.append)
    for milliseconds in (30.0, 10.0, 20.0):
        tally.take(GYM, FILL, done(FILL, milliseconds), "fill")
    tally.take(GYM, FILL, done(NOOP, 1.0), "fill")
    assert tally.time(GYM, "fill") == Cell((20.0,), samples=3)
    assert tally.size(GYM, "fill") == Cell((5.0,), samples=3)
    assert tally.wrong(GYM) == Cell((1,), samples=4, out_of=4)
    assert "textbox 'Name', clickable" in said[0]
    assert tally.time(GYM, "click") == Cell(reason="not in this run")
    tally.take(GYM, CLICK, done(NOOP), "click")
    assert tally.time(GYM, "click") == Cell(reason="no right answer")


def test_every_browser_does_the_same_steps_and_the_slow_one_fewer_rounds() -> None:
    browsers = [Scripted("glovebox", 10), Scripted(GYM, 50), Scripted(GYM_IN_OPENHANDS, 1000)]
    found = measure_rounds(browsers, SITE, PLAN, Tally(nothing), nothing)
    one_round = [step.actions for step in steps(SITE)]
    whole = [*one_round * PLAN.rounds, large(SITE).actions]
    asked = [[GOTO.actions, *script] for script in (whole, whole, one_round)]
    assert [browser.asked for browser in browsers] == asked, "the first is not measured"
    rows = rows_of(found.rows)
    both = {"glovebox": Cell((10,), samples=6), GYM: Cell((50,), samples=6)}
    assert rows["observation of a small page, p50"] == both
    slow = rows["a step, `fill`, p50; BrowserGym as OpenHands runs it"]
    assert slow == {"glovebox": Cell((10,), samples=3), GYM: Cell((1000,), samples=1)}
    assert rows["the answer as JSON, small page / 10000 elements"][GYM].values == (5, 5)
    wrong = rows["wrong or missing answers"]
    assert {name: (cell.values, cell.out_of) for name, cell in wrong.items()} == {
        "glovebox": ((0,), 21),
        GYM: ((0,), 27),
    }
    assert [aim.reached for aim in found.aims] == [True]


def test_an_observation_that_is_less_than_four_times_as_fast_misses_the_aim() -> None:
    found = measure_rounds([Scripted("glovebox", 10), Scripted(GYM, 39)], SITE, PLAN, Tally(nothing), nothing)
    assert [aim.reached for aim in found.aims] == [False]


def test_a_browser_that_falls_out_leaves_its_reason_and_the_box_must_not() -> None:
    said: list[str] = []
    browsers = [Scripted("glovebox", 10), Scripted(GYM, 50, steps_until_gone=2)]
    found = measure_rounds(browsers, SITE, PLAN, Tally(said.append), nothing)
    rows = rows_of(found.rows)
    assert said == ["browser: BrowserGym falls out: gone"]
    assert rows["wrong or missing answers"][GYM] == Cell((1,), samples=2, out_of=2)
    assert rows["a step, `goto`, p50"][GYM] == Cell((50,), samples=1)
    assert rows["a step, `click` on a link to another page, p50"][GYM].reason == "gone"
    assert rows["the answer as JSON, small page / 10000 elements"][GYM].reason == "gone"
    assert [aim.reached for aim in found.aims] == [None]
    with pytest.raises(LoadError, match="gone"):
        measure_rounds([Scripted("glovebox", 10, steps_until_gone=1)], SITE, PLAN, Tally(nothing), nothing)


def scripted_openers(opened: list[Scripted]) -> Openers:
    @contextmanager
    def opener(name: str) -> Iterator[Scripted]:
        opened.append(Scripted(name, 10))
        yield opened[-1]

    return {
        name: lambda name=name: opener(name)  # type: ignore[misc]
        for name in ("glovebox", GYM, GYM_IN_OPENHANDS)
    }


def test_each_is_started_some_times_and_weighed_once() -> None:
    opened: list[Scripted] = []
    tally = Tally(nothing)
    found = measure_lives(scripted_openers(opened), SITE, PLAN, tally, nothing)
    assert [browser.name for browser in opened] == ["glovebox", GYM, "glovebox", GYM, GYM_IN_OPENHANDS]
    assert [len(browser.asked) for browser in opened] == [1, 1, PLAN.steps, PLAN.steps, PLAN.steps]
    rows = rows_of(found.rows)
    assert [cell.samples for cell in rows["first request to the first page's answer"].values()] == [2, 2]
    memory = rows["memory after 4 steps, all processes (PSS)"]
    assert all(cell.values[0] > 0 and cell.samples == 1 for cell in memory.values())
    assert tally.wrong("glovebox").out_of == PLAN.steps - 1
    assert found.aims[0].reached in (True, False)


def test_what_is_not_there_leaves_its_reason_in_every_row() -> None:
    opened: list[Scripted] = []

    @contextmanager
    def missing() -> Iterator[Scripted]:
        raise Unavailable("not installed")
        yield

    openers = {**scripted_openers(opened), GYM: missing, GYM_IN_OPENHANDS: missing}
    found = measure_lives(openers, SITE, PLAN, Tally(nothing), nothing)
    assert {cells[GYM].reason for cells in rows_of(found.rows).values()} == {"not installed"}
    assert [aim.reached for aim in found.aims] == [None]
    with pytest.raises(Unavailable, match="not installed"):
        measure_lives({"glovebox": missing}, SITE, PLAN, Tally(nothing), nothing)


def test_a_run_of_the_browser_alone_needs_no_other_server() -> None:
    options = argparse.Namespace(
        no_reference=False, bare_reference=False, no_swerex=False, reference_url=None, reference_key=""
    )
    alone = Run(options, plans.quick(frozenset(["browser"])))
    assert alone.names == ["glovebox", GYM]
    assert [one.name for one in alone.competitors] == ["glovebox"]
    among = Run(options, plans.quick(frozenset(["browser", "start"])))
    assert among.names == ["glovebox", "reference", "SWE-ReX", GYM]
    assert Run(options, plans.quick(frozenset(["start"]))).names == ["glovebox", "reference", "SWE-ReX"]
