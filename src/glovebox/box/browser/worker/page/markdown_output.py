"""The text of a document as it is written: line breaks, blanks and indents between its pieces. No I/O."""

from __future__ import annotations

#: The start of a link.
BRACKET = "["
HARD_BREAK = "  "
LINE, PARAGRAPH = 1, 2
_PRE_INDENT = 4
#: Deeper nesting does not make lines longer: a few tags would make a text of any length.
_MOST_QUOTES = 100


class MarkdownOutput:
    """The text so far, and the blanks and line breaks that are written once something follows them."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0
        #: How many pieces there were when the start of the last link had been written.
        self._bracket = -1
        self.quotes = 0
        self.is_preformatted = False
        #: Where the text of the innermost item begins, 0 outside.
        self.item_indent = 0
        self.has_list = False
        self._breaks = 0
        self._breaks_are_hard = False
        self.has_blank = False
        #: Preformatted text begins with an empty line, even if it has no text; but not in a list.
        self.starts_preformatted = False
        #: Blanks and breaks are dropped at the start of the document, of an item and of a quotation.
        self._at_start = True

    def add_break(self, lines: int, *, hard: bool = False) -> None:
        self._breaks = max(self._breaks, lines)
        self._breaks_are_hard |= hard

    def drop_breaks(self) -> None:
        self._breaks = 0

    def write(self, text: str, *, starts_block: bool = False, starts_quotation: bool = False) -> None:
        is_needed = self._breaks or self.is_preformatted
        newline = self._newline(starts_quotation=starts_quotation) if is_needed else ""
        if self.starts_preformatted:
            text = self._start_preformatted(text, newline)
        if self.is_preformatted:
            text = text.replace("\n", newline)
        self._append(self._take_pending(newline))
        self._append(text)
        self._at_start = starts_block

    def write_bracket(self) -> None:
        """Write the sign at the start of a link."""
        self.write(BRACKET)
        self._bracket = len(self._pieces)

    def take_bracket(self) -> bool:
        """Take back the sign at the start of a link if nothing was written with it or after it."""
        if self._bracket != len(self._pieces) or self._pieces[-1] != BRACKET:
            return False
        self.length -= len(self._pieces.pop())
        self.has_blank = False
        return True

    def finish(self) -> str:
        return "".join(self._pieces)

    def _append(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    def _newline(self, *, starts_quotation: bool) -> str:
        newline = "\n" + ">" * min(self.quotes, _MOST_QUOTES)
        if self.quotes and (self.starts_preformatted or not starts_quotation):
            newline += " "
        if self.is_preformatted:
            newline += " " * (_PRE_INDENT + (self.item_indent if self.has_list else 0))
        return newline

    def _start_preformatted(self, text: str, newline: str) -> str:
        self.starts_preformatted = False
        if not self.has_list:
            return "\n" + text.removeprefix("\n")
        return text.lstrip(newline) if self.is_preformatted else text

    def _take_pending(self, newline: str) -> str:
        pending = ""
        if self._breaks and not self._at_start:
            pending = ((HARD_BREAK if self._breaks_are_hard else "") + newline) * self._breaks
            self._breaks_are_hard = False
        elif self.has_blank and not self._at_start and not self._pieces[-1].endswith("\n"):
            pending = " "
        self.drop_breaks()
        self.has_blank = False
        return pending
