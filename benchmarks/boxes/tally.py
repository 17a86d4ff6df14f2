"""What the clients came to, taken down as it comes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.boxes.peer import PROCESS
from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.load import LoadError
from benchmarks.report import Cell
from benchmarks.terminal.findings import Findings

NOT_OFFERED = "not offered"
NOT_ASKED = "not in this run"


@dataclass
class BoxFindings(Findings):
    """Rows, aims, and remarks for above the table."""

    notes: list[str] = field(default_factory=list)


class Tally:
    """Why something could not be measured, by client and kind of box."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._reasons: dict[tuple[str, str], str] = {}

    def excuse(self, client: str, kind: str, reason: str) -> None:
        """Keep a reason, the first one."""
        self._reasons.setdefault((client, kind), reason)

    def reason(self, client: str, kind: str) -> str:
        """Why there is nothing of it; empty if nothing is known against it."""
        return self._reasons.get((client, kind), "")

    @contextmanager
    def excusing(self, client: str, kind: str) -> Iterator[None]:
        """Anything may fall out but the box of this project in its simplest form.

        Raises:
            Unavailable, LoadError: that one does not answer.
        """
        try:
            yield
        except (Unavailable, LoadError) as problem:
            if (client, kind) == (Glovebox.name, PROCESS):
                raise
            self.excuse(client, kind, str(problem))
            self.say(f"boxes, {kind}: without {client}: {problem}")

    def median(self, client: str, kind: str, values: Sequence[float]) -> Cell:
        """The median of some measurements, or the reason why there are none."""
        if not values:
            return Cell(reason=self.reason(client, kind) or NOT_ASKED)
        return Cell((statistics.median(values),), samples=len(values))
