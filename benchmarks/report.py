"""Results and how they are shown: one table a group, and the same as JSON."""

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


@dataclass(frozen=True)
class Target:
    """What a figure should be, whether it is (None: not measured), and its ratio to what is compared."""

    text: str
    reached: bool | None
    ratio: float | None = None

    def __str__(self) -> str:
        word = {True: "reached", False: "missed", None: "not measured"}[self.reached]
        return f"{self.text}: {word}" + (f" ({_number(self.ratio)}×)" if self.ratio is not None else "")


@dataclass
class Row:
    """One measure of every peer."""

    measure: str
    unit: str
    cells: dict[str, Cell] = field(default_factory=dict)
    #: "lower" or "higher"; empty for a plain count without a ratio.
    better: str = "lower"
    target: Target | None = None


@dataclass
class Table:
    """The rows of one group; the first name is the one that others are compared with."""

    title: str
    names: Sequence[str]
    rows: list[Row] = field(default_factory=list)

    def lines(self, footnotes: list[str]) -> list[str]:
        base, others = self.names[0], self.names[1:]
        has_targets = any(row.target for row in self.rows)
        last = ["target"] if has_targets else []
        grid = [[self.title, "unit", *self.names, *(f"{name} ÷ {base}" for name in others), *last]]
        for row in self.rows:
            cells = [_shown(row.cells.get(name, Cell()), footnotes) for name in self.names]
            target = [str(row.target or "")] if has_targets else []
            grid.append(
                [row.measure, _unit(row), *cells, *(_ratio(row, name, base) for name in others), *target]
            )
        return _aligned(grid)


@dataclass
class Report:
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def text(self) -> str:
        """Markdown: notes, tables, long reasons."""
        footnotes: list[str] = []
        tables = [line for table in self.tables for line in ("", *table.lines(footnotes))]
        cells = [cell for table in self.tables for row in table.rows for cell in row.cells.values()]
        limited = [_LIMITED] if any(cell.client_limited for cell in cells) else []
        below = [f"[{number}] {text}" for number, text in enumerate(footnotes, 1)]
        notes = [f"- {note}" for note in (*self.notes, *limited)]
        return "\n".join([*notes, *tables, *(["", *below] if below else [])])

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
        return f"n/a ({cell.reason})" if cell.reason else ""
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
