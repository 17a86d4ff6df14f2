"""All measures of the browser, one after the other."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.browser.gym import GYM_IN_OPENHANDS
from benchmarks.browser.lives import OPENERS, Openers, measure_lives
from benchmarks.browser.pages import served_pages
from benchmarks.browser.rounds import measure_rounds
from benchmarks.browser.steps import Browser
from benchmarks.browser.tally import Tally
from benchmarks.competitors import Say
from benchmarks.plan import BrowserPlan
from benchmarks.terminal.findings import Findings


def measure_browser(plan: BrowserPlan, say: Say, openers: Openers = OPENERS) -> Findings:
    """Measure the browser of this box and BrowserGym, on the same pages with the same Chromium.

    Raises:
        Unavailable: the box does not start.
        LoadError: it does not answer.
    """
    tally = Tally(say)
    with served_pages() as pages, ExitStack() as stack:
        found = measure_lives(openers, pages, plan, tally, say)
        browsers: list[Browser] = []
        for name, opener in openers.items():
            if name in tally.reasons or (name == GYM_IN_OPENHANDS and not plan.slow_rounds):
                continue
            with tally.excusing(name):
                browsers.append(stack.enter_context(opener()))
        found.add(measure_rounds(browsers, pages, plan, tally, say))
    return found
