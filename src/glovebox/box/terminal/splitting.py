"""Which commands a text consists of: the contract runs one at a time."""

from __future__ import annotations

import itertools

#: The parser needs up to a second for ten thousand characters; a longer text counts as one command.
LONGEST = 10_000


def needs_parsing(text: str) -> bool:
    """Whether the text could be several commands: these are on lines of their own."""
    return "\n" in text and len(text) <= LONGEST


def split_commands(text: str) -> list[str]:
    """The commands at top level that are separated by line ends.

    Comments, and the bodies of here-documents, belong to the command before them; comments at the very
    beginning to the first. What cannot be parsed is one command: bash will say what is wrong with it.
    """
    if not needs_parsing(text):
        return [text]
    starts = _starts(text)
    if len(starts) < 2:
        return [text]
    bounds = [0, *starts[1:], len(text)]
    return [text[begin:end].rstrip() for begin, end in itertools.pairwise(bounds)]


def _starts(text: str) -> list[int]:
    """Where commands start, or nothing if the parser cannot tell."""
    import bashlex  # a quarter of a second to import, and most commands have one line
    import bashlex.errors

    try:
        return [node.pos[0] for node in bashlex.parse(text)]
    except (bashlex.errors.ParsingError, NotImplementedError, RecursionError):
        return []
    except (AttributeError, TypeError, IndexError, KeyError, ValueError, AssertionError):
        return []  # what the parser's own defects look like
