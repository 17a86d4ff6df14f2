"""Reading a file for the `read` action."""

from __future__ import annotations

import stat

from glovebox.box.credentials import own_rights
from glovebox.box.files.binary import BINARY_FILE, is_binary
from glovebox.box.files.line_index import LineIndex, TooSlow
from glovebox.box.files.lines import cut, cut_range, shown
from glovebox.box.files.media import data_url, media_type
from glovebox.box.files.workspace import SMALL, Refused, Source, pieces

#: How much `read` answers with, unless a setting says otherwise.
MAX_BYTES = 32 << 20


def read_file(path: str, *, test_binary: bool, start: int, end: int, most: int = MAX_BYTES) -> str:
    """The lines of a text file, or a media file as a data URL; of at most `most` bytes.

    Raises:
        Refused: it is not a file, or not one that can be read.
        FileNotFoundError: nothing is there.
    """
    with Source(path) as source:
        mode = source.status.st_mode
        if stat.S_ISDIR(mode):
            raise Refused(f"Path is a directory: {path}. You can only read files")
        if not stat.S_ISREG(mode):
            raise Refused(f"Path is not a regular file: {path}. You can only read files")
        if test_binary and _is_binary(source):
            raise Refused(BINARY_FILE)
        media = media_type(path)
        if media is not None:
            return _data_url(path, media, source, most)
        try:
            return shown(_text(path, source, start, end, most))
        except UnicodeDecodeError:
            raise Refused(f"File could not be decoded as utf-8: {path}.") from None
        except TooSlow:
            raise Refused(
                f"File is too large: {path} could not be gone through in time. "
                "Read a part of it with a command, such as head, tail or sed -n.",
                "too_large",
            ) from None


def _is_binary(source: Source) -> bool:
    sample = source.sample()
    with own_rights():  # what guesses encodings is imported when it is first used
        return is_binary(sample)


def _text(path: str, source: Source, start: int, end: int, most: int) -> str:
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


def _data_url(path: str, media: str, source: Source, most: int) -> str:
    size = source.status.st_size
    if size * 4 // 3 > most:
        raise _too_large(path, size * 4 // 3, most)
    return data_url(media, pieces(source.fd, 0, size or most))  # files of /proc say they have no size


def _too_large(path: str, size: int, most: int) -> Refused:
    return Refused(
        f"File is too large: {path} would be answered with {max(size, most + 1):,} bytes, and at most "
        f"{most:,} are read at once. Read fewer lines, with start and end, use a command such as head, or "
        "download the file.",
        "too_large",
    )
