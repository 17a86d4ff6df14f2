"""Sets of characters as sorted ranges of code points, the one notation both search engines understand alike.

Names such as `\\w` mean slightly different things to different regular expression engines. Spelled out as
ranges they cannot.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

Range = tuple[int, int]
Ranges = tuple[Range, ...]

#: What a line of text can hold: everything but the newline. Code points that stand for undecodable bytes
#: (U+DC80 to U+DCFF) are no characters, so no set has them and nothing but literal bytes could match them.
ALPHABET: Ranges = ((0, 0x09), (0x0B, 0xD7FF), (0xE000, 0x10FFFF))

#: Unicode's White_Space without the newline.
SPACE: Ranges = (
    (0x09, 0x09),
    (0x0B, 0x0D),
    (0x20, 0x20),
    (0x85, 0x85),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
)

#: The names of `[[:name:]]`, which are ASCII everywhere.
POSIX: dict[str, Ranges] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x09), (0x0B, 0x7F)),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x09), (0x0B, 0x1F), (0x7F, 0x7F)),
    "digit": ((0x30, 0x39),),
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x09), (0x0B, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}

#: Word characters that their category does not tell: circled and squared letters, and the joiners.
_OTHER_WORD: Ranges = (
    (0x200C, 0x200D),
    (0x24B6, 0x24E9),
    (0x1F130, 0x1F149),
    (0x1F150, 0x1F169),
    (0x1F170, 0x1F189),
)
_WORD_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"})
#: The highest code point with an upper or lower case.
_LAST_CASED = 0x1E943
#: Beyond this only plane 14 has assigned characters; its one kind in our sets are the variation selectors.
_LAST_SCANNED = 0x33FFF
_VARIATION_SELECTORS: Range = (0xE0100, 0xE01EF)


def normalised(ranges: Iterable[Range]) -> Ranges:
    """Sort and merge ranges, leaving out what is not in the alphabet."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(
        (max(low, first), min(high, last))
        for low, high in merged
        for first, last in ALPHABET
        if low <= last and high >= first
    )


def complement(ranges: Ranges) -> Ranges:
    """Everything in the alphabet that is not in `ranges`."""
    outside: list[Range] = []
    start = 0
    for low, high in normalised(ranges):
        if low > start:
            outside.append((start, low - 1))
        start = high + 1
    outside.append((start, 0x10FFFF))
    return normalised(item for item in outside if item[0] <= item[1])


def either_case(ranges: Ranges) -> Ranges:
    """Add the upper, lower and title case of every character."""
    more: list[Range] = list(ranges)
    for low, high in ranges:
        for code in range(low, min(high, _LAST_CASED) + 1):
            more.extend((variant, variant) for variant in _variants(code))
    return normalised(more)


def _variants(code: int) -> set[int]:
    character = chr(code)
    forms = {character.lower(), character.upper(), character.title()}
    forms |= {form.lower() for form in forms}
    return {ord(form) for form in forms if len(form) == 1 and form != character}


@functools.cache
def word() -> Ranges:
    """The characters of words: letters, marks, decimal digits and connecting punctuation such as `_`."""
    return normalised([*_categories(_WORD_CATEGORIES), _VARIATION_SELECTORS, *_OTHER_WORD])


@functools.cache
def digit() -> Ranges:
    """The decimal digits of all scripts."""
    return normalised(_categories(frozenset({"Nd"})))


def _categories(wanted: frozenset[str]) -> list[Range]:
    found: list[Range] = []
    category = unicodedata.category
    start: int | None = None
    for code in range(_LAST_SCANNED + 2):
        inside = code <= _LAST_SCANNED and category(chr(code)) in wanted
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            found.append((start, code - 1))
            start = None
    return found
