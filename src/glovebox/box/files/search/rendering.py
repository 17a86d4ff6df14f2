"""Search results as text for a model. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from glovebox.protocol.files import GlobObservation, GrepMatch, GrepObservation

_NARROWER = "Narrow it with path or {filter}, or give it a longer timeout."


def glob_text(found: GlobObservation, offset: int, *, ignored: int) -> str:
    """One path per line, then what else there is to know."""
    lines = list(found.matches)
    if not found.total:
        lines.append(f"No file in {found.path} matches {found.pattern}.")
    lines += _page_notes(len(found.matches), found.total, found.next_offset, offset, "paths")
    if found.incomplete:
        lines.append(f"[The search ended early. {_NARROWER.format(filter='a longer pattern')}]")
    if found.skipped:
        lines.append(f"[{_count(found.skipped, 'directory', 'directories')} could not be read.]")
    lines += _ignored_note(found.total, ignored)
    lines += _names_note(found.matches)
    return "\n".join(lines)


def grep_text(found: GrepObservation, offset: int, *, ignored: int) -> str:
    """Lines as `path:line:text`, their context as `path-line-text`, then what else there is to know."""
    lines = list(_match_lines(found.matches))
    if not found.total:
        lines.append(f"No line in {found.path} matches {found.pattern}.")
    lines += _page_notes(
        len(found.matches),
        found.total,
        found.next_offset,
        offset,
        f"matching lines in {_count(found.files, 'file')}",
    )
    if found.incomplete:
        lines.append(f"[The search ended early. {_NARROWER.format(filter='include')}]")
    if found.skipped:
        lines.append(
            f"[{_count(found.skipped, 'file or directory', 'files or directories')} could not be read.]"
        )
    if found.binary:
        lines.append(f"[{_count(found.binary, 'binary file')} matching as well, not shown.]")
    lines += _ignored_note(found.total, ignored)
    lines += _names_note([match.path for match in found.matches])
    return "\n".join(lines)


def _page_notes(shown: int, total: int, next_offset: int | None, offset: int, what: str) -> Iterator[str]:
    if next_offset is not None:
        yield f"[{offset + 1}-{next_offset} of {total} {what}. The next page is at offset {next_offset}.]"
    elif offset and shown:
        yield f"[{offset + 1}-{total} of {total} {what}. This is the last page.]"
    elif offset and total:
        yield f"[There are {total} {what}, none of them at offset {offset}.]"


def _ignored_note(total: int, ignored: int) -> list[str]:
    """Only worth a word when it may be why nothing was found."""
    if total or not ignored:
        return []
    return ["[What .gitignore excludes was left out. Set respect_gitignore to false to search it too.]"]


def _names_note(paths: list[str]) -> list[str]:
    if not any("\ufffd" in path for path in paths):
        return []
    return ["[\ufffd stands for bytes of a name that are not UTF-8.]"]


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _match_lines(matches: list[GrepMatch]) -> Iterator[str]:
    """Matches and their context, each line once, `--` between parts that do not touch."""
    context = any(match.before or match.after for match in matches)
    path: str | None = None
    last = 0  # the last line shown
    matching = {(match.path, match.line) for match in matches}
    for match in matches:
        if match.path != path:
            if context and path is not None:
                yield "--"
            path, last = match.path, 0
        first = match.line - len(match.before)
        if context and last and first > last + 1:
            yield "--"
        around = [*match.before, match.text, *match.after]
        for number, text in enumerate(around, first):
            # A line that matches is shown when its turn comes, so context ends before it.
            if number != match.line and (path, number) in matching:
                if number > match.line:
                    break
                continue
            if number > last:
                sign = ":" if number == match.line else "-"
                yield f"{path}{sign}{number}{sign}{text}"
                last = number
