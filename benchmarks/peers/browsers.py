"""Browsers that are compared: that of a box, asked over HTTP, and BrowserGym."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.connection import parsed
from benchmarks.harness import OWN
from benchmarks.peers.browsergym import PICTURE, Page, serve
from benchmarks.peers.openhands import Box, fresh_box
from benchmarks.processes import Failed, Unavailable, end
from glovebox.box.browser.chromium import find_chromium
from glovebox.errors import BrowserError

_LIMIT = 150.0
_FORK = get_context("fork")
#: BrowserGym shows all of a page, so the box has to.
_WHOLE_TREE = "browser.tree_limit=10000000"


def chromium() -> str:
    try:
        found = find_chromium(os.environ.get("GLOVEBOX_CHROMIUM", ""), os.environ.get("PATH", os.defpath))
    except BrowserError as error:
        raise Unavailable(str(error)) from error
    if not found:
        raise Unavailable("no Chromium on the path")
    return found


class BoxBrowser:
    """The browser of a box."""

    def __init__(self, box: Box) -> None:
        self._box = box
        #: When its start begins: the first request, for BrowserGym the process.
        self.began = time.perf_counter()

    def processes(self) -> set[psutil.Process]:
        return self._box.processes()

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
        return Page(milliseconds, extras["url"], answer["content"], error, pictures)
    except (KeyError, TypeError, AttributeError) as error:
        raise Failed(f"no page: HTTP {status} {body[:200].decode(errors='replace')}") from error


class GymBrowser:
    """BrowserGym in a process of its own."""

    def __init__(self, program: str, downloads: str) -> None:
        self.began = time.perf_counter()
        self._pipe, there = _FORK.Pipe()
        self._child = _FORK.Process(target=serve, args=(there, program, downloads))
        self._child.start()
        there.close()
        self._receive("did not start: ")

    def processes(self) -> set[psutil.Process]:
        process = psutil.Process(self._child.pid)
        return {process, *process.children(recursive=True)}

    def step(self, actions: str) -> Page:
        self._pipe.send(actions)
        page: Page = self._receive()
        return page

    def observe(self) -> Page:
        return self.step("")  # without a step, and so without its wait

    def _receive(self, prefix: str = "") -> Any:
        try:
            if not self._pipe.poll(_LIMIT):
                raise EOFError
            answer = self._pipe.recv()
        except EOFError:
            answer = "no answer"
        if isinstance(answer, str):
            self.close()
            raise Failed(prefix + answer)
        return answer

    def close(self) -> None:
        left = self.processes() if self._child.is_alive() else set()
        with suppress(OSError):  # it has ended
            self._pipe.send(None)
        self._child.join(20)
        end(left)
        self._child.join()


class Gym:
    """The library that OpenHands drives its browser with."""

    name = "BrowserGym"

    def install(self) -> None:
        """Raises Unavailable if it is not installed, or there is no Chromium."""
        self.version()

    def version(self) -> str:
        try:
            versions = [metadata.version(name) for name in ("browsergym-core", "playwright")]
        except metadata.PackageNotFoundError as error:
            raise Unavailable(f"{error.name} is not installed") from error
        shown = subprocess.run([chromium(), "--version"], capture_output=True, text=True).stdout.strip()
        return f"BrowserGym {versions[0]}, Playwright {versions[1]}, {shown}"


Browser = BoxBrowser | GymBrowser


@contextmanager
def opened_browser(peer: Any, program: str = "") -> Iterator[Browser]:
    """Ready for its first step; the Chromium of a box starts with that."""
    if peer.name == OWN:
        flags = ("--enable-browser", "--chromium", program or chromium(), "--plugin-options", _WHOLE_TREE)
        with fresh_box(*flags) as box:
            yield BoxBrowser(box)
    else:
        with TemporaryDirectory(prefix="glovebox-bench-") as downloads:
            gym = GymBrowser(program or chromium(), downloads)
            try:
                yield gym
            finally:
                gym.close()
