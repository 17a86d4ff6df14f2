"""Encodings of text files, which edits keep, and the contract's test for binary files."""

from __future__ import annotations

import codecs
import threading
from collections import OrderedDict
from typing import NamedTuple

from glovebox.box.credentials import own_rights

#: A guess is only believed above this confidence.
_SURE = 0.9
_GUESSED_FROM = 1_000_000
_REMEMBERED = 1000

#: How many bytes of a file decide whether it is binary.
SAMPLE_SIZE = 1024
#: The whole content of the error observation that answers a `read` of a binary file.
BINARY_FILE = "ERROR_BINARY_FILE"

_PRINTABLE = b"\n\r\t\f\b" + bytes(range(32, 127))
_HIGH = bytes(range(127, 256))

#: Longest first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class TextEncoding(NamedTuple):
    """A codec, and the byte order mark the file begins with."""

    codec: str
    mark: bytes = b""

    def decode(self, data: bytes) -> str:
        """The text of a file with these bytes."""
        with own_rights():  # codecs are modules, imported when they are first used
            return data[len(self.mark) :].decode(self.codec)

    def encode(self, text: str) -> bytes:
        """The bytes of a file with this text."""
        return self.mark + text.encode(self.codec)


UTF8 = TextEncoding("utf-8")


class Encodings:
    """Decodes files. A guessed encoding is remembered for this content of the file."""

    def __init__(self) -> None:
        self._guesses: OrderedDict[tuple[str, int, int], TextEncoding] = OrderedDict()
        self._lock = threading.Lock()

    def decode(self, path: str, data: bytes) -> tuple[str, TextEncoding]:
        """The text of the file at `path`, and its encoding.

        Raises:
            UnicodeDecodeError: it is not UTF-8, nor anything a good guess could be made for.
        """
        if (encoding := marked(data)) is not None:
            return encoding.decode(data), encoding
        try:
            return data.decode(), UTF8
        except UnicodeDecodeError:
            with self._lock:
                encoding = self._guesses.get(_key(path, data))
            encoding = encoding or guess(data)
            text = encoding.decode(data)
        self.remember(path, data, encoding)
        return text, encoding

    def remember(self, path: str, data: bytes, encoding: TextEncoding) -> None:
        key = _key(path, data)
        with self._lock:
            self._guesses[key] = encoding
            self._guesses.move_to_end(key)
            if len(self._guesses) > _REMEMBERED:
                self._guesses.popitem(last=False)


def _key(path: str, data: bytes) -> tuple[str, int, int]:
    return path, len(data), hash(data)


def guess(data: bytes) -> TextEncoding:
    """The likely encoding of text that has no mark and is not UTF-8; UTF-8 when nothing is likely."""
    with own_rights():  # it imports codecs
        import charset_normalizer  # slow to load, and hardly ever needed

        found = charset_normalizer.detect(data[:_GUESSED_FROM])
    name, confidence = found["encoding"], found["confidence"]
    if not isinstance(name, str) or not isinstance(confidence, float) or confidence <= _SURE:
        return UTF8
    return UTF8 if name.lower() == "ascii" else TextEncoding(name)


def marked(data: bytes) -> TextEncoding | None:
    """The encoding of a file that begins with a byte order mark."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return TextEncoding(codec, mark)
    return None


def is_binary_name(path: str) -> bool:
    """Whether the name alone settles it."""
    return path.endswith(".pyc")


def is_binary(sample: bytes) -> bool:
    """Whether a file that begins with `sample` (at most `SAMPLE_SIZE` bytes) is binary."""
    odd = len(sample.translate(None, _PRINTABLE))
    if odd == 0:
        return False
    odd_share = odd / len(sample)
    low_share = len(sample.translate(None, _HIGH)) / len(sample)
    mostly_high = odd_share > 0.3 and low_share < 0.05
    mostly_control = odd_share > 0.8 and low_share > 0.8
    if mostly_high and _decodes(sample, "utf-8"):
        # Text in a script far from ASCII. A guess from statistics could only be less sure.
        return False
    if mostly_high or mostly_control or b"\x00" in sample or b"\xff" in sample:
        return not _is_some_text(sample)
    return False


def _is_some_text(sample: bytes) -> bool:
    """Whether it has a byte order mark or can be guessed; without a mark, text has no zeros."""
    found = marked(sample)
    if found is None:
        found = UTF8 if b"\x00" in sample else guess(sample)
    return found != UTF8 and _decodes(sample, found.codec)


def _decodes(sample: bytes, encoding: str) -> bool:
    """Whether the sample is text of that encoding; a full one may end within a character."""
    try:
        with own_rights():
            decoder = codecs.getincrementaldecoder(encoding)()
        decoder.decode(sample, final=len(sample) < SAMPLE_SIZE)
    except (LookupError, UnicodeDecodeError):
        return False
    return True
