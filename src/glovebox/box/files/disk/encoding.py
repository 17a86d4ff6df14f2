"""Which encoding a text file is in, so that it can be shown, changed and written back in the same."""

from __future__ import annotations

import codecs
import os
import threading
from collections import OrderedDict
from typing import NamedTuple

#: A guess is only believed above this confidence.
_SURE = 0.9
_SAMPLE = 1_000_000
_REMEMBERED = 1000

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
        return data[len(self.mark) :].decode(self.codec)

    def encode(self, text: str) -> bytes:
        """The bytes of a file with this text."""
        return self.mark + text.encode(self.codec)


UTF8 = TextEncoding("utf-8")


class Encodings:
    """Decodes files, remembering what had to be guessed until the file changes."""

    def __init__(self) -> None:
        self._guesses: OrderedDict[str, tuple[int, int, TextEncoding]] = OrderedDict()
        self._lock = threading.Lock()

    def decode(self, path: str, status: os.stat_result, data: bytes) -> tuple[str, TextEncoding]:
        """The text of the file at `path`, and what it is encoded in.

        Raises:
            UnicodeDecodeError: it is not UTF-8, nor anything a good guess could be made for.
        """
        if (told := marked(data)) is not None:
            return told.decode(data), told
        try:
            return data.decode(), UTF8
        except UnicodeDecodeError:
            encoding = self._recall(path, status) or guess(data)
            text = encoding.decode(data)
        self.remember(path, status, encoding)
        return text, encoding

    def remember(self, path: str, status: os.stat_result, encoding: TextEncoding) -> None:
        """Keep to `encoding` for this state of the file."""
        with self._lock:
            self._guesses[path] = (status.st_mtime_ns, status.st_size, encoding)
            self._guesses.move_to_end(path)
            if len(self._guesses) > _REMEMBERED:
                self._guesses.popitem(last=False)

    def _recall(self, path: str, status: os.stat_result) -> TextEncoding | None:
        with self._lock:
            known = self._guesses.get(path)
            if known is None or known[:2] != (status.st_mtime_ns, status.st_size):
                return None
            self._guesses.move_to_end(path)
            return known[2]


def guess(data: bytes) -> TextEncoding:
    """The likely encoding of text that has no mark and is not UTF-8; UTF-8 when nothing is likely."""
    import charset_normalizer  # slow to load, and hardly ever needed

    found = charset_normalizer.detect(data[:_SAMPLE])
    name, confidence = found["encoding"], found["confidence"]
    if not isinstance(name, str) or not isinstance(confidence, float) or confidence <= _SURE:
        return UTF8
    return UTF8 if name.lower() == "ascii" else TextEncoding(name)


def marked(data: bytes) -> TextEncoding | None:
    """The encoding that a byte order mark tells."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return TextEncoding(codec, mark)
    return None
