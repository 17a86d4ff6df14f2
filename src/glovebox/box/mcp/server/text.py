"""Text on its way to a client."""

from __future__ import annotations


def valid(text: str) -> str:
    """Text that can be sent: halves of surrogate pairs, from odd file names, are shown as U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
