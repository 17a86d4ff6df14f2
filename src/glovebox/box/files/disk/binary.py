"""Whether a file is binary, by the test the contract prescribes."""

from __future__ import annotations

import codecs

from glovebox.box.files.disk.encoding import UTF8, guess, marked
from glovebox.box.files.disk.workspace import SAMPLE_SIZE

#: The whole content of the error observation that answers a `read` of a binary file.
BINARY_FILE = "ERROR_BINARY_FILE"

_PRINTABLE = b"\n\r\t\f\b" + bytes(range(32, 127))
_HIGH = bytes(range(127, 256))


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
    """Whether its encoding is told by a mark or can be guessed; without a mark, text has no zeros."""
    found = marked(sample)
    if found is None:
        found = UTF8 if b"\x00" in sample else guess(sample)
    return found != UTF8 and _decodes(sample, found.codec)


def _decodes(sample: bytes, encoding: str) -> bool:
    """Whether the sample is text of that encoding; a full one may end within a character."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        decoder.decode(sample, final=len(sample) < SAMPLE_SIZE)
    except (LookupError, UnicodeDecodeError):
        return False
    return True
