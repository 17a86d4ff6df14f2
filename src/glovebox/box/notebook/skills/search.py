"""Files by name, and lines by what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from glovebox.box.notebook.skills.text_files import (
    Trouble,
    expect_directory,
    expect_file,
    expect_text,
    printable,
    telling,
    text_lines,
)
from glovebox.box.notebook.skills.window import OPEN

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
