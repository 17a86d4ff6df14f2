"""What a step brings, small enough to be imported by whatever is measured."""

from __future__ import annotations

from dataclasses import dataclass

#: What a picture in an answer begins with.
PICTURE = "data:image/png;base64,"


@dataclass(frozen=True)
class Seen:
    """A page after a step, as an agent gets it, and the time until it was there."""

    milliseconds: float
    url: str
    #: The text for the agent, with the accessibility tree.
    text: str
    error: str
    #: How many of the two pictures are there: of the page, and of the page with its marks.
    pictures: int
    #: Of the answer as JSON.
    size: int
