"""Pictures, documents and films that `read` hands out as data URLs."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable

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
