"""What results are made of, for formats that cannot hold everything."""

from __future__ import annotations

from collections.abc import Collection

from glovebox.protocol.tools.base import ImagePart, TextPart, ToolResult

#: Providers refuse results without any content.
NOTHING = "(no output)"
#: What models of most providers can look at.
COMMON_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def split(result: ToolResult, images: Collection[str]) -> tuple[str, list[ImagePart]]:
    """The text of a result, never empty, and the pictures of the kinds that can be shown.

    The text says of every other picture that it was left out.
    """
    shown: list[ImagePart] = []
    lines: list[str] = []
    for part in result.parts:
        if isinstance(part, TextPart):
            lines.append(part.text)
        elif part.media_type in images:
            shown.append(part)
        else:
            lines.append(left_out(part))
    text = "\n".join(lines)
    return text if text.strip() or shown else NOTHING, shown


def left_out(part: ImagePart) -> str:
    """What is said in place of a picture."""
    return (
        f"[A picture ({part.media_type}) is part of this result, but it cannot be passed on in this format.]"
    )
