"""The browser: first page, memory, steps and observations, beside BrowserGym."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import NOT_ASKED, OWN, Group, Measure, Results, Sizes, table
from benchmarks.load import Outcome
from benchmarks.peers.browsergym import Page
from benchmarks.peers.browsers import AS_OPENHANDS, GYM, OPENERS, PLAIN, Browser, Openers
from benchmarks.processes import Failed, pss
from benchmarks.report import Aim, times

SIZES = {
    "starts": (3, 1),
    # Of BrowserGym with its pauses, which needs seconds for each step; the same for rounds.
    "slow_starts": (1, 0),
    # Before memory is measured, and seconds after the last of them, in which background work ends.
    "steps": (20, 4),
    "settle": (2.0, 2.0),
    "rounds": (5, 1),
    "slow_rounds": (2, 0),
    # Of the small page, in each round.
    "observations": (5, 3),
    "large_observations": (2, 1),
}
#: Elements of the large page, its `html`, `head`, `title`, `body` and `ul` included.
LARGE = 10_000
#: A heading, some text, a list, a link, a form: all that a step needs.
_SMALL_PAGE = (
    "<!doctype html><html><head><title>Small</title></head><body><h1>Hello</h1>"
    "<p>Some <b>bold</b> text.</p><ul><li>one</li><li>two</li></ul>"
    '<a href="b.html">to b</a>'
    '<form><label for="q">Name</label><input id="q" name="q"><button type="button">Go</button></form>'
    '<div id="o"></div></body></html>'
)
_OTHER_PAGE = (
    "<!doctype html><html><head><title>B</title></head><body><h2>Page B</h2>"
    "<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>"
)
#: Each stands twice: with plain BrowserGym, and with BrowserGym as OpenHands runs it.
_BOTH_ROWS = """
s ↓ | first request to the first page's answer{more} | {start}
MB ↓ | memory after {steps} steps, all processes (PSS){more} | {pss}
 | processes after {steps} steps{more} | {processes}
ms ↓ | a step, `noop(0)`, p50{more} | {noop}
ms ↓ | a step, `fill`, p50{more} | {fill}
ms ↓ | a step, `click` on a link to another page, p50{more} | {click}
ms ↓ | a step, `goto`, p50{more} | {goto}
"""
_OBSERVATION_ROWS = """
ms ↓ | observation of a small page, p50 | plain.small:median | not in this run
ms ↓ | observation of a page of {large} elements, p50 | plain.large:median | not in this run
kB | the answer as JSON, small page / {large} elements | plain.small_kB:median plain.large_kB:median \
 | not in this run
