"""Steps and observations, the browsers in turns."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.browser.gym import GYM, GYM_IN_OPENHANDS
from benchmarks.browser.pages import LARGE
from benchmarks.browser.steps import Browser, large, steps
from benchmarks.browser.tally import Tally
from benchmarks.competitors import Glovebox, Say
from benchmarks.plan import BrowserPlan
from benchmarks.report import Cell, Row
from benchmarks.terminal.findings import Findings, of

#: Measures beside the steps, which have their own names.
_SMALL = "observation"
_LARGE = "observation of the large page"

_STEPS = {
    "noop": "`noop(0)`",
    "fill": "`fill`",
    "click": "`click` on a link to another page",
    "goto": "`goto`",
}


def measure_rounds(
    browsers: Sequence[Browser], pages: str, plan: BrowserPlan, tally: Tally, say: Say
) -> Findings:
    """Let each do the same steps, round after round, then look at a page of many elements.

    Raises:
        LoadError: the box does not answer.
    """
    for browser in browsers:
        with tally.excusing(browser.name):  # a box starts its browser with the first step
            browser.step(steps(pages)[0].actions)
            browser.observe()
    for turn in range(plan.rounds):
        for browser in browsers:
            is_enough = browser.name == GYM_IN_OPENHANDS and turn >= plan.slow_rounds
            if is_enough or browser.name in tally.reasons:
                continue
            with tally.excusing(browser.name):
                _round(browser, pages, plan, tally)
        say(f"browser, round {turn + 1} of {plan.rounds}")
    if plan.large_observations:
        _measure_large(browsers, pages, plan, tally, say)
    return _findings(tally)


def _round(browser: Browser, pages: str, plan: BrowserPlan, tally: Tally) -> None:
    for step in steps(pages):
        tally.take(browser.name, step, browser.step(step.actions), step.name)
        if step.name == "noop":
            for _ in range(plan.observations):
                tally.take(browser.name, step, browser.observe(), _SMALL)


def _measure_large(
    browsers: Sequence[Browser], pages: str, plan: BrowserPlan, tally: Tally, say: Say
) -> None:
    step = large(pages)
    for browser in browsers:
        # With its pauses BrowserGym looks as it does without them, but takes half a minute to get there.
        if browser.name == GYM_IN_OPENHANDS or browser.name in tally.reasons:
            continue
        with tally.excusing(browser.name):
            tally.take(browser.name, step, browser.step(step.actions), step.name)
            for _ in range(plan.large_observations):
                tally.take(browser.name, step, browser.observe(), _LARGE)
        say(f"browser, {LARGE} elements: {browser.name} {tally.shown(browser.name, _LARGE)}")


def _findings(tally: Tally) -> Findings:
    small = _pair(tally, "observation of a small page, p50", _SMALL)
    rows = [small]
    for name, label in _STEPS.items():
        rows.append(_pair(tally, f"a step, {label}, p50", name))
        rows.append(_pair(tally, f"a step, {label}, p50; {GYM_IN_OPENHANDS}", name, GYM_IN_OPENHANDS))
    rows.append(_pair(tally, f"observation of a page of {LARGE} elements, p50", _LARGE))
    rows.append(_sizes(tally))
    wrong = {
        Glovebox.name: tally.wrong(Glovebox.name),
        GYM: tally.wrong(GYM, GYM_IN_OPENHANDS),
    }
    rows.append(Row("browser: wrong or missing answers", "", wrong, better=""))
    ours, theirs = (small.cells[name].values for name in (Glovebox.name, GYM))
    aim = of(
        "observation of a small page, p50: BrowserGym's is",
        theirs[0] if theirs else None,
        ours[0] if ours else None,
        4,
    )
    return Findings(rows, [aim])


def _pair(tally: Tally, label: str, measure: str, other: str = GYM) -> Row:
    cells = {Glovebox.name: tally.time(Glovebox.name, measure), GYM: tally.time(other, measure)}
    return Row(f"browser: {label}", "ms", cells)


def _sizes(tally: Tally) -> Row:
    row = Row(f"browser: the answer as JSON, small page / {LARGE} elements", "kB", better="")
    for name in (Glovebox.name, GYM):
        both = [tally.size(name, measure) for measure in (_SMALL, _LARGE)]
        reason = next((cell.reason for cell in both if not cell.values), "")
        row.cells[name] = Cell(reason=reason) if reason else Cell((both[0].values[0], both[1].values[0]))
    return row
