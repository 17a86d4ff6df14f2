"""What is done on the pages, and what has to be seen then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import psutil

from benchmarks.browser.pages import LARGE
from benchmarks.browser.seen import Seen


@dataclass(frozen=True)
class Step:
    """One string of actions."""

    name: str
    actions: str
    #: Where that leads.
    url: str
    #: What the page has then, and has not if the step was not done.
    shows: str

    def is_right(self, seen: Seen) -> bool:
        """Tell whether the step was done, and all that belongs to its answer is there."""
        is_done = seen.url == self.url and self.shows in seen.text
        return is_done and not seen.error and seen.pictures == 2


class Browser(Protocol):
    """Something that carries out steps, and can look at the page without one."""

    @property
    def name(self) -> str:
        """What it is called where its answers are counted."""

    def step(self, actions: str) -> Seen:
        """Carry out a string of actions.

        Raises:
            LoadError: there is no answer.
        """

    def observe(self) -> Seen:
        """Look at the page.

        Raises:
            LoadError: there is no answer.
        """

    def processes(self) -> set[psutil.Process]:
        """All that belongs to it."""


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


def large(pages: str) -> Step:
    """To the page of many elements."""
    url = f"{pages}/large.html"
    return Step("large", f'goto("{url}")', url, f"link 'Entry {(LARGE - 5) // 5}'")
