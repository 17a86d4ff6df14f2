"""The names in a directory, in the order a file tree shows them."""

from __future__ import annotations

import os


def list_directory(path: str) -> list[str]:
    """Directories first, each with a trailing `/`, then the rest; empty if there is nothing to list.

    A link counts as what it leads to, and not at all if that does not exist.
    """
    directories: list[str] = []
    files: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if _is_directory(entry):
                    directories.append(entry.name + "/")
                elif not entry.is_symlink() or os.path.exists(entry.path):
                    files.append(entry.name)
    except (OSError, ValueError):  # missing, not a directory, not ours to read, or a name with a NUL
        return []
    return sorted(directories, key=_order) + sorted(files, key=_order)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in a circle, or to where we may not look
        return False


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name
