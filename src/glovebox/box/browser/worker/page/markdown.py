"""Writes the tags and texts of a document as Markdown. No I/O.

The rules come from recorded pages and their texts: `tests/box/browser/page_texts.json`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

_BLANKS = re.compile(r"\s+")
#: A backslash that would escape the sign after it.
_BACKSLASH = re.compile(r"\\(?=[\\`*_{}\[\]()#+\-.!])")
#: The beginning of a line up to a sign that would start a list item or a rule: `1. a`, `+ a`, `- a`, `--`.
_LINE_SIGN = re.compile(r"^([^\S\n]*(?:\d+(?=\.\s)|(?=\+\s)|(?=-[\s-])))", re.MULTILINE)
_ADDRESS_SIGN = re.compile(r"[\\\[\]()]")
_NUMBER = re.compile(r"\s*-?\d{1,9}\s*")
#: No blank is put before these.
_PUNCTUATION = ".,;:!?)]}"

_EMPHASIS = {"b": "**", "strong": "**", "i": "_", "em": "_", "u": "_", "s": "~~", "del": "~~", "strike": "~~"}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_CODE = ("code", "tt", "kbd")
_IGNORED = ("head", "style", "script")
_HARD_BREAK = "  "
_LINE, _PARAGRAPH = 1, 2

_PRE_INDENT, _LIST_INDENT = 4, 2
_BULLET_WIDTH, _NUMBER_WIDTH = 2, 3
#: Deeper nesting does not make lines longer: a few tags would make a text of any length.
_MOST_QUOTES, _MOST_INDENT = 100, 200


class _Output:
    """The text so far, and the blanks and line breaks that are written once something follows them."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0
        self.quotes = 0
        #: The indent of preformatted lines, 0 outside.
        self.indent = 0
        self._breaks = 0
        self._breaks_are_hard = False
        self.has_blank = False
        #: Preformatted text begins with an empty line, even if it has no text.
        self.has_empty_line = False
        #: Blanks and breaks are dropped at the start of the document, of an item and of a quotation.
        self._at_start = True

    @property
    def writes(self) -> int:
        return len(self._pieces)

    @property
    def is_at_line_start(self) -> bool:
        return self._at_start or self._breaks > 0 or self._pieces[-1].endswith("\n")

    @property
    def is_after_word(self) -> bool:
        return bool(self._pieces) and self._pieces[-1][-1:].isalnum()

    @property
    def newline(self) -> str:
        return "\n" + "> " * min(self.quotes, _MOST_QUOTES) + " " * self.indent

    def add_break(self, lines: int, *, hard: bool = False) -> None:
        self._breaks = max(self._breaks, lines)
        self._breaks_are_hard |= hard

    def drop_breaks(self) -> None:
        self._breaks = 0
        self._breaks_are_hard = False

    def write(self, text: str, *, starts_block: bool = False) -> None:
        if self.indent:
            text = text.replace("\n", self.newline)
        self._append(self._take_pending() + text)
        self._at_start = starts_block

    def put_before_link(self, sign: str, *, on_new_line: bool) -> None:
        """Put the sign of a heading before the bracket that was written last."""
        piece = self._pieces.pop()
        self.length -= len(piece)
        before = self.newline * _PARAGRAPH if on_new_line else piece.removesuffix("[")
        self._append(f"{before}{sign}[")

    def finish(self) -> str:
        if self.has_empty_line:
            self._append("\n")
        return "".join(self._pieces)

    def _append(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    def _take_pending(self) -> str:
        pending = ""
        if self._breaks and not self._at_start:
            pending = ((_HARD_BREAK if self._breaks_are_hard else "") + self.newline) * self._breaks
        elif self.has_blank and not self._at_start and not self._pieces[-1].endswith("\n"):
            pending = " "
        if self.has_empty_line:
            pending += self.newline
        self.drop_breaks()
        self.has_blank = self.has_empty_line = False
        return pending


class _Link(NamedTuple):
    address: str
    title: str
    #: How many writes there were when its bracket was written.
    writes: int
    is_at_line_start: bool


class _List:
    """An open list."""

    def __init__(self, outer: _List | None, number: int | None) -> None:
        self._number = number
        self._indent: int = min(outer._inner_indent, _MOST_INDENT) if outer else _LIST_INDENT
        self._inner_indent: int = self._indent + (_BULLET_WIDTH if number is None else _NUMBER_WIDTH)
        #: Where the text of the innermost item begins.
        self.text_indent: int = outer.text_indent if outer else 0

    def next_sign(self) -> str:
        self.text_indent = self._inner_indent
        if self._number is None:
            return " " * self._indent + "* "
        self._number += 1
        return f"{' ' * self._indent}{self._number - 1}. "


class Markdown:
    """A document as Markdown, from its tags and texts in their order."""

    def __init__(self) -> None:
        self._output = _Output()
        self._open: Counter[str] = Counter()
        self._in_code = False
        #: The next text is the first one in an emphasis, or follows the first one.
        self._begins_emphasis = self._continues_emphasis = False
        #: The open links; None for those without an address.
        self._links: list[_Link | None] = []
        self._lists: list[_List] = []
        #: The cells of the row so far.
        self._cells = 0
        self._is_first_row = False
        #: The open abbreviation: what it is short for, and its text.
        self._meaning: str | None = None
        self._abbreviation: list[str] = []
        self._abbreviations: dict[str, str] = {}

    @property
    def length(self) -> int:
        """About how many characters have been written."""
        return self._output.length

    @property
    def _is_preformatted(self) -> bool:
        return self._open["pre"] > 0

    @property
    def _link(self) -> _Link | None:
        return self._links[-1] if self._links else None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._open[tag] += 1
        if tag in _EMPHASIS:
            self._start_emphasis(_EMPHASIS[tag])
        elif tag in _HEADINGS:
            self._start_heading(_HEADINGS[tag])
        elif tag in self._WITH_ATTRIBUTES:
            self._WITH_ATTRIBUTES[tag](self, attributes)
        elif tag in self._STARTS:
            self._STARTS[tag](self)

    def end(self, tag: str) -> None:
        if not self._open[tag]:
            return
        self._open[tag] -= 1
        if tag in _EMPHASIS:
            self._end_emphasis(_EMPHASIS[tag])
        elif tag in self._ENDS:
            self._ENDS[tag](self)

    def text(self, text: str, *, is_sign: bool = False) -> None:
        """Write character data: one of the signs & < >, or a run without them."""
        is_ignored = any(self._open[tag] for tag in _IGNORED)
        text = self._space_emphasis(text)
        if not (is_sign or is_ignored or self._in_code or self._is_preformatted):
            text = _LINE_SIGN.sub(r"\1\\", _BACKSLASH.sub(r"\\\\", text))
        self._add_to_abbreviation(text)
        if is_ignored:
            return
        if not self._is_preformatted:
            text = _BLANKS.sub(" ", text)
            if text.startswith(" "):
                self._output.has_blank = True
                text = text[1:]
        elif self._output.has_empty_line:
            text = text.removeprefix("\n")
        if text:
            self._output.write(text)

    def finish(self) -> str:
        notes = [f"  *[{short}]: {meaning}\n" for short, meaning in self._abbreviations.items()]
        return "".join([self._output.finish(), "\n", *notes])

    def _space_emphasis(self, text: str) -> str:
        """Strip the first text in an emphasis, and separate the second one from it."""
        if self._begins_emphasis:
            self._begins_emphasis, self._continues_emphasis = False, True
            return text.strip()
        if self._continues_emphasis:
            self._continues_emphasis = False
            if not (text[:1].isspace() or text[:1] in _PUNCTUATION):
                return " " + text
        return text

    def _add_to_abbreviation(self, text: str) -> None:
        if self._meaning is not None:
            self._abbreviation.append(text)

    def _write(self, sign: str, *, starts_block: bool = False) -> None:
        self._add_to_abbreviation(sign)
        self._output.write(sign, starts_block=starts_block)

    # Blocks

    def _break_line(self) -> None:
        self._output.add_break(_LINE)

    def _break_paragraph(self) -> None:
        self._output.add_break(_PARAGRAPH)

    def _break_block(self) -> None:
        """Break the paragraph, but neither a link nor the row of a table."""
        if self._link is None and not self._cells:
            self._break_paragraph()

    def _start_heading(self, sign: str) -> None:
        link = self._link
        if link is not None and link.writes == self._output.writes:
            self._output.put_before_link(sign, on_new_line=not link.is_at_line_start)
        else:
            self._break_paragraph()
            self._write(sign)

    def _write_rule(self) -> None:
        self._break_paragraph()
        self._write("* * *")
        self._break_paragraph()

    def _write_break(self) -> None:
        self._add_to_abbreviation(_HARD_BREAK + "\n")
        # The lines of preformatted text are indented by the output.
        self._output.write(_HARD_BREAK + ("\n" if self._is_preformatted else self._output.newline))

    def _start_quotation(self) -> None:
        self._break_paragraph()
        self._write("> ", starts_block=True)
        self._output.quotes += 1

    def _end_quotation(self) -> None:
        self._output.quotes -= 1
        self._break_paragraph()

    def _start_preformatted(self) -> None:
        self._break_paragraph()
        self._continues_emphasis = False
        self._output.indent = _PRE_INDENT
        if self._lists:
            self._output.indent += self._lists[-1].text_indent
        else:
            self._output.has_empty_line = True

    def _end_preformatted(self) -> None:
        if not self._is_preformatted:
            self._output.indent = 0
        self._break_paragraph()

    # Lists

    def _start_numbers(self, attributes: Mapping[str, str]) -> None:
        start = attributes.get("start", "")
        self._start_list(int(start) if _NUMBER.fullmatch(start) else 1)

    def _start_list(self, number: int | None = None) -> None:
        if not self._lists:
            self._break_paragraph()
        self._lists.append(_List(self._lists[-1] if self._lists else None, number))

    def _end_list(self) -> None:
        self._lists.pop()
        if not self._lists:
            self._write("\n")

    def _start_item(self) -> None:
        self._break_line()
        self._write(self._lists[-1].next_sign() if self._lists else "* ", starts_block=True)

    def _start_definition(self) -> None:
        self._write("    ")

    # Tables

    def _start_table(self) -> None:
        self._is_first_row = True

    def _start_row(self) -> None:
        self._cells = 0

    def _start_cell(self) -> None:
        if self._cells:
            self._write("| ")
        self._cells += 1

    def _end_row(self) -> None:
        self._output.add_break(_LINE, hard=True)
        if self._is_first_row and self._cells:
            self._write("|".join(["---"] * self._cells))
            self._output.add_break(_LINE, hard=True)
            self._is_first_row = False
        self._cells = 0

    # Inside of paragraphs

    def _start_emphasis(self, sign: str) -> None:
        if sign == "_" and self._output.is_after_word and not self._is_preformatted:
            # Inside of a word it would not be an emphasis.
            self._output.has_blank = True
        self._write(sign)
        self._begins_emphasis = True

    def _end_emphasis(self, sign: str) -> None:
        self._write(sign)
        self._begins_emphasis = self._continues_emphasis = False

    def _write_code_sign(self) -> None:
        if not self._is_preformatted:
            self._write("`")
            self._in_code = not self._in_code

    def _write_quotation_mark(self) -> None:
        self._write('"')

    def _start_link(self, attributes: Mapping[str, str]) -> None:
        address = attributes.get("href", "#")
        if address.startswith("#"):
            self._links.append(None)
            return
        is_at_line_start = self._output.is_at_line_start
        self._write("[")
        self._links.append(_Link(address, attributes.get("title", ""), self._output.writes, is_at_line_start))

    def _end_link(self) -> None:
        if link := self._links.pop():
            title = f' "{link.title}"' if link.title.strip() else ""
            self._output.drop_breaks()
            self._write("](" + _ADDRESS_SIGN.sub(r"\\\g<0>", link.address + title) + ")")

    def _start_abbreviation(self, attributes: Mapping[str, str]) -> None:
        if "title" in attributes:
            self._meaning = attributes["title"]
            self._abbreviation.clear()

    def _end_abbreviation(self) -> None:
        if self._meaning is not None:
            self._abbreviations["".join(self._abbreviation)] = self._meaning
            self._meaning = None

    _WITH_ATTRIBUTES: ClassVar[Mapping[str, Callable[[Markdown, Mapping[str, str]], None]]] = {
        "a": _start_link,
        "abbr": _start_abbreviation,
        "ol": _start_numbers,
    }
    _STARTS: ClassVar[Mapping[str, Callable[[Markdown], None]]] = {
        **dict.fromkeys(("p", "div"), _break_block),
        **dict.fromkeys(("td", "th"), _start_cell),
        **dict.fromkeys(_CODE, _write_code_sign),
        "blockquote": _start_quotation,
        "br": _write_break,
        "dd": _start_definition,
        "dl": _break_paragraph,
        "hr": _write_rule,
        "li": _start_item,
        "pre": _start_preformatted,
        "q": _write_quotation_mark,
        "table": _start_table,
        "tr": _start_row,
        "ul": _start_list,
    }
    _ENDS: ClassVar[Mapping[str, Callable[[Markdown], None]]] = {
        **dict.fromkeys(("p", "div"), _break_block),
        **dict.fromkeys(_HEADINGS, _break_paragraph),
        **dict.fromkeys(("li", "dt", "dd"), _break_line),
        **dict.fromkeys(("ul", "ol"), _end_list),
        **dict.fromkeys(_CODE, _write_code_sign),
        "a": _end_link,
        "abbr": _end_abbreviation,
        "blockquote": _end_quotation,
        "pre": _end_preformatted,
        "q": _write_quotation_mark,
        "tr": _end_row,
    }
