"""The open file, and the part of it that is shown."""

from __future__ import annotations

import os
from itertools import islice

from glovebox.box.notebook.skills.text_files import Trouble, expect_file, telling, text_lines

#: How many lines are shown, and how far scrolling goes.
SIZE = 100


class OpenFile:
    """Which file is open in this process, and at what line."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.line = 1

    def expect(self) -> str:
        """The path, if the file is still there."""
        if self.path is None or not os.path.isfile(self.path):
            raise Trouble("No file open. Use the open_file function first.")
        return self.path


OPEN = OpenFile()


@telling
def open_file(path: object, line_number: object, context_lines: object) -> None:
    """Open a file and show it."""
    path = os.path.abspath(expect_file(path))
    total = _total(path)
    # The file is open even if the line turns out to be wrong: goto_line can then put that right.
    OPEN.path, OPEN.line = path, 1
    if not isinstance(line_number, int) or not 1 <= line_number <= total:
        raise Trouble(f"Line number must be between 1 and {total}")
    if context_lines is None:
        context_lines = SIZE
    if not isinstance(context_lines, int):
        raise Trouble(f"context_lines must be a whole number, not {context_lines!r}.")
    OPEN.line = line_number
    size = min(context_lines, SIZE) if context_lines >= 1 else SIZE
    last = _show(path, total, line_number, size)
    if last < total:
        print(f"[Use `scroll_down` to view the next {SIZE} lines of the file!]")


@telling
def goto_line(line_number: object) -> None:
    """Show another part of the open file."""
    path = OPEN.expect()
    total = _total(path)
    if not isinstance(line_number, int) or not 1 <= line_number <= total:
        raise Trouble(f"Line number must be between 1 and {total}.")
    OPEN.line = line_number
    _show(path, total, line_number)


@telling
def scroll_down() -> None:
    """Show what comes after."""
    _scroll(SIZE)


@telling
def scroll_up() -> None:
    """Show what comes before."""
    _scroll(-SIZE)


def bounds(line: int, total: int, size: int) -> tuple[int, int]:
    """The first and the last line of a window with `line` in its middle.

    Away from the ends of the file an even size gets one line more, so that there are as many above as below.
    """
    half = max(1, size // 2)
    if line - half <= 1:
        return 1, min(size, total)
    if line + half >= total:
        return max(1, total - size + 1), total
    return line - half, line + half


def _scroll(lines: int) -> None:
    path = OPEN.expect()
    total = _total(path)
    OPEN.line = max(1, min(OPEN.line + lines, total))
    # Scrolling has the current line at the top of the window, not in its middle.
    _show(path, total, OPEN.line + SIZE // 2)


def _total(path: str) -> int:
    """How many lines a file has; one, though it is empty, if there is nothing in it."""
    return max(1, sum(1 for _ in text_lines(path)))


def _show(path: str, total: int, line: int, size: int = SIZE) -> int:
    """Print a window, and return its last line."""
    first, last = bounds(line, total, size)
    shown = [f"[File: {path} ({total} lines total)]"]
    shown.append("(this is the beginning of the file)" if first == 1 else f"({first - 1} more lines above)")
    lines = list(islice(text_lines(path), first - 1, last)) or [""]
    shown += [f"{number}|{text.removesuffix(chr(10))}" for number, text in enumerate(lines, first)]
    shown.append("(this is the end of the file)" if last == total else f"({total - last} more lines below)")
    print("\n".join(shown))
    return last
