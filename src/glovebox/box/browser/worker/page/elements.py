"""What a DOM snapshot says of the elements of a page: their ids, boxes, and what can be clicked. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

#: The attribute that an element's id is written to.
BID = "bid"

Snapshot = dict[str, Any]


def bids_of(snapshot: Snapshot) -> dict[int, str]:
    """The ids of all elements that have one, by backend node id."""
    found: dict[int, str] = {}
    for document in snapshot["documents"]:
        backend_ids = document["nodes"]["backendNodeId"]
        for index, bid in _bids(document, snapshot["strings"]):
            found[backend_ids[index]] = bid
    return found


def clickable_of(snapshot: Snapshot) -> set[str]:
    """The ids of the elements that listen to clicks."""
    strings = snapshot["strings"]
    key = _bid_key(strings)
    found: set[str] = set()
    for document in snapshot["documents"]:
        attributes = document["nodes"]["attributes"]
        for index in document["nodes"]["isClickable"]["index"]:
            bid = _bid(attributes[index], key, strings)
            if bid:
                found.add(bid)
    return found


def element_properties(
    snapshot: Snapshot, visibility: Mapping[str, float], marked: Collection[str]
) -> dict[str, dict[str, Any]]:
    """What is known of every element that has an id.

    `visibility` is the part of an element that is in view, and `marked` the ids of the elements that a set of
    marks shows. Boxes are `[x, y, width, height]` in the viewport; what is not rendered has none.
    """
    found: dict[str, dict[str, Any]] = {}
    for place, (x, y) in _positions(snapshot).items():
        document = snapshot["documents"][place]
        layout = document["layout"]
        clickable = frozenset(document["nodes"]["isClickable"]["index"])
        bounds = dict(zip(layout["nodeIndex"], layout["bounds"], strict=True))
        rendered = dict(zip(layout["nodeIndex"], layout["clientRects"], strict=True))
        for index, bid in _bids(document, snapshot["strings"]):
            box = None
            if rendered.get(index):
                left, top, width, height = bounds[index]
                box = [left + x, top + y, width, height]
            found[bid] = {
                "visibility": visibility.get(bid, 0.0),
                "bbox": box,
                "clickable": index in clickable,
                "set_of_marks": bid in marked,
            }
    return found


def _positions(snapshot: Snapshot) -> dict[int, tuple[float, float]]:
    """Where the documents of all frames begin in the viewport, parents first."""
    documents = snapshot["documents"]
    positions = {0: (0 - documents[0]["scrollOffsetX"], 0 - documents[0]["scrollOffsetY"])}
    pending = [0]
    while pending:
        place = pending.pop()
        inner = documents[place]["nodes"]["contentDocumentIndex"]
        layout = documents[place]["layout"]
        for index, child in zip(inner["index"], inner["value"], strict=True):
            if child in positions:
                continue
            left, top = 0, 0
            if index in layout["nodeIndex"]:
                bounds = layout["bounds"][layout["nodeIndex"].index(index)]
                left, top = positions[place][0] + bounds[0], positions[place][1] + bounds[1]
            document = documents[child]
            positions[child] = (left - document["scrollOffsetX"], top - document["scrollOffsetY"])
            pending.append(child)
    return positions


def _bids(document: dict[str, Any], strings: list[str]) -> Iterator[tuple[int, str]]:
    """The elements of a document that have an id: their index, and the id."""
    key = _bid_key(strings)
    for index, attributes in enumerate(document["nodes"]["attributes"]):
        if key in attributes:
            bid = _bid(attributes, key, strings)
            if bid:
                yield index, bid


def _bid_key(strings: list[str]) -> int:
    """The number that stands for the attribute's name; one that is never used if no element has it."""
    try:
        return strings.index(BID)
    except ValueError:
        return -2


def _bid(attributes: list[int], key: int, strings: list[str]) -> str | None:
    """Attributes are a list of numbers, of names and values in turn."""
    for place in range(0, len(attributes), 2):
        if attributes[place] == key:
            value = attributes[place + 1]
            return strings[value] if value >= 0 else None
    return None
