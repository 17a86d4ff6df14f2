"""The browser: first page, memory, steps and observations, beside BrowserGym."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import OWN, Group, Measure, Stage, choose
from benchmarks.peers.browsergym import Page
from benchmarks.peers.browsers import Browser, Gym, opened_browser
from benchmarks.processes import Wrong, pss

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
_START_ROWS = """
s ↓ | first request to the first page's answer ({runs}) | start:median
MB ↓ | memory after {steps} steps, all processes (PSS) | pss:median | ≤ 1 × BrowserGym
 | processes after {steps} steps | processes:median
"""
_STEP_ROW = "ms ↓ | a step, {}, p50 | :median"
_SMALL_ROW = "ms ↓ | observation of a small page, p50 | :median | ≤ 0.25 × BrowserGym"
_LARGE_ROW = "ms ↓ | observation of a page of {} elements, p50 | :median"
_LABELS = {
    "goto": "`goto`",
    "noop": "`noop(0)`",
    "fill": "`fill`",
    "click": "`click` on a link to another page",
}


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    rows = _START_ROWS.replace("{steps}", str(n(20, 4)))
    return [
        Stage(nullcontext, [Measure("start", partial(start, n(20, 4)), rows, n(3, 1), seconds=60)]),
        Stage(
            on_pages,
            [
                *(
                    Measure(name, partial(one_step, name), _STEP_ROW.format(label), n(5, 1))
                    for name, label in _LABELS.items()
                ),
                Measure("small", observe_small, _SMALL_ROW, n(25, 3)),
                Measure("large", observe_large, _LARGE_ROW.format(LARGE), n(2, 1), seconds=60),
            ],
        ),
    ]


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


def checked(step: Step, page: Page) -> float:
    if not step.is_right(page):
        shown = f"{step.actions}: {page.url} {page.error or page.text[-300:]} ({page.pictures} pictures)"
        raise Wrong(shown)
    return page.milliseconds


def start(count: int, peer: Any, turn: int) -> dict[str, float]:
    """One alone at a time; memory after some steps, and seconds in which background work ends."""
    with served_pages() as pages, opened_browser(peer) as browser:
        cycle = steps(pages)
        checked(cycle[0], browser.step(cycle[0].actions))
        seconds = time.perf_counter() - browser.began
        for number in range(1, count):
            step = cycle[number % len(cycle)]
            checked(step, browser.step(step.actions))
        time.sleep(2.0)
        processes = browser.processes()
        return {"start": seconds, "pss": pss(processes), "processes": len(processes)}


#: A browser, and where the pages are.
Subject = tuple[Browser, str]


@contextmanager
def on_pages(peer: Any) -> Iterator[Subject]:
    with served_pages() as pages, opened_browser(peer) as browser:
        browser.step(steps(pages)[0].actions)  # a box starts its browser with the first step
        browser.observe()
        yield browser, pages


def one_step(name: str, subject: Subject, turn: int) -> float:
    """The step, after those that lead to where it can be done."""
    browser, pages = subject
    for step in steps(pages):
        page = browser.step(step.actions)
        if step.name == name:
            return checked(step, page)
    raise AssertionError(name)


def observe_small(subject: Subject, turn: int) -> float:
    browser, pages = subject
    first, still = steps(pages)[:2]
    if turn % 5 == 0:
        browser.step(first.actions)
    return checked(still, browser.observe())


def observe_large(subject: Subject, turn: int) -> float:
    browser, pages = subject
    step = large_step(pages)
    if turn == 0:
        checked(step, browser.step(step.actions))
    return checked(step, browser.observe())


GROUP = Group("browser", (OWN, Gym.name), stages)