"""
#: All series of answers that are checked.
_CHECKED = ("before", "small", "noop", "fill", "click", "goto", "large", "large_step")


def large_page() -> str:
    """A long list whose entries have a link, a text, a field and a button."""
    entries = "".join(
        f'<li><a href="#{n}">Entry {n}</a><span>of a long list</span>'
        f'<input value="{n}"><button>Go</button></li>'
        for n in range(1, (LARGE - 5) // 5 + 1)
    )
    return f"<!doctype html><html><head><title>Large</title></head><body><ul>{entries}</ul></body></html>"


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """No log."""


@contextmanager
def served_pages() -> Iterator[str]:
    """The address of a server on loopback with the pages `/`, `/b.html` and `/large.html`."""
    with TemporaryDirectory(prefix="glovebox-bench-") as folder:
        for name, text in {"index": _SMALL_PAGE, "b": _OTHER_PAGE, "large": large_page()}.items():
            Path(folder, f"{name}.html").write_text(text)
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=folder)) as server:
            serving = threading.Thread(target=server.serve_forever, args=(0.05,))
            serving.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                serving.join()


@dataclass(frozen=True)
class Step:
    """A string of actions, the address it leads to, and what the page shows then and not before."""

    name: str
    actions: str
    url: str
    shows: str

    def is_right(self, page: Page) -> bool:
        """Whether the step was done, and everything that belongs to its answer is there."""
        return page.url == self.url and self.shows in page.text and not page.error and page.pictures == 2


def steps(pages: str) -> tuple[Step, Step, Step, Step]:
    """To the small page, nothing there, a field of it, and by its link to another page."""
    small, other = f"{pages}/", f"{pages}/b.html"
    empty = "[13] textbox 'Name', clickable"
    return (
        Step("goto", f'goto("{small}")', small, empty),
        Step("noop", "noop(0)", small, empty),
        Step("fill", 'fill("13", "Ada")', small, "[13] textbox 'Name' value='Ada'"),
        Step("click", 'click("10")', other, "heading 'Page B'"),
    )


def large_step(pages: str) -> Step:
    url = f"{pages}/large.html"
    return Step("large_step", f'goto("{url}")', url, f"link 'Entry {(LARGE - 5) // 5}'")


def _figures(variant: str) -> dict[str, str]:
    """Those of the box, and those of a variant of BrowserGym."""
    series = ("start", "pss", "processes", "noop", "fill", "click", "goto")
    return {one: f"plain.{one}:median | {NOT_ASKED} | {variant}.{one}:median" for one in series}


def measures(size: Sizes) -> list[Measure]:
    plain, whole = (
        table(_BOTH_ROWS, "browser: ", more=more, steps=size.steps, **_figures(variant))
        for variant, more in ((PLAIN, ""), (AS_OPENHANDS, f"; {GYM} as OpenHands runs it"))
    )
    rows = [row for both in zip(plain, whole, strict=True) for row in both]
    ours, slow = (" ".join(f"{variant}.{one}:wrong" for one in _CHECKED) for variant in (PLAIN, AS_OPENHANDS))
    wrong = Measure("browser: wrong or missing answers", "", ours, others=f"{ours} {slow}")
    observations = table(_OBSERVATION_ROWS, "browser: ", large=LARGE)
    return [*rows[:6], observations[0], *rows[6:], *observations[1:], wrong]


def run(results: Results, peers: Sequence[object], openers: Openers = OPENERS) -> None:
    with served_pages() as pages, ExitStack() as stack:
        measure_starts(results, openers, pages)
        browsers: list[Browser] = []
        for (name, variant), opener in openers.items():
            is_wanted = variant == PLAIN or results.size.slow_rounds
            if is_wanted and not results.reason(name, variant):
                with results.excusing(name, variant):
                    browsers.append(stack.enter_context(opener()))
        measure_rounds(results, browsers, pages)


def _check(results: Results, browser: Browser, series: str, step: Step, page: Page) -> None:
    name = f"{browser.variant}.{series}"
    if step.is_right(page):
        results.take(browser.name, name, Outcome([page.milliseconds]))
        results.add(browser.name, f"{name}_kB", page.size / 1000)
    else:
        shown = f"{step.actions}: {page.url} {page.error or page.text[-300:]} ({page.pictures} pictures)"
        results.take(browser.name, name, Outcome(wrong=1, example=shown))


def measure_starts(results: Results, openers: Openers, pages: str) -> None:
    """Open each several times, in turns, one alone at a time; the last time its memory is measured."""
    size = results.size
    for left in reversed(range(size.starts)):
        for (name, variant), opener in openers.items():
            is_enough = variant == AS_OPENHANDS and left >= size.slow_starts
            if is_enough or results.reason(name, variant):
                continue
            with results.excusing(name, variant), opener() as browser:
                first = steps(pages)[0]
                page = browser.step(first.actions)
                seconds = time.perf_counter() - browser.began
                if not first.is_right(page):
                    raise Failed(f"wrong first page: {page.url} {page.error or page.text[-200:]}")
                results.add(name, f"{variant}.start", seconds)
                if left == 0:
                    _measure_memory(results, browser, pages)


def _measure_memory(results: Results, browser: Browser, pages: str) -> None:
    cycle = steps(pages)
    for number in range(1, results.size.steps):  # the first was the start
        step = cycle[number % len(cycle)]
        _check(results, browser, "before", step, browser.step(step.actions))
    time.sleep(results.size.settle)
    processes = browser.processes()
    results.add(browser.name, f"{browser.variant}.pss", pss(processes))
    results.add(browser.name, f"{browser.variant}.processes", len(processes))


def measure_rounds(results: Results, browsers: Sequence[Browser], pages: str) -> None:
    """Let each do the same steps, round after round, then observe a page of many elements."""
    size = results.size
    for browser in browsers:
        with results.excusing(browser.name, browser.variant):  # a box starts its browser with the first step
            browser.step(steps(pages)[0].actions)
            browser.observe()
    for turn in range(size.rounds):
        for browser in browsers:
            is_enough = browser.variant == AS_OPENHANDS and turn >= size.slow_rounds
            if not is_enough and not results.reason(browser.name, browser.variant):
                with results.excusing(browser.name, browser.variant):
                    _round(results, browser, pages)
    # With its pauses BrowserGym looks as it does without them, but takes half a minute to get there.
    for browser in browsers:
        is_wanted = browser.variant == PLAIN and size.large_observations
        if is_wanted and not results.reason(browser.name, browser.variant):
            with results.excusing(browser.name, browser.variant):
                step = large_step(pages)
                _check(results, browser, step.name, step, browser.step(step.actions))
                for _ in range(size.large_observations):
                    _check(results, browser, "large", step, browser.observe())


def _round(results: Results, browser: Browser, pages: str) -> None:
    for step in steps(pages):
        _check(results, browser, step.name, step, browser.step(step.actions))
        if step.name == "noop":
            for _ in range(results.size.observations):
                _check(results, browser, "small", step, browser.observe())


def aims(results: Results) -> list[Aim]:
    ours, theirs = (results.figure("plain.pss:median", name) or 0 for name in (OWN, GYM))
    small = [results.figure("plain.small:median", name) for name in (GYM, OWN)]
    text, is_known = f"memory after {results.size.steps} steps: not more than BrowserGym's", ours and theirs
    shown = f"{ours:.0f} MB of {theirs:.0f} MB" if is_known else "n/a"
    return [
        Aim(text, shown, ours <= theirs if is_known else None),
        times("observation of a small page, p50: BrowserGym's is", small[0], small[1], 4),
    ]


GROUP = Group(SIZES, measures, run, aims)
