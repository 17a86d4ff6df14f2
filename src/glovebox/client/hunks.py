"""A change of a text, shown: as a diff without context, and as hunks with the lines before and after."""

from __future__ import annotations

from difflib import SequenceMatcher, unified_diff

CONTEXT = 2
_NO_CHANGE = "(no changes detected. Please make sure your edits change the content of the existing file.)\n"

Opcode = tuple[str, int, int, int, int]


def diff(old: str, new: str, path: str) -> str:
    """The unified diff of two texts, every line trimmed at the right; empty if they are equal."""
    lines = unified_diff(old.split("\n"), new.split("\n"), path, path, n=0, lineterm="")
    return "\n".join(line.rstrip() for line in lines)


def visualize(path: str, old: str, new: str, *, applied: bool = True, context: int = CONTEXT) -> str:
    """The hunks of a change, or of one that was not made."""
    if applied and old == new:
        return _NO_CHANGE
    before, after = old.split("\n"), new.split("\n")
    groups = list(SequenceMatcher(None, before, after).get_grouped_opcodes(context))
    count = len(groups)
    what = "edit" if applied else "ATTEMPTED edit"
    shown = [
        f"[Existing file {path} is edited with {count} changes.]"
        if applied
        else f"[Changes are NOT applied to {path} - Here's how the file looks like if changes are applied.]"
    ]
    for number, group in enumerate(groups, 1):
        if number > 1:
            shown.append("-" * 25)
        width = len(str(group[-1][3])) + 1
        shown += [
            f"[begin of {what} {number} / {count}]",
            f"(content before {what})",
            *(line for code in group for line in _side(before, code[0], code[1], code[2], "-", width)),
            f"(content after {what})",
            *(line for code in group for line in _side(after, code[0], code[3], code[4], "+", width)),
            f"[end of {what} {number} / {count}]",
        ]
    return "\n".join(shown)


def _side(lines: list[str], tag: str, start: int, stop: int, sign: str, width: int) -> list[str]:
    """Lines of one side of a hunk, numbered."""
    numbered = enumerate(lines[start:stop], start + 1)
    if tag == "equal":
        return [f"{number:>{width}}|{line}" for number, line in numbered]
    return [f"{sign}{number:>{width - 1}}|{line}" for number, line in numbered]
