"""What came of all conversations, and who fell out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.load import LoadError, Outcome, quantile
from benchmarks.report import Cell

_NOT_ASKED = "not asked"


class Tally:
    """The answers of all servers, and of those that fell out, why."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        self.reasons: dict[str, str] = {}

    @contextmanager
    def excusing(self, server: str) -> Iterator[None]:
        """Another server than this box may fall out; the reason is kept.

        Raises:
            Unavailable, LoadError: the box itself is not there, or does not answer.
        """
        try:
            yield
        except (Unavailable, LoadError) as problem:
            if server == Glovebox.name:
                raise
            self.reasons[server] = str(problem)
            self._say(f"mcp: {server} falls out: {problem}")

    def take(self, server: str, measure: str, outcome: Outcome) -> None:
        """Take down a round."""
        self._outcomes.setdefault((server, measure), Outcome()).add(outcome)
        if outcome.example:
            self._say(f"mcp, {measure}: {server} answered {outcome.example}")

    def spread(self, server: str, measure: str) -> Cell:
        """The time of right answers, p50 and p95 in milliseconds."""
        outcome = self._of(server, measure)
        if not outcome.right:
            return self._nothing(server, outcome)
        both = quantile(outcome.latencies, 0.5), quantile(outcome.latencies, 0.95)
        return Cell(both, samples=outcome.right)

    def rate(self, server: str, measure: str) -> Cell:
        """Right answers per second."""
        outcome = self._of(server, measure)
        if not outcome.right:
            return self._nothing(server, outcome)
        return Cell((outcome.per_second,), samples=outcome.right)

    def wrong(self, server: str) -> Cell:
        """How many answers were wrong, or missing because the server fell out."""
        all_ = [outcome for (name, _), outcome in self._outcomes.items() if name == server]
        missing = int(server in self.reasons)
        asked = sum(outcome.asked for outcome in all_) + missing
        if asked == missing:  # it never answered
            return Cell(reason=self.reasons.get(server, _NOT_ASKED))
        bad = sum(outcome.asked - outcome.right for outcome in all_) + missing
        return Cell((bad,), samples=asked, out_of=asked)

    def _of(self, server: str, measure: str) -> Outcome:
        return self._outcomes.get((server, measure), Outcome())

    def _nothing(self, server: str, outcome: Outcome) -> Cell:
        reason = "no right answer" if outcome.asked else _NOT_ASKED
        return Cell(reason=self.reasons.get(server, reason))
