"""Writes the tags and texts of a document as Markdown. No I/O.

The rules come from recorded pages and their texts: `tests/box/browser/page_texts.json`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar

from glovebox.box.browser.worker.page.markdown_output import (
    BRACKET,
    HARD_BREAK,
    LINE,
    PARAGRAPH,
    MarkdownOutput,
)

_BLANKS = re.compile(r"\s+")
#: A backslash that would escape the sign after it.
_BACKSLASH = re.compile(r"\\(?=[\\`*_{}\[\]()#+\-.!])")
#: The beginning of a line up to a sign that would start a list item or a rule: `1. a`, `+ a`, `- a`, `--`.
_LINE_SIGN = re.compile(r"^([^\S\n]*(?:\d+(?=\.\s)|(?=\+\s)|(?=-[\s-])))", re.MULTILINE)
#: A link to such an address with nothing but the address as its text is written as `<address>`.
_ADDRESS = re.compile("[A-Za-z+]+://")
_ADDRESS_SIGN = re.compile(r"[\\\[\]()]")
#: No blank is put between an emphasis and these.
_AFTER_EMPHASIS = ".!?()[]{}"
#: Inside of a word, `_` would not be an emphasis. This is what ends a word.
_AFTER_WORD = string.whitespace + string.punctuation

_EMPHASIS = {"b": "**", "strong": "**", "i": "_", "em": "_", "u": "_", "s": "~~", "del": "~~", "strike": "~~"}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_CODE = ("code", "tt", "kbd")
_IGNORED = ("head", "style", "script")
_LISTS = ("ul", "ol")
#: The sign of a link is written once a text or a tag other than these follows.
_BEFORE_LINK = ("div", "dl", "dt", "p", "style")
#: No blank is put between an emphasis and a text after such a tag.
_SEPARATE = frozenset((*_HEADINGS, "a", "code", "pre"))

_LIST_INDENT, _BULLET_WIDTH, _NUMBER_WIDTH = 2, 2, 3
#: Deeper nesting does not make lines longer: a few tags would make a text of any length.
_MOST_INDENT = 200
_MOST_DIGITS = 100


class _List:
    """An open list."""

    def __init__(self, outer: _List | None, number: int | None) -> None:
        self._number = number
        self.indent: int = min(outer.item_indent, _MOST_INDENT) if outer else _LIST_INDENT
        self.item_indent: int = self.indent + (_BULLET_WIDTH if number is None else _NUMBER_WIDTH)

    def next_sign(self) -> str:
        if self._number is None:
            return "* "
        self._number += 1
        return f"{self._number - 1}. "


class Markdown:
    """A document as Markdown, from its tags and texts in their order."""

    def __init__(self) -> None:
        self._output = MarkdownOutput()
        self._open: Counter[str] = Counter()
        #: How many of the open elements are not written.
        self._ignored = 0
        self._in_code = False
        #: The next text is the first one in an emphasis.
        self._begins_emphasis = False
        #: The first text after that one is separated from it.
        self._separates_emphasis = False
        #: The last character of the last text.
        self._last = ""
        #: The tag before the next text.
        self._previous_tag = ""
        #: The last tag, other than the end of a heading, ended a list.
        self._is_after_list = False
        #: The ends of the open links, empty for those without an address.
        self._links: list[str] = []
        #: The address of a link whose sign has not been written yet.
        self._unwritten_address: str | None = None
        self._address_is_text = False
        self._lists: list[_List] = []
        #: The cells of the row so far.
        self._cells = 0
        self._is_after_cell = False
        self._is_first_row = False
        #: The open abbreviation: what it is short for, and its text.
        self._meaning: str | None = None
        self._abbreviation: list[str] = []
        self._abbreviations: dict[str, str] = {}

    @property
    def length(self) -> int:
        """About how many characters have been written."""
        return self._output.length

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag not in _BEFORE_LINK:
            self._write_link()
        self._open[tag] += 1
        if tag in _IGNORED:
            self._ignored += 1
        if tag in _EMPHASIS:
            self._start_emphasis(_EMPHASIS[tag])
        elif tag in _HEADINGS:
            self._start_heading(_HEADINGS[tag])
        elif tag in self._WITH_ATTRIBUTES:
            self._WITH_ATTRIBUTES[tag](self, attributes)
        elif tag in self._STARTS:
            self._STARTS[tag](self)
        self._previous_tag = tag
        self._is_after_list = False

    def end(self, tag: str) -> None:
        if not self._open[tag]:
            return
        self._open[tag] -= 1
        if tag in _IGNORED:
            self._ignored -= 1
        if tag in _EMPHASIS:
            self._write(_EMPHASIS[tag])
        elif tag in self._ENDS:
            self._ENDS[tag](self)
        self._previous_tag = tag
        if tag not in _HEADINGS:
            self._is_after_list = tag in _LISTS

    def text(self, text: str, *, is_sign: bool = False) -> None:
        """Write character data: one of the signs & < >, or a run without them."""
        text = self._space_emphasis(text)
        if text == self._unwritten_address and _ADDRESS.match(text):
            self._write(f"<{text}>")
            self._address_is_text = True
            return
        self._last = text[-1:]
        self._write_link()
        if not (is_sign or self._in_code or self._output.is_preformatted):
            text = _LINE_SIGN.sub(r"\1\\", _BACKSLASH.sub(r"\\\\", text))
        self._add_to_abbreviation(text)
        if self._ignored:
            return
        if not self._output.is_preformatted:
            text = _BLANKS.sub(" ", text)
            if text.startswith(" "):
                self._output.has_blank = True
                text = text[1:]
        if text:
            self._output.write(text)

    def finish(self) -> str:
        notes = [f"  *[{short}]: {meaning}\n" for short, meaning in self._abbreviations.items()]
        if self._output.starts_preformatted:
            notes.append("\n")
        return "".join([self._output.finish(), "\n", *notes])

    def _space_emphasis(self, text: str) -> str:
        """Strip the first text in an emphasis, and separate the second one from it."""
        if self._begins_emphasis:
            self._begins_emphasis = False
            return text.strip()
        if self._separates_emphasis:
            self._separates_emphasis = False
            is_separate = text[0].isspace() or text[0] in _AFTER_EMPHASIS or self._previous_tag in _SEPARATE
            return text if is_separate else " " + text
        return text

    def _add_to_abbreviation(self, text: str) -> None:
        if self._meaning is not None:
            self._abbreviation.append(text)

    def _write(self, sign: str, *, starts_block: bool = False, starts_quotation: bool = False) -> None:
        self._add_to_abbreviation(sign)
        if not self._ignored:
            self._output.write(sign, starts_block=starts_block, starts_quotation=starts_quotation)

    # Blocks

    def _break_line(self) -> None:
        self._output.add_break(LINE)

    def _break_paragraph(self) -> None:
        self._output.add_break(PARAGRAPH)

    def _break_block(self) -> None:
        """Break the paragraph, but neither a link nor the row of a table."""
        if not self._open["a"] and not self._is_after_cell:
            self._break_paragraph()

    def _start_heading(self, sign: str) -> None:
        if not self._open["a"]:
            self._break_paragraph()
            self._write(sign)
        elif self._output.take_bracket():
            self._write(sign)
            self._write_bracket()

    def _end_heading(self) -> None:
        if self._open["a"]:
            self._output.drop_breaks()
        else:
            self._break_paragraph()

    def _write_rule(self) -> None:
        self._break_paragraph()
        self._write("* * *")
        self._break_paragraph()

    def _write_break(self) -> None:
        self._write(HARD_BREAK + "\n" + ("> " if self._output.quotes else ""))

    def _start_quotation(self) -> None:
        self._break_paragraph()
        self._write("> ", starts_block=True, starts_quotation=True)
        self._output.quotes += 1

    def _end_quotation(self) -> None:
        self._output.quotes -= 1
        self._break_paragraph()

    def _start_preformatted(self) -> None:
        self._break_paragraph()
        self._output.is_preformatted = self._output.starts_preformatted = True

    def _end_preformatted(self) -> None:
        self._output.is_preformatted = False
        self._break_paragraph()

    # Lists

    def _start_numbers(self, attributes: Mapping[str, str]) -> None:
        start = attributes.get("start", "")
        try:
            number = int(start) if len(start) <= _MOST_DIGITS else 1
        except ValueError:
            number = 1
        self._start_list(number)

    def _start_list(self, number: int | None = None) -> None:
        if not self._lists and not self._is_after_list:
            self._break_paragraph()
        self._output.has_list = True
        self._lists.append(_List(self._lists[-1] if self._lists else None, number))

    def _end_list(self) -> None:
        self._lists.pop()
        self._output.has_list = bool(self._lists)
        if not self._lists:
            self._write("\n")

    def _start_item(self) -> None:
        self._break_line()
        if not self._lists:
            self._write("* ", starts_block=True)
            self._output.item_indent = _BULLET_WIDTH
            return
        innermost = self._lists[-1]
        self._output.item_indent = innermost.indent
        self._write(" " * innermost.indent + innermost.next_sign(), starts_block=True)
        self._output.item_indent = innermost.item_indent

    def _end_item(self) -> None:
        self._output.item_indent = 0
        self._break_line()

    def _start_definition(self) -> None:
        self._write("    ")

    # Tables

    def _start_table(self) -> None:
        self._is_first_row = True

    def _start_row(self) -> None:
        self._cells = 0

    def _start_cell(self) -> None:
        if self._is_after_cell:
            self._write("| ")
        self._is_after_cell = True
        self._cells += 1

    def _end_row(self) -> None:
        self._output.add_break(LINE, hard=True)
        if self._is_first_row and self._cells:
            self._write("|".join(["---"] * self._cells))
            self._output.add_break(LINE, hard=True)
        self._is_first_row = False
        self._is_after_cell = False

    # Inside of paragraphs

    def _start_emphasis(self, sign: str) -> None:
        if self._last and (self._last not in _AFTER_WORD if sign == "_" else self._last == sign[0]):
            sign = " " + sign
            self._last = ""
        self._write(sign)
        self._begins_emphasis = self._separates_emphasis = True

    def _write_code_sign(self) -> None:
        if not self._output.is_preformatted:
            self._write("`")
            self._in_code = not self._in_code

    def _write_quotation_mark(self) -> None:
        self._write('"')

    def _start_link(self, attributes: Mapping[str, str]) -> None:
        address, title = attributes.get("href", "#"), attributes.get("title", "")
        if address.startswith("#"):
            self._links.append("")
            return
        self._unwritten_address, self._address_is_text = address, False
        if title.strip():
            address += f' "{title}"'
        self._links.append("](" + _ADDRESS_SIGN.sub(r"\\\g<0>", address) + ")")

    def _write_link(self) -> None:
        if self._unwritten_address is not None:
            self._unwritten_address = None
            self._write_bracket()

    def _write_bracket(self) -> None:
        self._add_to_abbreviation(BRACKET)
        if not self._ignored:
            self._output.write_bracket()

    def _end_link(self) -> None:
        end = self._links.pop()
        if self._unwritten_address is not None and self._address_is_text:
            self._unwritten_address = None
        elif end:
            self._write_link()
            self._output.drop_breaks()
            self._write(end)

    def _start_abbreviation(self, attributes: Mapping[str, str]) -> None:
        self._meaning = attributes.get("title")
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
        **dict.fromkeys(_HEADINGS, _end_heading),
        **dict.fromkeys(("dt", "dd"), _break_line),
        **dict.fromkeys(_LISTS, _end_list),
        **dict.fromkeys(_CODE, _write_code_sign),
        "a": _end_link,
        "abbr": _end_abbreviation,
        "blockquote": _end_quotation,
        "li": _end_item,
        "pre": _end_preformatted,
        "q": _write_quotation_mark,
        "tr": _end_row,
    }
