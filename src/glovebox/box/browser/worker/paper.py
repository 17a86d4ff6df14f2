"""What Markdown is written on: it knows what goes before the next text, and at the left of each line."""

from __future__ import annotations

import re

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
        """The whole text."""
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
