"""Reading a file for the `read` action."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable

from glovebox.box.credentials import own_rights
from glovebox.box.files.disk.binary import BINARY_FILE, is_binary
from glovebox.box.files.disk.line_index import LineIndex, TooSlow
from glovebox.box.files.disk.lines import cut, cut_range, shown
from glovebox.box.files.disk.workspace import SMALL, FileError, FileSource, pieces

#: How much `read` answers with, unless a setting says otherwise.
MAX_BYTES = 32 << 20


def read_file(path: str, *, test_binary: bool, start: int, end: int, most: int = MAX_BYTES) -> str:
    """The lines of a text file, or a media file as a data URL; of at most `most` bytes.

    Raises:
        Refused: it is not a file, or not one that can be read.
        FileNotFoundError: nothing is there.
    """
    with FileSource(path) as source:
        mode = source.status.st_mode
        if stat.S_ISDIR(mode):
            raise FileError(f"Path is a directory: {path}. You can only read files")
        if not stat.S_ISREG(mode):
            raise FileError(f"Path is not a regular file: {path}. You can only read files")
        if test_binary and _is_binary(source):
            raise FileError(BINARY_FILE)
        media = media_type(path)
        if media is not None:
            return _data_url(path, media, source, most)
        try:
            return shown(_text(path, source, start, end, most))
        except UnicodeDecodeError:
            raise FileError(f"File could not be decoded as utf-8: {path}.") from None
        except TooSlow:
            raise FileError(
                f"File is too large: {path} could not be gone through in time. "
                "Read a part of it with a command, such as head, tail or sed -n.",
                "too_large",
            ) from None


def _is_binary(source: FileSource) -> bool:
    sample = source.sample()
    with own_rights():  # what guesses encodings is imported when it is first used
        return is_binary(sample)


def _text(path: str, source: FileSource, start: int, end: int, most: int) -> str:
    whole = start <= 0 and end == -1
    data = source.content(most if whole else SMALL)
    if data is not None:
        text = data.decode()
        return text if whole else cut(shown(text), start, end)
    if whole:
        raise _too_large(path, source.status.st_size, most)
    # Lines are counted, and text that is no UTF-8 is refused, whichever part is asked for.
    index = LineIndex(source.fd)
    first, last = cut_range(index.lines, start, end)
    begin, stop = index.offset(first), index.offset(last)
    if stop - begin > most:
        raise _too_large(path, stop - begin, most)
    return b"".join(pieces(source.fd, begin, stop)).decode()


def _data_url(path: str, media: str, source: FileSource, most: int) -> str:
    size = source.status.st_size
    if size * 4 // 3 > most:
        raise _too_large(path, size * 4 // 3, most)
    return data_url(media, pieces(source.fd, 0, size or most))  # files of /proc say they have no size


def _too_large(path: str, size: int, most: int) -> FileError:
    return FileError(
        f"File is too large: {path} would be answered with {max(size, most + 1):,} bytes, and at most "
        f"{most:,} are read at once. Read fewer lines, with start and end, use a command such as head, or "
        "download the file.",
        "too_large",
    )


#: The system's own table of types is not asked: an answer must not depend on the machine.
_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".pdf": "application/pdf",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".ogg": "audio/ogg",
}


def media_type(path: str) -> str | None:
    """The type of a file with that name, if it is one that becomes a data URL."""
    name = os.path.basename(path).lower()
    return _TYPES.get(name[name.rfind(".") :]) if "." in name else None


def data_url(media: str, pieces: Iterable[bytes]) -> str:
    """Content that comes in pieces, as a data URL."""
    encoded = [f"data:{media};base64,"]
    rest = b""
    for piece in pieces:
        data = rest + piece
        whole = len(data) - len(data) % 3  # three bytes become four characters
        encoded.append(base64.b64encode(data[:whole]).decode("ascii"))
        rest = data[whole:]
    encoded.append(base64.b64encode(rest).decode("ascii"))
    return "".join(encoded)
