"""A small terminal emulator: cursor movements, erasures and overwriting."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

#: One escape sequence of any kind.
SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\](?:[^\x07\x1b\n]*)(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
_TOKEN = re.compile(
    rf"(?P<text>[^\x00-\x1f\x7f-\x9f]+)|(?P<sequence>{SEQUENCE.pattern})|(?P<control>.)", re.DOTALL
)
_CSI = re.compile(r"\x1b\[([0-9;]*)([@-~])\Z")
_ALTERNATE_ON = {"\x1b[?1049h", "\x1b[?1047h", "\x1b[?47h"}
_ALTERNATE_OFF = {"\x1b[?1049l", "\x1b[?1047l", "\x1b[?47l"}

#: A cell holds a character with its combining marks; the right half of a wide one holds "".
Line = list[str]


#: How many characters of a screen may be repetitions.
_MOST_REPEATS = 1_000_000


class Screen:
    """Lines without end upwards and to the right, of which the last `rows` can be addressed.

    Lines are not wrapped: a capture joins wrapped lines again.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._rows = rows
        self._columns = columns
        self._lines: list[Line] = [[]]
        self._x = self._y = 0
        self._saved = (0, 0)
        self._main: tuple[list[Line], int, int] | None = None
        self._last = " "
        self._repeats_left = _MOST_REPEATS

    def feed(self, text: str) -> None:
        for match in _TOKEN.finditer(text):
            kind, value = match.lastgroup, match[0]
            if kind == "text":
                self._write(value)
            elif value in _CONTROLS:
                _CONTROLS[value](self)
            elif kind == "sequence":
                self._sequence(value)

    def lines(self) -> list[str]:
        """The text, line by line, without the blanks at line ends."""
        return ["".join(line).rstrip() for line in self._lines]

    @property
    def _top(self) -> int:
        """The first line that can be addressed."""
        return max(0, len(self._lines) - self._rows)

    def _sequence(self, value: str) -> None:
        if value in _ALTERNATE_ON:
            if self._main is None:
                self._main = (self._lines, self._x, self._y)
                self._lines, self._x, self._y = [[]], 0, 0
            return
        if value in _ALTERNATE_OFF:
            if self._main is not None:
                (self._lines, self._x, self._y), self._main = self._main, None
            return
        found = _CSI.match(value)
        if found is None:
            return
        numbers = [int(number[:4] or 0) for number in found[1].split(";")] if found[1] else [0]
        if found[2] == "J":
            self._erase_display(numbers[0])
        elif found[2] == "K":
            self._erase_line(numbers[0])
        elif found[2] in _COMMANDS:
            # A count or position of 0, like one that is left out, is 1.
            _COMMANDS[found[2]](self, [number or 1 for number in [*numbers, 0]])

    def _move(self, x: int, y: int) -> None:
        top = self._top
        self._x = min(max(0, x), max(self._columns - 1, self._x))
        self._y = min(max(top, y), top + self._rows - 1)
        while self._y >= len(self._lines):
            self._lines.append([])

    def _write(self, text: str) -> None:
        line, x = self._lines[self._y], self._x
        if text.isascii():
            cells = list(text)
        else:
            marks, cells = split_cells(text)
            if marks and 0 < x <= len(line):
                line[x - 1] += marks
        end = x + len(cells)
        if x > len(line):
            line.extend(" " * (x - len(line)))
        elif x < len(line):
            if line[x] == "" and x > 0:
                line[x - 1] = " "
            if end < len(line) and line[end] == "":
                line[end] = " "
        line[x:end] = cells
        self._x = end
        self._last = text[-1]

    def _repeat(self, count: int) -> None:
        """Write the last character again; a few bytes must not become megabytes."""
        count = min(count, self._columns, self._repeats_left)
        self._repeats_left -= count
        if count:
            self._write(self._last * count)

    def _carriage_return(self) -> None:
        self._x = 0

    def _next_line(self) -> None:
        self._x = 0
        self._down()

    def _down(self) -> None:
        self._y += 1
        if self._y == len(self._lines):
            self._lines.append([])

    def _reverse(self) -> None:
        if self._y > self._top:
            self._y -= 1
        else:
            self._scroll(-1)

    def _back(self) -> None:
        self._x = max(0, self._x - 1)

    def _tab(self) -> None:
        self._x = (self._x // 8 + 1) * 8

    def _save(self) -> None:
        self._saved = (self._x, self._y - self._top)

    def _restore(self) -> None:
        x, y = self._saved
        self._move(x, self._top + y)

    def _reset(self) -> None:
        self._erase_display(2)
        self._move(0, self._top)

    def _erase_display(self, mode: int) -> None:
        if mode == 0:
            self._erase_line(0)
            del self._lines[self._y + 1 :]
        elif mode == 1:
            self._erase_line(1)
            for row in range(self._top, self._y):
                self._lines[row] = []
        elif mode == 2:
            for row in range(self._top, len(self._lines)):
                self._lines[row] = []
        elif mode == 3:
            top = self._top
            del self._lines[:top]
            self._y -= top

    def _erase_line(self, mode: int) -> None:
        line = self._lines[self._y]
        if mode == 0:
            del line[self._x :]
        elif mode == 1:
            width = min(self._x + 1, len(line))
            line[:width] = " " * width
        elif mode == 2:
            line.clear()

    def _insert_lines(self, numbers: list[int]) -> None:
        count = min(numbers[0], self._rows)
        self._lines[self._y : self._y] = [[] for _ in range(count)]
        del self._lines[self._y + self._rows :]

    def _delete_lines(self, numbers: list[int]) -> None:
        del self._lines[self._y : self._y + numbers[0]]
        while self._y >= len(self._lines):
            self._lines.append([])

    def _scroll(self, count: int) -> None:
        """Move the screen's content up, or down if negative; the cursor stays where it is."""
        top = self._top
        count = max(-self._rows, min(self._rows, count))
        if count > 0:
            del self._lines[top : top + count]
        else:
            self._lines[top:top] = [[] for _ in range(-count)]
            del self._lines[top + self._rows :]
        while self._y >= len(self._lines):
            self._lines.append([])

    def _delete_cells(self, numbers: list[int]) -> None:
        line = self._lines[self._y]
        del line[self._x : self._x + numbers[0]]

    def _insert_cells(self, numbers: list[int]) -> None:
        line = self._lines[self._y]
        if self._x < len(line):
            line[self._x : self._x] = " " * min(numbers[0], self._columns)

    def _blank_cells(self, numbers: list[int]) -> None:
        line = self._lines[self._y]
        end = min(self._x + numbers[0], len(line))
        if end > self._x:
            line[self._x : end] = " " * (end - self._x)


def split_cells(text: str) -> tuple[str, Line]:
    """The marks that belong to the character before `text`, and its cells."""
    marks = ""
    cells: Line = []
    for character in text:
        if character.isascii():
            cells.append(character)
        elif unicodedata.category(character) in ("Mn", "Me", "Cf"):
            if cells:
                cells[-1 if cells[-1] else -2] += character
            else:
                marks += character
        else:
            cells.append(character)
            if unicodedata.east_asian_width(character) in "WF":
                cells.append("")
    return marks, cells


_CONTROLS: dict[str, Callable[[Screen], None]] = {
    "\n": Screen._next_line,
    "\v": Screen._down,
    "\f": Screen._down,
    "\r": Screen._carriage_return,
    "\b": Screen._back,
    "\t": Screen._tab,
    "\x1bD": Screen._down,
    "\x1bE": Screen._next_line,
    "\x1bM": Screen._reverse,
    "\x1b7": Screen._save,
    "\x1b8": Screen._restore,
    "\x1b[s": Screen._save,
    "\x1b[u": Screen._restore,
    "\x1bc": Screen._reset,
}
_COMMANDS: dict[str, Callable[[Screen, list[int]], None]] = {
    "A": lambda screen, n: screen._move(screen._x, screen._y - n[0]),
    "B": lambda screen, n: screen._move(screen._x, screen._y + n[0]),
    "C": lambda screen, n: screen._move(screen._x + n[0], screen._y),
    "D": lambda screen, n: screen._move(screen._x - n[0], screen._y),
    "E": lambda screen, n: screen._move(0, screen._y + n[0]),
    "F": lambda screen, n: screen._move(0, screen._y - n[0]),
    "G": lambda screen, n: screen._move(n[0] - 1, screen._y),
    "`": lambda screen, n: screen._move(n[0] - 1, screen._y),
    "d": lambda screen, n: screen._move(screen._x, screen._top + n[0] - 1),
    "H": lambda screen, n: screen._move(n[1] - 1, screen._top + n[0] - 1),
    "f": lambda screen, n: screen._move(n[1] - 1, screen._top + n[0] - 1),
    "L": Screen._insert_lines,
    "M": Screen._delete_lines,
    "S": lambda screen, n: screen._scroll(n[0]),
    "T": lambda screen, n: screen._scroll(-n[0]),
    "P": Screen._delete_cells,
    "@": Screen._insert_cells,
    "X": Screen._blank_cells,
    "b": lambda screen, n: screen._repeat(n[0]),
}
