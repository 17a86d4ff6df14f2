"""Browsers that are compared: that of a box, asked over HTTP, and BrowserGym."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path

from benchmarks.connection import parsed
from benchmarks.harness import OWN
from benchmarks.peers.browsergym import PICTURE, Page
from benchmarks.peers.library import Worker
from benchmarks.peers.openhands import Box, fresh_box
from benchmarks.processes import Failed
from glovebox.box.browser.chromium import find_chromium
from glovebox.errors import BrowserError

GYM = "BrowserGym"
#: As kind to it as possible: without pauses and chat.
PLAIN = "plain"
#: With its pauses and its chat.
AS_OPENHANDS = "as_openhands"
_LIMIT = 150.0
#: BrowserGym shows all of a page, so the box has to.
_WHOLE_TREE = "browser.tree_limit=10000000"


def chromium() -> str:
    try:
        found = find_chromium(os.environ.get("GLOVEBOX_CHROMIUM", ""), os.environ.get("PATH", os.defpath))
    except BrowserError as error:
        raise Failed(str(error)) from error
    if not found:
        raise Failed("no Chromium on the path")
    return found


class BoxBrowser:
    """The browser of a box."""

    name, variant = OWN, PLAIN

    def __init__(self, box: Box) -> None:
        self._box, self.processes = box, box.processes
        #: When its start begins: the first request, for BrowserGym the process.
        self.began = time.perf_counter()

    def step(self, actions: str) -> Page:
        action = {"action": "browse_interactive", "args": {"browser_actions": actions}}
        raw = self._box.site.post("/execute_action", {"action": action})
        began = time.perf_counter()
        status, body = self._box.exchange(raw, _LIMIT)
        return page_in(status, body, 1000 * (time.perf_counter() - began))

    def observe(self) -> Page:
        return self.step("noop(0)")  # there is no shorter way


def page_in(status: int, body: bytes, milliseconds: float) -> Page:
    """The page of an answer of the box. Raises Failed if it has none."""
    answer = parsed(body)
    try:
        extras = answer["extras"]
        pictures = sum(extras[name].startswith(PICTURE) for name in ("screenshot", "set_of_marks"))
        error = extras["last_browser_action_error"]
        return Page(milliseconds, extras["url"], answer["content"], error, pictures, len(body))
    except (KeyError, TypeError, AttributeError) as error:
        raise Failed(f"no page: HTTP {status} {body[:200].decode(errors='replace')}") from error


@contextmanager
def open_box() -> Iterator[BoxBrowser]:
    """A box that serves and has its shell; Chromium starts with the first step."""
    flags = ("--enable-browser", "--chromium", chromium(), "--plugin-options", _WHOLE_TREE)
    with fresh_box(*flags) as box:
        yield BoxBrowser(box)


class Gym(Worker):
    """BrowserGym in a process of its own."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        super().__init__(GYM, Path(sys.executable), "benchmarks.peers.browsergym", "Environment")
        self.began = self.started

    def step(self, actions: str) -> Page:
        page = self.ask("step", actions, limit=_LIMIT)
        assert isinstance(page, Page)
        return page

    def observe(self) -> Page:
        return self.step("")  # without a step, and so without its wait


@contextmanager
def open_gym(variant: str, program: str = "") -> Iterator[Gym]:
    """BrowserGym, ready for its first step. Raises Failed if it is not installed or does not start."""
    gym_version()
    with Gym(variant) as gym:
        gym.wait_ready(program or chromium(), str(gym.folder / "downloads"), variant == PLAIN)
        yield gym


def gym_version() -> str:
    """What is measured. Raises Failed if it is not installed, or there is no Chromium."""
    try:
        versions = [metadata.version(name) for name in ("browsergym-core", "playwright")]
    except metadata.PackageNotFoundError as error:
        raise Failed(f"{error.name} is not installed") from error
    shown = subprocess.run([chromium(), "--version"], capture_output=True, text=True).stdout.strip()
    return f"BrowserGym {versions[0]}, Playwright {versions[1]}, {shown}"


Browser = BoxBrowser | Gym
#: How each is opened, in the order of their turns; by its name and variant.
Openers = Mapping[tuple[str, str], Callable[[], AbstractContextManager[Browser]]]
OPENERS: Openers = {
    (OWN, PLAIN): open_box,
    (GYM, PLAIN): partial(open_gym, PLAIN),
    (GYM, AS_OPENHANDS): partial(open_gym, AS_OPENHANDS),
}
