"""Reading a file for the `read` action."""

from __future__ import annotations

import stat

from glovebox.box.files.binary import BINARY_FILE, is_binary
from glovebox.box.files.lines import cut, shown
from glovebox.box.files.media import data_url, media_type
from glovebox.box.files.workspace import Refused, Source


def read_file(path: str, *, test_binary: bool, start: int, end: int) -> str:
    """The lines of a text file, or a media file as a data URL.

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
        if test_binary and is_binary(source.sample()):
            raise Refused(BINARY_FILE)
        data = source.content()
    media = media_type(path)
    if media is not None:
        return data_url(media, data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Refused(f"File could not be decoded as utf-8: {path}.") from None
    return cut(shown(text), start, end)
