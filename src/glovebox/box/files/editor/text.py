"""The changes that the editor makes to text, and the texts that it answers with. No I/O.

All text is shown text (see `glovebox.box.files.disk.lines`): every line ends with LF.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from glovebox.box.files.disk.lines import count, line_start
from glovebox.box.files.editor.messages import (
    CLIP_AT,
    CONVERTED_NOTICE,
    DIRECTORY_NOTICE,
    OTHER_NOTICE,
    TEXT_NOTICE,
    EditorError,
    invalid,
)
from glovebox.box.files.machine import Tree, TreeEntry

#: How many lines around a change are shown.
CONTEXT = 4


def clip(text: str, notice: str) -> str:
    """The text, or its beginning and the notice that this is not all."""
    return text if len(text) <= CLIP_AT else text[:CLIP_AT] + notice


def numbered(text: str, first: int = 1) -> str:
    """The lines with their numbers, cut if there are too many; after a last line end comes an empty line."""
    lines = clip(text, TEXT_NOTICE).split("\n")
    return "\n".join([f"{number:6}\t{line}" for number, line in enumerate(lines, first)])


def listing(text: str, what: str, first: int = 1) -> str:
    """Numbered lines under a heading that says what they are."""
    return f"Here's the result of running `cat -n` on {what}:\n{numbered(text, first)}\n"


def converted(path: str, markdown: str) -> str:
    """A document that was turned into Markdown, under its heading."""
    shown = clip(markdown, CONVERTED_NOTICE)
    return f"Here's the content of the file {path} displayed in Markdown format:\n{shown}\n"


def directory(path: str, tree: Tree) -> str:
    """The tree of a directory under its heading.

    Raises:
        EditorError: a part of it could not be looked at.
    """
    if tree.problems:
        # The contract: all or nothing, in the words of `find`.
        raise EditorError(clip("".join(f"find: {problem}\n" for problem in tree.problems), OTHER_NOTICE))
    text = (
        f"Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n"
        f"{render(tree.entries)}"
    )
    if tree.hidden:
        text += (
            f"\n\n{tree.hidden} hidden files/directories in this directory are excluded. "
            f"You can use 'ls -la {path}' to see them."
        )
    return text


def render(entries: list[TreeEntry]) -> str:
    """One path per line, directories with a slash; cut when it gets long, not counting the slashes."""
    lines = []
    room = CLIP_AT
    for path, is_directory in entries:
        room -= len(path) + 1
        if room < 0:
            lines.append(path[: len(path) + 1 + room] + DIRECTORY_NOTICE)
            break
        lines.append(f"{path}/" if is_directory and path != "/" else path)
    return "\n".join(lines)


def view(text: str, path: str, view_range: Any = None) -> str:
    """The whole text, or the lines of a range: first and last, from 1, -1 for the end."""
    if not view_range:
        return listing(text, path)
    if (
        not isinstance(view_range, list | tuple)
        or len(view_range) != 2
        or not all(isinstance(number, int) for number in view_range)
    ):
        raise invalid("view_range", view_range, "It should be a list of two integers.")
    total = count(text)
    first, last = view_range
    if not 1 <= first <= total:
        hint = f"Its first element `{first}` should be within the range of lines of the file: [1, {total}]."
        raise invalid("view_range", view_range, hint)
    note = ""
    if last == -1:
        last = total
    elif last > total:
        note = f"NOTE: We only show up to {total} since there're only {total} lines in this file.\n"
        last = total
    if last < first:
        hint = f"Its second element `{last}` should be greater than or equal to the first element `{first}`."
        raise invalid("view_range", view_range, hint)
    return note + listing(excerpt(text, first, last).removesuffix("\n"), path, first)


def excerpt(text: str, first: int, last: int) -> str:
    """Lines `first` to `last`, from 1, both included."""
    return text[line_start(text, first - 1) : line_start(text, last)]


class Change(NamedTuple):
    """The part of a text from `start` to `end` becomes `new`; it begins in line `line`."""

    start: int
    end: int
    new: str
    line: int

    def applied(self, text: str) -> str:
        """The text after the change."""
        return text[: self.start] + self.new + text[self.end :]


def replacement(text: str, old: str, new: str, path: str) -> Change:
    """The change that puts `new` in the place of `old`, which must be there exactly once.

    If it is not there at all, both are tried without the white space around them.
    """
    places = list(islice(_places(text, old), 2))
    if not places:
        old, new = old.strip(), new.strip()
        places = list(islice(_places(text, old), 2))
    if not places:
        raise EditorError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(places) > 1:
        problem = (
            f"No replacement was performed. Multiple occurrences of old_str `{old}` "
            f"in lines {_line_numbers(text, old)}. Please ensure it is unique."
        )
        raise EditorError(clip(problem, OTHER_NOTICE))
    start = places[0]
    return Change(start, start + len(old), new, text.count("\n", 0, start) + 1)


def insertion(text: str, line: int, new: str) -> Change:
    """The change that puts `new`, as lines of its own, after line `line`."""
    total = count(text)
    if not 0 <= line <= total:
        raise invalid("insert_line", line, f"It should be within the range of allowed values: [0, {total}]")
    at = line_start(text, line)
    return Change(at, at, new + "\n", line)


def replaced_text(text: str, change: Change, path: str) -> str:
    """The answer to a replacement; `text` is the new text."""
    return (
        f"The file {path} has been edited. {_snippet(text, change, f'a snippet of {path}')}"
        "Review the changes and make sure they are as expected. Edit the file again if necessary."
    )


def inserted_text(text: str, change: Change, path: str) -> str:
    """The answer to an insertion; `text` is the new text."""
    return (
        f"The file {path} has been edited. {_snippet(text, change, 'a snippet of the edited file')}"
        "Review the changes and make sure they are as expected (correct indentation, no duplicate lines, "
        "etc). Edit the file again if necessary."
    )


def _snippet(text: str, change: Change, what: str) -> str:
    first = max(1, change.line - CONTEXT + 1)
    return listing(excerpt(text, first, change.line + CONTEXT + change.new.count("\n")), what, first)


def undone_text(text: str, path: str) -> str:
    """The answer to an undo; `text` is the restored text."""
    return f"Last edit to {path} undone successfully. {listing(text, path)}"


def _places(text: str, wanted: str) -> Iterator[int]:
    """Where `wanted` begins, without overlaps; nothing is everywhere."""
    if not wanted:
        yield from range(len(text) + 1)
        return
    at = text.find(wanted)
    while at != -1:
        yield at
        at = text.find(wanted, at + len(wanted))


def _line_numbers(text: str, wanted: str) -> list[int]:
    """The lines that `wanted` begins in; no more of them than are ever shown."""
    numbers: list[int] = []
    line, counted = 1, 0
    for place in _places(text, wanted):
        line += text.count("\n", counted, place)
        counted = place
        if not numbers or numbers[-1] != line:
            numbers.append(line)
            if len(numbers) > CLIP_AT:
                break
    return numbers
