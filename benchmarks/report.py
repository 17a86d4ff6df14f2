"""Results and how they are shown: one table, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

#: A longer reason goes below the table.
_SHORT = 24
_LIMITED = "†: the load generator was busy more than 85 % of the time and may be the limit"


@dataclass(frozen=True)
class Cell:
    """What was measured (one value, or several of the same unit), or the reason why nothing was."""

    values: tuple[float, ...] = ()
    reason: str = ""
    #: How many measurements are behind it.
    samples: int = 0
    #: For a count: out of how many.
    out_of: int | None = None
    #: The load generator was the busier side, so the server may be better than shown.
    client_limited: bool = False


@dataclass
class Row:
    """One measure of every peer."""

    measure: str
    unit: str
    cells: dict[str, Cell] = field(default_factory=dict)
    #: "lower" or "higher"; empty for a plain count without a ratio.
    better: str = "lower"


@dataclass(frozen=True)
class Aim:
    """A goal, the figure of this run, and whether that reaches it; None where it was not measured."""

    text: str
    shown: str
    reached: bool | None


def below(text: str, value: float | None, limit: float, unit: str) -> Aim:
    return Aim(f"{text} < {limit:.3g} {unit}", _figure(value, unit), None if value is None else value < limit)


def at_least(text: str, value: float | None, limit: float, unit: str) -> Aim:
    reached = None if value is None else value >= limit
    return Aim(f"{text} ≥ {limit:.3g} {unit}", _figure(value, unit), reached)


def times(text: str, theirs: float | None, ours: float | None, factor: float) -> Aim:
    ratio = theirs / ours if theirs is not None and ours else None
    return at_least(text, ratio, factor, "times this box's")


def none_wrong(text: str, cell: Cell) -> Aim:
    if not cell.values:
        return Aim(text, "n/a", None)
    return Aim(text, f"{cell.values[0]:.0f} of {cell.out_of}", cell.values[0] == 0)


def _figure(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:{'.3g' if abs(value) < 1000 else '.0f'}} {unit}"


@dataclass
class Report:
    names: Sequence[str]
    notes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)

    def table(self) -> str:
        """The report as a Markdown table, with notes above it, long reasons and the aims below."""
        base, others = self.names[0], self.names[1:]
        footnotes: list[str] = []
        grid = [["measure", "unit", *self.names, *(f"{name} ÷ {base}" for name in others)]]
        for row in self.rows:
            cells = [_shown(row.cells.get(name, Cell()), footnotes) for name in self.names]
            grid.append([row.measure, _unit(row), *cells, *(_ratio(row, name, base) for name in others)])
        is_limited = any(cell.client_limited for row in self.rows for cell in row.cells.values())
        notes = [f"- {note}" for note in (*self.notes, *([_LIMITED] if is_limited else []))]
        below = [f"[{number}] {text}" for number, text in enumerate(footnotes, 1)]
        return "\n".join([*notes, "", *_aligned(grid), *(["", *below] if below else []), *self._aims()])

    def _aims(self) -> list[str]:
        reached = {True: "yes", False: "no", None: "not measured"}
        grid = [[aim.text, aim.shown, reached[aim.reached]] for aim in self.aims]
        return ["", *_aligned([["aim", "this run", "reached"], *grid])] if grid else []

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)


def _aligned(grid: Sequence[Sequence[str]]) -> list[str]:
    """Markdown that can be read as it is: numbers to the right, columns of one width."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = []
    for row in grid:
        left = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
        right = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("| " + " | ".join([*left, *right]) + " |")
    rules = ["-" * (width + 2) for width in widths[:2]] + ["-" * (width + 1) + ":" for width in widths[2:]]
    lines.insert(1, "|" + "|".join(rules) + "|")
    return lines


def _unit(row: Row) -> str:
    return row.unit + {"lower": " ↓", "higher": " ↑"}.get(row.better, "")


def _shown(cell: Cell, footnotes: list[str]) -> str:
    if cell.values:
        text = " / ".join(map(_number, cell.values))
        if cell.out_of is not None:
            text += f" of {cell.out_of}"
        return text + ("†" if cell.client_limited else "")
    if len(cell.reason) <= _SHORT:
        return f"n/a ({cell.reason})" if cell.reason else "n/a"
    if cell.reason not in footnotes:
        footnotes.append(cell.reason)
    return f"n/a [{footnotes.index(cell.reason) + 1}]"


def _number(value: float) -> str:
    """Three significant digits, and no more after the point than they need."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _ratio(row: Row, name: str, base: str) -> str:
    ours, theirs = row.cells.get(base, Cell()).values, row.cells.get(name, Cell()).values
    if not row.better or not ours or not theirs or not all(ours):
        return ""
    ratios = (b / a for a, b in zip(ours, theirs, strict=True))
    return " / ".join(f"{ratio:.2g}×" if 0 < ratio < 0.1 else f"{_number(ratio)}×" for ratio in ratios)
