"""Finding the elements of pages, by the ids that agents know them by."""

from __future__ import annotations

import re

from playwright.async_api import FrameLocator, Locator, Page

#: `ab12` is element 12 in frame `ab`, which is in frame `a`. Ids of frames are letters, and those of more
#: than one letter go on in capitals: `aB3` is in frame `aB` of the page itself.
_BID = re.compile(r"((?:[a-z][A-Z]*)*)([0-9]*)")
_FRAME = re.compile(r"[a-z][A-Z]*")


async def element_of(page: Page, bid: str) -> Locator:
    """The element with an id, in whatever frame it is.

    Raises:
        ValueError: there is none.
    """
    parts = _BID.fullmatch(bid)
    if parts is None or not bid:
        raise _missing(bid)
    ends = [letters.end() for letters in _FRAME.finditer(parts[1])]
    # The id of a frame is that of an element, too.
    around = ends if parts[2] else ends[:-1]
    place: Page | FrameLocator = page
    for end in around:
        place = (await _present(place, bid[:end], bid)).content_frame
    return await _present(place, bid, bid)


async def _present(place: Page | FrameLocator, id_: str, wanted: str) -> Locator:
    element = place.get_by_test_id(id_)
    if not await element.count():
        raise _missing(wanted)
    return element


def _missing(bid: str) -> ValueError:
    return ValueError(f'Could not find element with bid "{bid}"')
