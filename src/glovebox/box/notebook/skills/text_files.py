"""Text files: shown in a window, searched, and found by name."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import ParamSpec

Params = ParamSpec("Params")

#: A file with a NUL in this many bytes at its beginning is binary.
_SAMPLE = 8192


class Trouble(Exception):
    """Something cannot be done; the text is for the agent."""


def telling(function: Callable[Params, None]) -> Callable[Params, None]:
    """Print the error of a function instead of a traceback."""

    @functools.wraps(function)
    def printing(*args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Trouble as trouble:
            print(f"ERROR: {trouble}")

    return printing


def expect_file(path: object) -> str:
    """The path of an existing file."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or not os.path.isfile(name):
        raise Trouble(f"File {path} not found.")
    return name


def expect_directory(path: object) -> str:
    """The path of an existing directory."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or not os.path.isdir(name):
        raise Trouble(f"Directory {path} not found")
    return name


def expect_text(value: object, name: str) -> str:
    """An argument that must be text."""
    if not isinstance(value, str):
        raise Trouble(f"{name} must be a string, not {value!r}.")
    return value


def text_lines(path: str) -> Iterator[str]:
    """The lines of a text file, each with its end as LF; bytes that are not UTF-8 show as replacements."""
    try:
        with open(path, "rb") as raw:
            if b"\0" in raw.read(_SAMPLE):
                raise Trouble(f"File {path} is binary and cannot be shown as text.")
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError as error:
        raise Trouble(f"File {path} cannot be read: {error.strerror}.") from None


def printable(path: str) -> str:
    """A path as it can be printed: names are bytes, and need not be UTF-8."""
    return os.fsencode(path).decode(errors="replace")


#: How many lines are shown, and how far scrolling goes.
SIZE = 100


class FileWindow:
    """Which file is open in this process, and at what line."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.line = 1

    def expect(self) -> str:
        """The path, if the file is still there."""
        if self.path is None or not os.path.isfile(self.path):
            raise Trouble("No file open. Use the open_file function first.")
        return self.path


OPEN = FileWindow()


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
    """Show the next window of lines in the open file."""
    _scroll(SIZE)


@telling
def scroll_up() -> None:
    """Show the window of lines before this one in the open file."""
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


#: Matches in more files than this are counted, not shown.
MAX_FILES = 100


@telling
def search_dir(search_term: object, dir_path: object) -> None:
    """Print the lines with a text below a directory."""
    directory = expect_directory(dir_path)
    term = expect_text(search_term, "search_term")
    files = 0
    matches: list[str] = []
    unreadable: list[str] = []
    for path in _files(directory):
        # Pipes and devices would make us wait, and a link may lead nowhere.
        if os.path.basename(path).startswith(".") or not os.path.isfile(path):
            continue
        try:
            found = _matches(path, term)
        except OSError as error:
            unreadable.append(f"{printable(path)}: {error.strerror}")
            continue
        files += bool(found)
        if files <= MAX_FILES:
            matches += found
    if files > MAX_FILES:
        print(f'More than {files} files matched for "{term}" in {directory}. Please narrow your search.')
    elif matches:
        _report(matches, term, directory)
    else:
        print(f'No matches found for "{term}" in {directory}')
    if unreadable:
        print(f"[{len(unreadable)} files could not be read, first {unreadable[0]}]")


@telling
def search_file(search_term: object, file_path: object) -> None:
    """Print the lines with a text in a file."""
    if file_path is None:
        file_path = OPEN.path
    if file_path is None:
        raise Trouble("No file specified or open. Use the open_file function first.")
    path = expect_file(file_path)
    term = expect_text(search_term, "search_term")
    matches = [f"Line {n}: {line.strip()}" for n, line in enumerate(text_lines(path), 1) if term in line]
    _report(matches, term, path)


@telling
def find_file(file_name: object, dir_path: object) -> None:
    """Print the paths of files with a name."""
    directory = expect_directory(dir_path)
    name = expect_text(file_name, "file_name")
    matches = [printable(path) for path in _files(directory) if name in os.path.basename(path)]
    _report(matches, name, directory)


def _report(matches: list[str], term: str, place: str) -> None:
    if not matches:
        print(f'[No matches found for "{term}" in {place}]')
        return
    head = f'[Found {len(matches)} matches for "{term}" in {place}]'
    print("\n".join([head, *matches, f'[End of matches for "{term}" in {place}]']))


def _files(directory: str) -> Iterator[str]:
    """The files below a directory: first its own by name, then those of each directory in it."""
    for root, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            yield os.path.join(root, name)


def _matches(path: str, term: str) -> list[str]:
    shown = printable(path)
    # What is not text is left out, so that a word in a mostly binary file is found as well.
    with open(path, encoding="utf-8", errors="ignore") as file:
        return [f"{shown} (Line {n}): {line.strip()}" for n, line in enumerate(file, 1) if term in line]
