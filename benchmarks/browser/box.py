"""The browser of a box, asked over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.browser.chromium import chromium
from benchmarks.browser.seen import PICTURE, Seen
from benchmarks.competitors import Glovebox
from benchmarks.dialects import http, parsed
from benchmarks.load import LoadError, exchange
from benchmarks.openhands import OpenHands
from benchmarks.servers import Target
from benchmarks.terminal.box import fresh_box

_LIMIT = 150.0
#: BrowserGym shows all of a page, so the box has to.
_WHOLE_TREE = "browser.tree_limit=10000000"


class BoxBrowser:
    """What a client of the box sees of its browser."""

    name = Glovebox.name

    def __init__(self, target: Target) -> None:
        self._target = target
        self.began = time.perf_counter()

    def step(self, actions: str) -> Seen:
        """Carry out a string of actions.

        Raises:
            LoadError: there is no answer, or not a page.
        """
        action = {"action": "browse_interactive", "args": {"browser_actions": actions}}
        body = json.dumps({"action": action}).encode()
        site = self._target.site
        raw = http(site, "POST", "/execute_action", OpenHands.key_header, body)
        began = time.perf_counter()
        try:
            status, answer = exchange(site.address, raw, _LIMIT)
        except OSError as error:
            raise LoadError(f"no answer to {actions}: {error}") from error
        return seen_in(status, answer, 1000 * (time.perf_counter() - began))

    def observe(self) -> Seen:
        """Look at the page: there is no shorter way than a step that does nothing.

        Raises:
            LoadError: there is no answer, or not a page.
        """
        return self.step("noop(0)")

    def processes(self) -> set[psutil.Process]:
        """The server, the holder and its shell, the process that drives the browser, Chromium."""
        return self._target.processes()


def seen_in(status: int, body: bytes, milliseconds: float) -> Seen:
    """The page that an answer shows.

    Raises:
        LoadError: it shows none.
    """
    answer = parsed(body)
    try:
        extras = answer["extras"]
        return Seen(
            milliseconds=milliseconds,
            url=extras["url"],
            text=answer["content"],
            error=extras["last_browser_action_error"],
            pictures=sum(extras[name].startswith(PICTURE) for name in ("screenshot", "set_of_marks")),
            size=len(body),
        )
    except (KeyError, TypeError, AttributeError) as error:
        text = body[:200].decode(errors="replace")
        raise LoadError(f"no page: HTTP {status} {text}") from error


@contextmanager
def open_box() -> Iterator[BoxBrowser]:
    """The browser of a box that serves and has its shell; Chromium starts with the first step.

    Raises:
        Unavailable: there is no Chromium, or the box does not start.
    """
    flags = ("--enable-browser", "--chromium", chromium(), "--plugin-options", _WHOLE_TREE)
    with fresh_box(*flags) as box:
        yield BoxBrowser(box.target)
