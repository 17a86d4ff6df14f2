"""The `grep` action: the files to search, and matching lines as an answer."""

from __future__ import annotations

import codecs
import dataclasses
import os
import stat
from collections.abc import Iterable, Iterator

import msgspec

from glovebox.box.credentials import Identity
from glovebox.box.files.disk.path_errors import FileActionError, in_range, refusal, resolved, shown
from glovebox.box.files.search.glob import MAX_RESULTS, checked_glob, invalid_pattern
from glovebox.box.files.search.glob_pattern import GlobMatcher, GlobPattern
from glovebox.box.files.search.line_search import Hit, LineSearch, MatchedLines, Place, portioned
from glovebox.box.files.search.rendering import grep_text
from glovebox.box.files.search.walk import Budget, Walk, is_regular
from glovebox.box.ripgrep import Expression, InvalidPattern, RipgrepFailed
from glovebox.box.threads import Threads
from glovebox.protocol.files import MAX_CONTEXT, MAX_LIMIT, GrepAction, GrepMatch, GrepObservation

#: Files one search looks into, at most.
_MAX_FILES = 1_000_000
#: A page ends when it has this many characters.
_MAX_PAGE = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The files to search."""

    path: str
    portions: list[list[bytes]]
    skipped: int = 0
    ignored: int = 0
    incomplete: bool = False


async def search_lines(
    action: GrepAction, cwd: str, budget: Budget, threads: Threads, identity: Identity | None = None
) -> GrepObservation:
    """Answer a grep action; `identity` is the user to search files as, if that is not the server's.

    Raises:
        FileActionError: an argument is wrong, or the path cannot be read.
    """
    check_numbers(action)
    try:
        pattern = Expression(action.pattern, literal=action.literal)
        plan = await threads.run(_plan, action, cwd, budget)
        search = LineSearch(pattern, action.ignore_case, MAX_RESULTS, budget, threads, identity)
        found = await search.run(plan.portions)
    except InvalidPattern as error:
        raise invalid_pattern("pattern", action.pattern, error) from error
    except RipgrepFailed as error:
        raise FileActionError("io_error", str(error)) from error
    return await threads.run(_answer, action, plan, found)


def check_numbers(action: GrepAction) -> None:
    """Check the numbers of a grep action.

    Raises:
        FileActionError: one is out of range.
    """
    in_range("offset", action.offset, 0)
    in_range("limit", action.limit, 1, MAX_LIMIT)
    in_range("context", action.context, 0, MAX_CONTEXT)
    in_range("before", action.before or 0, 0, MAX_CONTEXT)
    in_range("after", action.after or 0, 0, MAX_CONTEXT)


def checked_include(include: str) -> GlobPattern:
    """Read the pattern that chooses files.

    Raises:
        FileActionError: it is not a pattern, or leads out of the directory.
    """
    glob = checked_glob(include, "include")
    if glob.base.startswith("/") or ".." in glob.base.split("/"):
        raise FileActionError(
            "invalid_argument", "include is relative to path and cannot leave it. Change path instead."
        )
    return glob


def _plan(action: GrepAction, cwd: str, budget: Budget) -> _Plan:
    path = resolved(cwd, action.path)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            return _Plan(path, [[os.fsencode(path)]])
    except OSError as error:
        raise refusal(error, path) from error
    if not stat.S_ISDIR(mode):
        raise FileActionError(
            "not_a_file", f"{shown(path)} is neither a file nor a directory. Give one of these."
        )
    return _plan_directory(path, action, budget)


def _plan_directory(path: str, action: GrepAction, budget: Budget) -> _Plan:
    """List the files of a directory to search, sorted by path."""
    glob = checked_include("*" if action.include is None else action.include)
    root = resolved(path, glob.base or ".")
    matcher = GlobMatcher(glob, hidden=action.hidden)
    walk = Walk(root, matcher, gitignore=action.respect_gitignore, budget=budget)
    names: list[bytes] = []
    try:
        for name, entry in walk:
            if is_regular(entry):
                names.append(os.fsencode(name))
            if len(names) > _MAX_FILES:
                break
    except (FileNotFoundError, NotADirectoryError):
        pass  # a directory that include names and that is not there
    except OSError as error:
        raise refusal(error, root) from error
    names.sort()
    start = os.fsencode(root.rstrip("/")) + b"/"
    return _Plan(
        path,
        portioned([start + name for name in names[:_MAX_FILES]]),
        skipped=walk.skipped,
        ignored=walk.ignored,
        incomplete=walk.incomplete or len(names) > _MAX_FILES,
    )


def _answer(action: GrepAction, plan: _Plan, found: MatchedLines) -> GrepObservation:
    before, after = context_of(action)
    answer = GrepObservation(
        pattern=action.pattern,
        path=shown(plan.path),
        total=found.total,
        files=len(found.files),
        incomplete=found.incomplete or plan.incomplete,
        skipped=plan.skipped + found.unreadable,
        binary=found.binary,
    )
    places = found.page(action.offset, action.limit)
    return with_page(
        answer, action.offset, excerpts(places, before=before, after=after), ignored=plan.ignored
    )


def context_of(action: GrepAction) -> tuple[int, int]:
    """How many lines to show before and after a match."""
    return (
        action.context if action.before is None else action.before,
        action.context if action.after is None else action.after,
    )


def with_page(
    answer: GrepObservation, offset: int, found: Iterable[GrepMatch | None], *, ignored: int = 0
) -> GrepObservation:
    """Add the matches that fit on a page, without those that are `None`, and the text for a model."""
    matches: list[GrepMatch] = []
    end, size = offset, 0
    for match in found:
        end += 1
        if match is not None:
            matches.append(match)
            size += len(match.path) + len(match.text) + sum(map(len, match.before + match.after))
        if size > _MAX_PAGE:
            break
    next_offset = end if offset < end < answer.total else None
    answer = msgspec.structs.replace(answer, matches=matches, next_offset=next_offset)
    return msgspec.structs.replace(answer, content=grep_text(answer, offset, ignored=ignored))


#: A longer line is cut around its match.
MAX_CHARACTERS = 1000
#: Stands where a line was cut.
CUT = "[…]"
#: The most bytes that so many characters can take.
_WINDOW = 4 * MAX_CHARACTERS
#: Context is looked for this far, in bytes, on either side.
_CONTEXT_WINDOW = 1 << 16


def excerpts(places: Iterable[Place], *, before: int, after: int) -> Iterator[GrepMatch | None]:
    """The line at each of the given places; `None` for one whose file has changed since."""
    path: bytes | None = None
    descriptor = -1
    try:
        for place_path, hit in places:
            if place_path != path:
                _close(descriptor)
                path, descriptor = place_path, _opened(place_path)
            try:
                yield _excerpt(descriptor, place_path, hit, before, after)
            except OSError:  # not opened, or no longer a file
                yield None
    finally:
        _close(descriptor)


def _opened(path: bytes) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def _excerpt(descriptor: int, path: bytes, hit: Hit, before: int, after: int) -> GrepMatch | None:
    line, offset, column = hit
    start = max(offset, offset + column - _WINDOW)
    data = os.pread(descriptor, offset + column + _WINDOW - start, start)
    if offset and os.pread(descriptor, 1, offset - 1) != b"\n":
        return None
    text, ending, _ = data.partition(b"\n")
    whole = bool(ending) or len(data) < offset + column + _WINDOW - start
    return GrepMatch(
        path=path.decode("utf-8", "replace"),
        line=line,
        text=clipped(text, offset + column - start, starts=start == offset, ends=whole, first=offset == 0),
        before=_lines_before(descriptor, offset, before) if before else [],
        after=_lines_after(descriptor, offset, after) if after else [],
    )


def clipped(data: bytes, at: int, *, starts: bool = True, ends: bool = True, first: bool = False) -> str:
    """A line, or the part of it around `at` when it is long.

    `starts` and `ends`: whether the data has the line's start and end. `first`: whether it may begin with a
    byte order mark.
    """
    if ends:
        data = data.removesuffix(b"\r")
    left = _decoded(data[:at], starts=starts, ends=True)
    right = _decoded(data[at:], starts=True, ends=ends)
    if first and starts:
        left, right = (left.removeprefix("\ufeff"), right) if left else (left, right.removeprefix("\ufeff"))
    if starts and ends and len(left) + len(right) <= MAX_CHARACTERS:
        return left + right
    # A quarter of the room shows what leads to the match; what one side does not need the other gets.
    shown_right = min(len(right), MAX_CHARACTERS - min(len(left), MAX_CHARACTERS // 4))
    shown_left = min(len(left), MAX_CHARACTERS - shown_right)
    cut_left = CUT if not starts or shown_left < len(left) else ""
    cut_right = CUT if not ends or shown_right < len(right) else ""
    return cut_left + left[len(left) - shown_left :] + right[:shown_right] + cut_right


def _decoded(data: bytes, *, starts: bool, ends: bool) -> str:
    """Text whose first or last character may have been cut in two; that part is dropped."""
    if not starts:
        lead = next((index for index, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
        data = data[lead:]
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=ends)


def _lines_before(descriptor: int, offset: int, count: int) -> list[str]:
    start = max(0, offset - _CONTEXT_WINDOW)
    data = os.pread(descriptor, offset - start, start)
    if not data:
        return []
    found = data.removesuffix(b"\n").split(b"\n")
    cut = start > 0 and os.pread(descriptor, 1, start - 1) != b"\n"
    lines = [
        clipped(line, 0, starts=True, first=start == 0 and index == 0)
        if index or not cut
        else clipped(line, len(line), starts=False)
        for index, line in enumerate(found)
    ]
    return lines[-count:]


def _lines_after(descriptor: int, offset: int, count: int) -> list[str]:
    data = os.pread(descriptor, _CONTEXT_WINDOW, offset)
    cut = len(data) == _CONTEXT_WINDOW
    _, ending, rest = data.partition(b"\n")
    if not ending or not rest:
        return []
    found = rest.split(b"\n", count)[: count + 1]
    complete = found[:-1] if len(found) > count or not found[-1] else found
    return [clipped(line, 0, ends=not cut or index < len(found) - 1) for index, line in enumerate(complete)]
