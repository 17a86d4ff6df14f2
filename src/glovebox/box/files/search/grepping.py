"""Finds lines by what they say."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat

import msgspec

from glovebox.box.credentials import Identity
from glovebox.box.files.failures import Refusal, in_range, refusal, resolved, shown
from glovebox.box.files.search.excerpts import excerpts
from glovebox.box.files.search.finding import MAX_RESULTS, checked_glob, invalid_pattern
from glovebox.box.files.search.globbing import GlobMatcher
from glovebox.box.files.search.hits import Lines
from glovebox.box.files.search.line_search import LineSearch, portioned
from glovebox.box.files.search.pattern_parser import parse
from glovebox.box.files.search.patterns import InvalidPattern, SearchPattern, literal, written_out
from glovebox.box.files.search.rendering import grep_text
from glovebox.box.files.search.walking import Budget, Walk, is_regular
from glovebox.box.threads import Threads
from glovebox.protocol.files import MAX_CONTEXT, MAX_LIMIT, GrepAction, GrepMatch, GrepObservation

#: Files one search looks into, at most.
_MAX_FILES = 1_000_000
#: A page ends when it has this many characters.
_MAX_PAGE = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be searched, and with what."""

    path: str
    pattern: SearchPattern
    ripgrep: str | None
    portions: list[list[bytes]]
    skipped: int = 0
    ignored: int = 0
    incomplete: bool = False


async def search_lines(
    action: GrepAction,
    cwd: str,
    budget: Budget,
    threads: Threads,
    ripgrep: str | None,
    identity: Identity | None = None,
) -> GrepObservation:
    """Answer a grep action; `ripgrep` is the name or path of the program, `None` to do without.

    `identity` is the user that files are searched as, if that is not the server's.

    Raises:
        Refusal: an argument is wrong, or the path cannot be read.
    """
    plan = await threads.run(_plan, action, cwd, budget, ripgrep)
    search = LineSearch(plan.pattern, plan.ripgrep, MAX_RESULTS, budget, threads, identity)
    found = await search.run(plan.portions)
    return await threads.run(_answer, action, plan, found)


def _plan(action: GrepAction, cwd: str, budget: Budget, ripgrep: str | None) -> _Plan:
    in_range("offset", action.offset, 0)
    in_range("limit", action.limit, 1, MAX_LIMIT)
    in_range("context", action.context, 0, MAX_CONTEXT)
    in_range("before", action.before or 0, 0, MAX_CONTEXT)
    in_range("after", action.after or 0, 0, MAX_CONTEXT)
    pattern = _pattern(action)
    path = resolved(cwd, action.path)
    plan = _Plan(path, pattern, shutil.which(ripgrep) if ripgrep else None, [[os.fsencode(path)]])
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            return plan
    except OSError as error:
        raise refusal(error, path) from error
    if not stat.S_ISDIR(mode):
        raise Refusal("not_a_file", f"{shown(path)} is neither a file nor a directory. Give one of these.")
    return _with_files_below(plan, action, budget)


def _pattern(action: GrepAction) -> SearchPattern:
    try:
        if action.literal:
            return written_out(literal(action.pattern, ignore_case=action.ignore_case))
        return written_out(parse(action.pattern, ignore_case=action.ignore_case))
    except InvalidPattern as error:
        raise invalid_pattern("pattern", action.pattern, error) from error


def _with_files_below(plan: _Plan, action: GrepAction, budget: Budget) -> _Plan:
    """List the files of a directory that are to be searched, by path."""
    include = action.include if action.include is not None else "*"
    glob = checked_glob(include, "include")
    if glob.base.startswith("/") or ".." in glob.base.split("/"):
        raise Refusal(
            "invalid_argument", "include is relative to path and cannot leave it. Change path instead."
        )
    root = resolved(plan.path, glob.base or ".")
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
    return dataclasses.replace(
        plan,
        portions=portioned([start + name for name in names[:_MAX_FILES]]),
        skipped=walk.skipped,
        ignored=walk.ignored,
        incomplete=walk.incomplete or len(names) > _MAX_FILES,
    )


def _answer(action: GrepAction, plan: _Plan, found: Lines) -> GrepObservation:
    matches, end = _page(action, found)
    answer = GrepObservation(
        pattern=action.pattern,
        path=shown(plan.path),
        matches=matches,
        total=found.total,
        files=len(found.files),
        next_offset=end if action.offset < end < found.total else None,
        incomplete=found.incomplete or plan.incomplete,
        skipped=plan.skipped + found.unreadable,
        binary=found.binary,
    )
    return msgspec.structs.replace(answer, content=grep_text(answer, action.offset, ignored=plan.ignored))


def _page(action: GrepAction, found: Lines) -> tuple[list[GrepMatch], int]:
    """The lines of one page, and the number of the line after it."""
    before = action.context if action.before is None else action.before
    after = action.context if action.after is None else action.after
    matches: list[GrepMatch] = []
    end, size = action.offset, 0
    for match in excerpts(found.page(action.offset, action.limit), before=before, after=after):
        end += 1
        if match is not None:
            matches.append(match)
            size += len(match.path) + len(match.text) + sum(map(len, match.before + match.after))
        if size > _MAX_PAGE:
            break
    return matches, end
