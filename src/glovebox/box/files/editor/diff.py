"""The unified diff of an edit, without context lines."""

from __future__ import annotations

from difflib import SequenceMatcher

#: From here on, lines that both texts begin and end with are set aside first. The contract's algorithm can
#: take minutes on long repetitive files; without those lines it has only the change itself to look at.
#: Shorter files get exactly its choice of hunks.
LONG = 10_000


def unified(old: str, new: str, path: str) -> str:
    """What `difflib.unified_diff` says with no context, every line trimmed at the right; empty if equal."""
    if old == new:
        return ""
    before, after = old.split("\n"), new.split("\n")
    head, tail = _in_common(before, after) if max(len(before), len(after)) > LONG else (0, 0)
    matcher = SequenceMatcher(None, before[head : len(before) - tail], after[head : len(after) - tail])
    lines = [f"--- {path}".rstrip(), f"+++ {path}".rstrip()]
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        lines.append(f"@@ -{_range(head + i1, i2 - i1)} +{_range(head + j1, j2 - j1)} @@")
        lines.extend(f"-{line}".rstrip() for line in before[head + i1 : head + i2])
        lines.extend(f"+{line}".rstrip() for line in after[head + j1 : head + j2])
    return "\n".join(lines)


def _range(start: int, length: int) -> str:
    """Lines as a hunk's header names them: nothing is said to be after the line before it."""
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _in_common(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines both begin with, and how many of the others both end with."""
    limit = min(len(before), len(after))
    head = 0
    while head < limit and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < limit - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, tail
