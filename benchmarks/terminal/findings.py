"""What a measure of the terminal brings: rows, and what became of its aims."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.report import Aim, Row


@dataclass
class Findings:
    """Rows of the table, and aims."""

    rows: list[Row] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Take those of another measure."""
        self.rows += other.rows
        self.aims += other.aims


def below(text: str, value: float | None, limit: float, unit: str) -> Aim:
    """A figure that is to be below a limit."""
    reached = None if value is None else value < limit
    return Aim(f"{text} < {limit:.3g} {unit}", _shown(value, unit), reached)


def at_least(text: str, value: float | None, limit: float, unit: str) -> Aim:
    """A figure that is to reach a limit."""
    reached = None if value is None else value >= limit
    return Aim(f"{text} ≥ {limit:.3g} {unit}", _shown(value, unit), reached)


def of(text: str, theirs: float | None, ours: float | None, factor: float) -> Aim:
    """A figure of another server that is to be so many times this box's."""
    ratio = theirs / ours if theirs is not None and ours else None
    return at_least(text, ratio, factor, "times this box's")


def _shown(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.3g} {unit}" if abs(value) < 1000 else f"{value:.0f} {unit}"
