"""Output of commands: progress on standard error, tables and JSON on standard output."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glovebox.client.backend import Level, RuntimeStatus

_CLEAR = "\r\x1b[K"
#: Seconds between two updates of the progress line.
_PAUSE = 0.08
_BAR = 24
_FEW = 1000


class Progress:
    """Progress as one changing line on a terminal, else one line per step. A `ProgressReport`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._moving = sys.stderr.isatty()
        self._shown = False
        self._step = ""
        self._next = 0.0

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None:
        if level == "warning":
            self.clear()
            say(message or status.value)
        elif self._quiet or level == "error":  # an error is raised as well, and printed then
            return
        elif self._moving:
            self._show(message or _words(status))
        elif message and message != self._step and status.value == "STATUS$BUILDING_RUNTIME":
            self._step = message
            say(message)

    def progress(self, step: str, done: int, total: int | None) -> None:
        if self._quiet:
            return
        if not self._moving:
            if step != self._step:
                say(step)
        elif step != self._step or done == total or time.monotonic() >= self._next:
            self._show(_bar(step, done, total))
        self._step = step

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            print(_CLEAR, end="", file=sys.stderr, flush=True)

    def _show(self, text: str) -> None:
        self._shown = True
        self._next = time.monotonic() + _PAUSE
        width = max(20, shutil.get_terminal_size().columns - 1)
        print(f"{_CLEAR}{' '.join(text.split())[:width]}", end="", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """A line for a person."""
    print(f"glovebox: {text}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One JSON document on a line of its own."""
    import msgspec

    print(msgspec.json.encode(value).decode(), flush=True)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, elastic: str) -> None:
    """Columns as wide as what is in them; on a terminal, the elastic one is shortened to what is left."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    place = head.index(elastic)
    if sys.stdout.isatty():
        others = sum(width + 2 for width in widths) - widths[place] - 2
        widths[place] = min(widths[place], max(8, shutil.get_terminal_size().columns - others))
    for row in (head, *rows):
        cells = [*row]
        cells[place] = _shortened(cells[place], widths[place])
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def _shortened(text: str, width: int) -> str:
    """A path keeps its end, anything else its beginning."""
    if len(text) <= width:
        return text
    is_path = text.startswith("/") and " " not in text
    return f"…{text[1 - width :]}" if is_path else f"{text[: width - 1]}…"


def age(seconds: float) -> str:
    """A time span in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def size(count: float) -> str:
    """A number of bytes in a unit that fits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _bar(step: str, done: int, total: int | None) -> str:
    if not total:
        return f"{step}: {size(done)}" if done else step
    share = min(1.0, done / total)
    filled = int(share * _BAR)
    # So few can only be the steps of a build, not bytes.
    how_much = f"{done}/{total}" if total < _FEW else f"{share:4.0%} of {size(total)}"
    return f"{step} [{'#' * filled}{'.' * (_BAR - filled)}] {how_much}"


def _words(status: RuntimeStatus) -> str:
    return status.value.removeprefix("STATUS$").replace("_", " ").capitalize()
