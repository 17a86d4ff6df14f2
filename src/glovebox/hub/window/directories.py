"""Directories of a window: the editor's view of one, and the names in it."""

from __future__ import annotations

import os
import posixpath

from glovebox.box.files.editor.directory_view import DEPTH, TreeEntry, render
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.window import Entries, List


async def view_directory(hands: Hands, path: str) -> str:
    """The directory's tree as text, without what is hidden.

    Raises:
        Refused: the window says no.
        WindowError: the window cannot be asked.
    """
    entries = [TreeEntry(path, True)]
    hidden = await _descend(hands, path, entries, DEPTH)
    entries.sort(key=lambda entry: os.fsencode(entry.path))
    text = (
        f"Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n"
        f"{render(entries)}"
    )
    if hidden:
        text += (
            f"\n\n{hidden} hidden files/directories in this directory are excluded. "
            f"You can use 'ls -la {path}' to see them."
        )
    return text


async def _descend(hands: Hands, directory: str, entries: list[TreeEntry], depth: int) -> int:
    """Add what is in a directory; return how much was hidden."""
    found = (await hands.do(List(path=directory), Entries)).entries
    for child in found:
        if child.name.startswith("."):
            continue
        path = posixpath.join(directory, child.name)
        entries.append(TreeEntry(path, child.type == "directory"))
        if child.type == "directory" and depth > 1:
            try:
                await _descend(hands, path, entries, depth - 1)
            except OrderRefused:
                continue  # a link that leads out of the workspace, or what may not be read
    return sum(child.name.startswith(".") for child in found)


async def names(hands: Hands, path: str) -> list[str]:
    """Directories first, each with a trailing `/`, then the rest; empty if there is nothing to list.

    A link counts as what it leads to, and not at all if that does not exist.

    Raises:
        Refused: the window says no.
        WindowError: the window cannot be asked.
    """
    try:
        found = (await hands.do(List(path=path), Entries)).entries
    except OrderRefused as refused:
        if refused.code in ("not_found", "not_directory"):
            return []
        raise
    directories = [f"{entry.name}/" for entry in found if entry.type == "directory"]
    files = [
        entry.name
        for entry in found
        if entry.type != "directory" and not (entry.is_link and entry.type == "other")
    ]
    return sorted(directories, key=_order) + sorted(files, key=_order)


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name
