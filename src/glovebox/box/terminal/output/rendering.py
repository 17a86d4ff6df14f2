"""Raw terminal output to the text a person would have seen. Pure functions of bytes."""

from __future__ import annotations

import codecs
import re

from glovebox.box.terminal.output.screen import SEQUENCE, Screen, split_cells

#: Anything that is not plain text, line ends and tabs.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: Sequences that change colours, titles or modes, or ring the bell, but move no text.
_HARMLESS = re.compile(
    r"\x1b\[[0-9;:]*m"
    r"|\x1b\](?:[^\x07\x1b\n]*)(?:\x07|\x1b\\)?"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b\[\?(?!(?:1049|1047|47)[hl])[0-9;]*[hlrsu]"
    r"|\x1b[()*+][0-9A-Za-z]|\x1b[=>]"
    r"|[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
#: Sequences that move between lines, so that lines cannot be rendered one by one.
_VERTICAL = re.compile(r"\x1b\[[0-9;]*[ABEFHJLMSTdfsu]|\x1b[78DEMc]|\x1b\[\?(?:1049|1047|47)[hl]|[\v\f]")
_CONTROL_OR_TAB = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]")
#: After these the line is empty and the cursor at its beginning.
_ERASED = ("\r\x1b[K", "\r\x1b[0K", "\r\x1b[2K", "\x1b[2K\r")
_ERASE_RIGHT = re.compile(r"\x1b\[0?K")
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")
_UNFINISHED = re.compile(
    rb"(?:\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)?"
    rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
#: Longer sequences are not waited for.
_LONGEST_SEQUENCE = 4096


def _bad_bytes(error: UnicodeError) -> tuple[str, int]:
    """Drop bytes that cannot start a character, as a terminal does; show a broken character as such."""
    assert isinstance(error, UnicodeDecodeError)
    return "" if error.reason == "invalid start byte" else "\ufffd", error.end


_ERRORS = "glovebox.terminal"
codecs.register_error(_ERRORS, _bad_bytes)


def render(data: bytes, *, rows: int, columns: int) -> list[str]:
    """The lines on the screen and above it; the last one is where the cursor would be."""
    text = data.decode("utf-8", _ERRORS).replace("\r\n", "\n")
    if _CONTROL.search(text):
        text = re.sub("\r+\n", "\n", _HARMLESS.sub("", text))
        if _VERTICAL.search(text):
            screen = Screen(rows, columns)
            screen.feed(text)
            return screen.lines()
    return [_line(line, columns) for line in text.split("\n")]


def _line(text: str, columns: int) -> str:
    if "\r" in text:
        text = _last_writing(text)
    if "\x1b" in text and "\r" not in text and "\b" not in text:
        # Tools that colour matches often erase to the right, where there is no text.
        plain = _ERASE_RIGHT.sub("", text)
        text = text if _CONTROL.search(plain) else plain
    if _CONTROL.search(text) or ("\t" in text and not text.isascii()):
        screen = Screen(1, columns)
        screen.feed(text)
        return screen.lines()[0]
    return text.expandtabs(8).rstrip()


def _last_writing(text: str) -> str:
    """The visible part of a line that was overwritten, like a progress bar."""
    blank = max(text.rfind(erased) + len(erased) if erased in text else 0 for erased in _ERASED)
    text = text[blank:]
    if not text.isascii() or _CONTROL_OR_TAB.search(text):
        return text
    shown = ""
    for part in reversed(text.split("\r")):
        if len(part) > len(shown):
            shown += part[len(shown) :]
    return shown


def end_column(data: bytes) -> int:
    """In which column the cursor is after a few lines that move it only to the right and to new lines."""
    text = _ANY_CONTROL.sub("", data.decode("utf-8", _ERRORS))
    return len(split_cells(re.split("[\r\n]", text)[-1])[1])


def split_unfinished(data: bytes) -> tuple[bytes, bytes]:
    """The bytes that can be rendered now, and those that must be rendered again with what follows.

    The latter are an incomplete character or sequence; or everything since a program took over the screen,
    which is shown as a whole each time and is part of the former too.
    """
    switches = list(_ALTERNATE.finditer(data))
    if switches and switches[-1][1] == b"h":
        return data, data[switches[-1].start() :]
    found = _UNFINISHED.search(data, max(0, len(data) - _LONGEST_SEQUENCE))
    return (data[: found.start()], found[0]) if found else (data, b"")


class LiveText:
    """Text for live viewers, as soon as it can be decoded: colours are removed, nothing is rearranged.

    Carriage returns stay: a client that shows the text may overwrite the line.
    """

    def __init__(self) -> None:
        self._held = b""
        self._settled = 0

    def feed(self, data: bytes) -> tuple[str, int]:
        """The text that `data` adds, and how many of all bytes so far the text represents.

        An incomplete character or sequence waits for its rest.
        """
        if self._held:
            data = self._held + data
        cut = len(data)
        if data and (data[-1] == 0x0D or data[-1] >= 0x80 or b"\x1b" in data[-_LONGEST_SEQUENCE:]):
            unfinished = _UNFINISHED_LIVE.search(data, max(0, len(data) - _LONGEST_SEQUENCE))
            cut = unfinished.start() if unfinished else cut
        self._held = data[cut:]
        self._settled += cut
        return _readable(data[:cut]), self._settled

    def flush(self) -> tuple[str, int]:
        """The text of an incomplete character or sequence at the end."""
        held, self._held = self._held, b""
        self._settled += len(held)
        return _readable(held), self._settled


def _readable(data: bytes) -> str:
    data = data.replace(b"\r\n", b"\n")
    text = data.decode("utf-8", _ERRORS)
    if not data.translate(None, _PLAIN):  # many times faster than a search for control characters
        return text
    return _ANY_CONTROL.sub("", text) if _CONTROL.search(text) else text


_ANY_CONTROL = re.compile(SEQUENCE.pattern + r"|[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
#: Bytes without a control character among them, in any encoding of one.
_PLAIN = bytes([0x09, 0x0A, *range(0x20, 0x7F), *range(0x80, 0xC2), *range(0xC3, 0x100)])
_UNFINISHED_LIVE = re.compile(rb"(?:\r|" + _UNFINISHED.pattern + rb")\Z")
