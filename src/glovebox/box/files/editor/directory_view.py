"""The editor's view of a directory: two levels, without hidden entries."""

from __future__ import annotations

import os
from typing import NamedTuple

from glovebox.box.files.editor.messages import CLIP_AT, DIRECTORY_NOTICE, OTHER_NOTICE, EditorError
from glovebox.box.files.editor.text import clip

#: How many levels below the directory are shown.
DEPTH = 2
#: More entries than this are never shown: each takes some characters.
_MOST = CLIP_AT


class TreeEntry(NamedTuple):
    """A path in the tree, and whether it is (or leads to) a directory."""

    path: str
    directory: bool


class Tree(NamedTuple):
    """What is below a directory: entries, how many hidden ones it has itself, and what went wrong."""

    entries: list[TreeEntry]
    hidden: int
    problems: list[str]


def view_directory(path: str) -> str:
    """The directory's tree as text.

    Raises:
        EditorError: a part of it could not be looked at.
    """
    tree = walk(path)
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
    for path, directory in entries:
        room -= len(path) + 1
        if room < 0:
            lines.append(path[: len(path) + 1 + room] + DIRECTORY_NOTICE)
            break
        lines.append(f"{path}/" if directory and path != "/" else path)
    return "\n".join(lines)


def walk(root: str) -> Tree:
    """What is below `root` and not hidden, in the order of the paths' bytes; links are followed.

    Of more entries than can be shown, the first ones.
    """
    entries = [TreeEntry(root, True)]
    problems: list[str] = []
    hidden = _descend((root,), entries, problems)
    entries.sort(key=_order)
    return Tree([TreeEntry(_printable(path), directory) for path, directory in entries], hidden, problems)


def _descend(line: tuple[str, ...], entries: list[TreeEntry], problems: list[str]) -> int:
    """Add what is in the last directory of `line`, which begins at the root; return how much was hidden."""
    directory = line[-1]
    hidden = 0
    try:
        with os.scandir(directory) as scan:
            for child in scan:
                if child.name.startswith("."):
                    hidden += 1
                else:
                    _add(child, line, entries, problems)
                if len(entries) > 2 * _MOST:
                    entries.sort(key=_order)
                    del entries[_MOST:]
    except OSError as error:
        problems.append(_problem(directory, error))
    return hidden


def _add(
    child: os.DirEntry[str], line: tuple[str, ...], entries: list[TreeEntry], problems: list[str]
) -> None:
    path = f"{line[-1].rstrip('/')}/{child.name}"
    try:
        is_directory = child.is_dir()
        ancestor = _ancestor(path, line) if is_directory and child.is_symlink() else None
    except OSError as error:
        problems.append(_problem(path, error))
        return
    entries.append(TreeEntry(path, is_directory))
    if ancestor is not None:
        problems.append(
            f"File system loop detected; ‘{_printable(path)}’ is part of the same file system loop as "
            f"‘{_printable(ancestor)}’."
        )
    elif is_directory and len(line) < DEPTH:
        _descend((*line, path), entries, problems)


def _order(entry: TreeEntry) -> bytes:
    return os.fsencode(entry.path)


def _ancestor(path: str, line: tuple[str, ...]) -> str | None:
    """The directory above that a link leads back to."""
    return next((directory for directory in line if os.path.samefile(directory, path)), None)


def _problem(path: str, error: OSError) -> str:
    return f"‘{_printable(path)}’: {error.strerror}"


def _printable(path: str) -> str:
    """The path as text that any client can take: names need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
