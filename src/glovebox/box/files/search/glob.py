"""The `glob` action: files whose paths match a pattern, newest first."""

from __future__ import annotations

import os
import stat

import msgspec

from glovebox.box.files.disk.path_errors import FileActionError, in_range, refusal, resolved, shown
from glovebox.box.files.search.glob_pattern import GlobMatcher, GlobPattern, parse_glob
from glovebox.box.files.search.rendering import glob_text
from glovebox.box.files.search.walk import Budget, Walk
from glovebox.box.ripgrep import InvalidPattern
from glovebox.protocol.files import MAX_LIMIT, GlobAction, GlobObservation

#: A search ends after this many results.
MAX_RESULTS = 100_000


def find_files(action: GlobAction, cwd: str, budget: Budget, *, settled: bool) -> GlobObservation:
    """Answer a glob action. Blocks.

    Raises:
        FileActionError: an argument is wrong or the directory cannot be read. Before things have `settled` a
            missing directory that only the pattern names is refused as well; after that nothing matches.
    """
    in_range("offset", action.offset, 0)
    in_range("limit", action.limit, 1, MAX_LIMIT)
    glob = checked_glob(action.pattern, "pattern")
    directory = resolved(cwd, action.path)
    absolute = glob.base.startswith("/")
    if not absolute:
        check_directory(directory)
    root = resolved(directory, glob.base or ".")
    matcher = GlobMatcher(glob, hidden=action.hidden)
    walk = Walk(root, matcher, gitignore=action.respect_gitignore, budget=budget)
    found, more = _newest_first(walk, root, settled=settled)
    page = found[action.offset : action.offset + action.limit]
    answer = GlobObservation(
        pattern=action.pattern,
        path=shown(root if absolute else directory),
        matches=[shown(os.path.join(root, path)) for path in page],
        total=len(found),
        incomplete=more or walk.incomplete,
        skipped=walk.skipped,
    )
    return with_text(answer, action.offset, ignored=walk.ignored)


def with_text(answer: GlobObservation, offset: int, *, ignored: int = 0) -> GlobObservation:
    """Add the text for a model, and where the next page begins."""
    end = offset + len(answer.matches)
    more = answer.matches and end < answer.total
    answer = msgspec.structs.replace(answer, next_offset=end if more else None)
    return msgspec.structs.replace(answer, content=glob_text(answer, offset, ignored=ignored))


def _newest_first(walk: Walk, root: str, *, settled: bool) -> tuple[list[str], bool]:
    """The paths a walk finds, and whether there are more than are counted."""
    found: list[tuple[int, str]] = []
    more = False
    try:
        for path, entry in walk:
            if len(found) == MAX_RESULTS:
                more = True
                break
            found.append((-_modified(entry), path))
    except (FileNotFoundError, NotADirectoryError) as error:
        if not settled:
            raise FileActionError("not_found", f"{shown(root)} does not exist.") from error
    except OSError as error:
        raise refusal(error, root) from error
    found.sort()
    return [path for _, path in found], more


def _modified(entry: os.DirEntry[str]) -> int:
    """When a file was last changed, in nanoseconds; a link that leads nowhere answers for itself."""
    try:
        return entry.stat().st_mtime_ns
    except OSError:
        pass
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:  # gone since it was listed
        return 0


def checked_glob(pattern: str, name: str) -> GlobPattern:
    """Read a pattern that an action was given under a name.

    Raises:
        FileActionError: it is not a pattern.
    """
    try:
        return parse_glob(pattern)
    except InvalidPattern as error:
        raise invalid_pattern(name, pattern, error) from error


def invalid_pattern(name: str, pattern: str, error: InvalidPattern) -> FileActionError:
    """Say what is wrong with a pattern, and where."""
    if error.position is None:
        return FileActionError("invalid_pattern", f"The {name} is not valid: {error.reason}.")
    text = f"The {name} is not valid at character {error.position + 1}: {error.reason}."
    if pattern and len(pattern) <= 200 and pattern.isprintable():
        text += f"\n  {pattern}\n  {' ' * error.position}^"
    return FileActionError("invalid_pattern", text)


def check_directory(path: str) -> None:
    """Make sure that a path is a directory.

    Raises:
        FileActionError: it is missing or something else.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise refusal(error, path) from error
    if not stat.S_ISDIR(mode):
        raise FileActionError(
            "not_a_directory", f"{shown(path)} is not a directory. Give the directory to search in."
        )
