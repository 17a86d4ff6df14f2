"""Answers, taken down as they come."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.browser.seen import Seen
from benchmarks.browser.steps import Step
from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.load import LoadError
from benchmarks.report import Cell

#: Why there is no figure of what a quick run leaves out.
NOT_ASKED = "not in this run"


@dataclass
class Answers:
    """All answers of one browser to one kind of step."""

    milliseconds: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    wrong: int = 0

    @property
    def asked(self) -> int:
        """How many there were."""
        return len(self.milliseconds) + self.wrong


class Tally:
    """The answers of all browsers, and of those that fell out, why."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._answers: dict[tuple[str, str], Answers] = {}
        self.reasons: dict[str, str] = {}

    @contextmanager
    def excusing(self, browser: str) -> Iterator[None]:
        """Another browser than this box's may fall out; the reason is kept.

        Raises:
            Unavailable, LoadError: the box's own is not there, or does not answer.
        """
        try:
            yield
        except (Unavailable, LoadError) as problem:
            if browser == Glovebox.name:
                raise
            self.reasons[browser] = str(problem)
            self._say(f"browser: {browser} falls out: {problem}")

    def take(self, browser: str, step: Step, seen: Seen, measure: str) -> None:
        """Take down an answer; only the time of a right one counts."""
        answers = self._answers.setdefault((browser, measure), Answers())
        if step.is_right(seen):
            answers.milliseconds.append(seen.milliseconds)
            answers.sizes.append(seen.size / 1000)
            return
        answers.wrong += 1
        shown = f"{seen.url} {seen.error or seen.text[-300:]} ({seen.pictures} pictures)"
        self._say(f"browser: wrong answer of {browser} to {step.actions}: {shown}")

    def time(self, browser: str, measure: str) -> Cell:
        """The median time."""
        answers = self._of(browser, measure)
        return self._median(browser, answers, answers.milliseconds)

    def shown(self, browser: str, measure: str) -> str:
        """The median time for whoever watches."""
        values = self.time(browser, measure).values
        return f"{values[0]:.0f} ms" if values else "no right answer"

    def size(self, browser: str, measure: str) -> Cell:
        """The median size of an answer, in kilobytes."""
        answers = self._of(browser, measure)
        return self._median(browser, answers, answers.sizes)

    def wrong(self, *browsers: str) -> Cell:
        """How many answers of these were wrong, or missing because a browser fell out."""
        all_ = [answers for (browser, _), answers in self._answers.items() if browser in browsers]
        missing = sum(browser in self.reasons for browser in browsers)
        asked = sum(answers.asked for answers in all_) + missing
        if asked == missing:  # it never answered
            return Cell(reason=self.reasons.get(browsers[0], NOT_ASKED))
        return Cell((sum(answers.wrong for answers in all_) + missing,), samples=asked, out_of=asked)

    def _of(self, browser: str, measure: str) -> Answers:
        return self._answers.get((browser, measure), Answers())

    def _median(self, browser: str, answers: Answers, values: Sequence[float]) -> Cell:
        if not values:
            reason = "no right answer" if answers.wrong else NOT_ASKED
            return Cell(reason=self.reasons.get(browser, reason))
        return Cell((statistics.median(values),), samples=len(values))
