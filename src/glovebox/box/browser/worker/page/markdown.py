"""Markdown, written tag by tag and text by text, as agents know pages. No I/O.

Where blanks and marks go, and what is escaped, is what the contract's converter (html2text) makes of the same
tags and texts, oddities included.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping

_BLANKS = re.compile(r"\s+")


class Listing:
    """A list, and the number of its last item."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind = kind
        self.number = number


class Paper:
    """What was written so far, and what is owed before anything else can be."""

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self._at_line_start = False
        # What comes before the next text: line ends, what comes before each, a blank; nothing at a beginning.
        self._owed_lines = 0
        self._before_line = ""
        self._owed_blank = False
        self._fresh = True
        # Where we are.
        self._hidden = 0
        self._quotations = 0
        self._lists: list[Listing] = []
        self._code_indent = ""
        self._is_literal = self._literal_begins = False
        #: The term that is being explained, and those that were.
        self._term: list[str] | None = None
        self._explained: dict[str, str] = {}

    def finish(self) -> str:
        self._put("", is_end=True)
        return "".join(self._parts)

    def _write(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self.length += len(text)
            self._at_line_start = text.endswith("\n")

    def _put(
        self, text: str, *, is_text: bool = False, is_quotation: bool = False, is_end: bool = False
    ) -> None:
        """Write a text or a sign, after what is owed."""
        if self._term is not None:
            self._term.append(text)
        if self._hidden:
            return
        if is_text and not self._is_literal:
            text = _BLANKS.sub(" ", text)
            if text.startswith(" "):
                self._owed_blank = True
                text = text[1:]
        if not text and not is_quotation and not is_end:
            return
        margin = ">" * self._quotations
        if self._quotations and not is_quotation:
            margin += " "
        if self._is_literal or self._literal_begins:
            text, margin = self._literal(text, margin)
        self._pay(margin, is_end=is_end)
        self._write(text)

    def _literal(self, text: str, margin: str) -> tuple[str, str]:
        """A text whose lines stay as they are, indented."""
        begins, self._literal_begins = self._literal_begins, False
        if begins and not text.startswith(("\n", "\r\n")):
            text = f"\n{text}"
        if self._is_literal:
            margin += f"{self._code_indent if self._lists else ''}    "
            text = text.replace("\n", f"\n{margin}")
        if begins and self._lists:
            text = text.lstrip(f"\n{margin}")
        return text, margin

    def _pay(self, margin: str, *, is_end: bool) -> None:
        if self._fresh:
            self._owed_blank, self._owed_lines, self._fresh = False, 0, False
        if is_end:
            self._owed_blank, self._owed_lines = False, 0
            self._write("\n")
        if self._owed_lines:
            self._write(f"{self._before_line}\n{margin}" * self._owed_lines)
            self._before_line, self._owed_blank, self._owed_lines = "", False, 0
        if self._owed_blank and not self._at_line_start:
            self._write(" ")
        self._owed_blank = False
        if is_end:
            for term, explanation in self._explained.items():
                self._write(f"  *[{term}]: {explanation}\n")

    def _line(self) -> None:
        self._owed_lines = self._owed_lines or 1

    def _line_in_paragraph(self) -> None:
        self._line()
        self._before_line = "  "

    def _paragraph(self, _attributes: object = None) -> None:
        self._owed_lines = 2


Attributes = Mapping[str, str]

#: What would begin a list, or take the meaning from a sign, is escaped.
_LIST_SIGN = re.compile(r"^([^\S\n]*(?:\d+(?=\.)|(?=[+-])))(\.(?=\s)|\+(?=\s)|-(?=[\s-]))", re.MULTILINE)
_ESCAPING = re.compile(r"\\(?=[\\`*_{}\[\]()#+\-.!])")
_NEEDS_ESCAPE = re.compile(r"[\\.+-]")
_IN_LINK = re.compile(r"[\\\[\]()]")
_ADDRESS = re.compile(r"[a-zA-Z+]+://")
#: After emphasis, text that begins with one of these needs no blank.
_JOINS = frozenset("[](){}.!?")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
#: These may come between a link and its text.
_BEFORE_LINK_TEXT = frozenset({"p", "div", "style", "dl", "dt"})
_NO_WORD = frozenset(string.whitespace + string.punctuation)


_Start = Callable[["Markdown", Attributes], None]
_End = Callable[["Markdown"], None]
_NOTHING: tuple[_Start | None, _End | None] = (None, None)


class Markdown(Paper):
    """What tags and texts mean."""

    def __init__(self) -> None:
        super().__init__()
        self._after_list = self._is_code = False
        self._table_begins = self._cell_before = False
        self._columns = 0
        self._tag = ""
        #: The links around, None for those that are not shown.
        self._links: list[Attributes | None] = []
        #: The address of a link in which there was nothing yet.
        self._address: str | None = None
        self._link_is_empty = False
        # The text before, and whether it was emphasized or is about to be.
        self._last = ""
        self._emphasis_begins = self._emphasis_ended = False
        self._explanation: str | None = None

    def start(self, tag: str, attributes: Attributes) -> None:
        self._enter(tag)
        if self._address is not None and tag not in _BEFORE_LINK_TEXT:
            self._begin_link()
        if tag in _HEADINGS:
            self._start_heading("#" * _HEADINGS[tag] + " ")
        elif begin := _TAGS.get(tag, _NOTHING)[0]:
            begin(self, attributes)

    def end(self, tag: str) -> None:
        self._enter(tag)
        if tag in _HEADINGS:
            self._end_heading()
        elif end := _TAGS.get(tag, _NOTHING)[1]:
            end(self)

    def text(self, text: str, *, is_sign: bool = False) -> None:
        """Text between tags; a sign is one of those that HTML has names for."""
        if self._emphasis_begins:
            text = text.strip()
            self._emphasis_begins, self._emphasis_ended = False, True
        elif self._emphasis_ended:
            text = self._apart(text)
            self._emphasis_ended = False
        if self._address is not None:
            if self._address == text and _ADDRESS.match(text):
                self._put(f"<{text}>")
                self._link_is_empty = False
                return
            self._begin_link()
        if not (self._is_code or self._is_literal or is_sign) and _NEEDS_ESCAPE.search(text):
            text = _escaped(text)
        self._last = text
        self._put(text, is_text=True)

    def _enter(self, tag: str) -> None:
        self._tag = tag
        self._after_list = self._after_list and tag in ("ol", "ul")

    # Emphasis.

    def _apart(self, text: str) -> str:
        """A text after emphasis, with a blank if it would run into the mark."""
        joins = text[0] in _JOINS or text[0].isspace()
        if joins or self._tag in _HEADINGS or self._tag in ("a", "code", "pre"):
            return text
        return f" {text}"

    def _emphasize(self, mark: str) -> None:
        # A mark of a single sign is apart from words, others from their own kind.
        ends = self._last[-1:]
        if ends and (ends not in _NO_WORD if len(mark) == 1 else ends == mark[0]):
            self._put(f" {mark}")
            self._last += " "
        else:
            self._put(mark)
        self._emphasis_begins = True

    def _code(self, _attributes: Attributes | None = None) -> None:
        if not self._is_literal:
            self._put("`")
            self._is_code = not self._is_code

    def _quote(self, _attributes: Attributes | None = None) -> None:
        self._put('"')

    # Blocks.

    def _start_heading(self, marks: str) -> None:
        if not self._links:
            self._paragraph()
            self._put(marks)
        elif self._parts and self._parts[-1] == "[":
            # The marks go before a link of which there is nothing yet.
            self._parts.pop()
            self._owed_blank = False
            self._put(marks)
            self._put("[")

    def _end_heading(self) -> None:
        if self._links:
            self._owed_lines = 0
        else:
            self._paragraph()

    def _block(self, _attributes: Attributes | None = None) -> None:
        if not self._links and not self._cell_before:
            self._paragraph()

    def _break(self, _attributes: Attributes) -> None:
        self._put("  \n> " if self._quotations else "  \n")

    def _rule(self, _attributes: Attributes) -> None:
        self._paragraph()
        self._put("* * *")
        self._paragraph()

    def _hide(self, _attributes: Attributes) -> None:
        self._hidden += 1

    def _show(self) -> None:
        self._hidden -= 1

    def _show_all(self, _attributes: Attributes) -> None:
        self._hidden = 0

    def _start_quotation(self, _attributes: Attributes) -> None:
        self._paragraph()
        self._put("> ", is_quotation=True)
        self._fresh = True
        self._quotations += 1

    def _end_quotation(self) -> None:
        self._quotations -= 1
        self._paragraph()

    def _start_literal(self, _attributes: Attributes) -> None:
        self._literal_begins = self._is_literal = True
        self._paragraph()

    def _end_literal(self) -> None:
        self._is_literal = False
        self._paragraph()

    # Lists.

    def _start_list(self, kind: str, attributes: Attributes) -> None:
        if not self._lists and not self._after_list:
            self._paragraph()
        number = 0
        if kind == "ol" and "start" in attributes:
            number = _whole_number(attributes["start"]) - 1
        self._lists.append(Listing(kind, number))
        self._after_list = True

    def _end_list(self) -> None:
        if self._lists:
            self._lists.pop()
            if not self._lists:
                self._put("\n")
        self._after_list = True

    def _item(self, _attributes: Attributes) -> None:
        self._code_indent = ""
        self._line()
        current = self._lists[-1] if self._lists else Listing("ul", 0)
        above = ""
        for each in self._lists:
            self._code_indent += "   " if above == "ol" else "  "
            above = each.kind
        self._put(self._code_indent)
        if current.kind == "ul":
            self._code_indent += "  "
            self._put("* ")
        else:
            current.number += 1
            self._code_indent += "   "
            self._put(f"{current.number}. ")
        self._fresh = True

    def _end_item(self) -> None:
        self._code_indent = ""
        self._line()

    def _definition(self, _attributes: Attributes) -> None:
        self._put("    ")

    # Tables.

    def _start_table(self, _attributes: Attributes) -> None:
        self._table_begins = True

    def _start_row(self, _attributes: Attributes) -> None:
        self._columns = 0

    def _end_row(self) -> None:
        self._cell_before = False
        self._line_in_paragraph()
        if self._table_begins:
            self._put("|".join(["---"] * self._columns))
            self._line_in_paragraph()
            self._table_begins = False

    def _cell(self, _attributes: Attributes) -> None:
        if self._cell_before:
            self._put("| ")
        self._cell_before = True
        self._columns += 1

    # Links and explanations.

    def _start_link(self, attributes: Attributes) -> None:
        address = attributes.get("href")
        if address is None or address.startswith("#"):
            self._links.append(None)
        else:
            self._links.append(attributes)
            self._address, self._link_is_empty = address, True

    def _begin_link(self) -> None:
        self._put("[")
        self._address, self._link_is_empty = None, False

    def _end_link(self) -> None:
        if not self._links:
            return
        link = self._links.pop()
        if self._address is not None and not self._link_is_empty:
            self._address = None
        elif link is not None:
            if self._link_is_empty:
                self._begin_link()
            self._owed_lines = 0
            title = _escaped_in_link(link.get("title", ""))
            address = _escaped_in_link(link["href"])
            self._put("](" + address + (f' "{title}"' if title.strip() else "") + ")")

    def _start_term(self, attributes: Attributes) -> None:
        self._term = []
        self._explanation = attributes.get("title")

    def _end_term(self) -> None:
        if self._explanation is not None:
            self._explained["".join(self._term or ())] = self._explanation
        self._term = self._explanation = None


def _escaped(text: str) -> str:
    text = _ESCAPING.sub(r"\\\\", text)
    return _LIST_SIGN.sub(r"\1\\\2", text)


def _escaped_in_link(text: str) -> str:
    return _IN_LINK.sub(r"\\\g<0>", text)


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 1


def _emphasis(mark: str) -> tuple[_Start, _End]:
    return (lambda page, _: page._emphasize(mark)), (lambda page: page._put(mark))


_LITTLE, _STRONG, _STRUCK = map(_emphasis, ("_", "**", "~~"))
_CODE: tuple[_Start, _End] = (lambda page, _: page._code()), Markdown._code
_HIDDEN: tuple[_Start, _End] = Markdown._hide, Markdown._show
_CELL: tuple[_Start, _End | None] = Markdown._cell, None
#: What each tag does when it begins and when it ends.
_TAGS: Mapping[str, tuple[_Start | None, _End | None]] = {
    "p": (Markdown._block, Markdown._block),
    "div": (Markdown._block, Markdown._block),
    "br": (Markdown._break, None),
    "hr": (Markdown._rule, None),
    "head": _HIDDEN,
    "style": _HIDDEN,
    "script": _HIDDEN,
    "body": (Markdown._show_all, None),
    "blockquote": (Markdown._start_quotation, Markdown._end_quotation),
    "em": _LITTLE,
    "i": _LITTLE,
    "u": _LITTLE,
    "strong": _STRONG,
    "b": _STRONG,
    "del": _STRUCK,
    "strike": _STRUCK,
    "s": _STRUCK,
    "kbd": _CODE,
    "code": _CODE,
    "tt": _CODE,
    "q": (Markdown._quote, Markdown._quote),
    "a": (Markdown._start_link, Markdown._end_link),
    "abbr": (Markdown._start_term, Markdown._end_term),
    "dl": (Markdown._paragraph, None),
    "dt": (None, Markdown._line),
    "dd": (Markdown._definition, Markdown._line),
    "ol": (lambda page, attributes: page._start_list("ol", attributes), Markdown._end_list),
    "ul": (lambda page, attributes: page._start_list("ul", attributes), Markdown._end_list),
    "li": (Markdown._item, Markdown._end_item),
    "table": (Markdown._start_table, None),
    "tr": (Markdown._start_row, Markdown._end_row),
    "td": _CELL,
    "th": _CELL,
    "pre": (Markdown._start_literal, Markdown._end_literal),
}
