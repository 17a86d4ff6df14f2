"""Accessibility trees of Chromium: merged, and as text for agents. No I/O."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

Node = dict[str, Any]

_STATIC_TEXT = "StaticText"
_UNSHOWN_ROLES = frozenset({"LineBreak"})
_UNSHOWN_PROPERTIES = frozenset(
    {"editable", "readonly", "level", "settable", "multiline", "invalid", "focusable"}
)
#: Properties that are named if they hold, and else not mentioned.
_FLAGS = frozenset({"required", "focused", "atomic"})


class FrameTree(NamedTuple):
    """The accessibility tree of one frame."""

    frame_id: str
    #: Its root comes first.
    nodes: Sequence[Node]
    #: What makes its node ids differ from those that another process gave out.
    prefix: str


def merge_trees(trees: Sequence[FrameTree], owners: Mapping[str, tuple[int, int]]) -> list[Node]:
    """All frames as one tree: the root of each hangs under the node of the frame element that holds it.

    `owners` has, by frame id, the index of the tree of that element, and its backend node id. The trees
    that are given are left as they are.
    """
    roots: list[dict[int, str]] = [{} for _ in trees]
    for tree in trees:
        if tree.frame_id in owners and tree.nodes:
            index, element = owners[tree.frame_id]
            roots[index][element] = tree.prefix + tree.nodes[0]["nodeId"]
    nodes: list[Node] = []
    for tree, inner in zip(trees, roots, strict=True):
        for node in tree.nodes:
            # An element that is hidden or plays another role hides its document with it.
            root = inner.get(node.get("backendDOMNodeId", 0)) if inner and _role(node) == "Iframe" else None
            nodes.append(_place(node, tree.prefix, root) if tree.prefix or root is not None else node)
    return nodes


def _place(node: Node, prefix: str, root: str | None) -> Node:
    children = [prefix + child for child in node.get("childIds", ())]
    if root is not None:
        children.append(root)
    placed = {**node, "nodeId": prefix + node["nodeId"], "childIds": children}
    if "parentId" in node:
        placed["parentId"] = prefix + node["parentId"]
    return placed


def write_bids(nodes: Sequence[Node], bids: Mapping[int, str], marker: str) -> None:
    """Write the ids of elements into their nodes, and remove the descriptions that only marked elements.

    What Chromium itself puts into an element, the fields of a date say, is marked with it and has its id.
    """
    known: dict[str, str] = {}
    for node in nodes:
        bid = bids.get(node.get("backendDOMNodeId", 0)) or known.get(node.get("parentId", ""))
        own = node.get("backendDOMNodeId", 0) in bids
        if bid is not None:
            known[node["nodeId"]] = bid
        description = node.get("description")
        marked = description is not None and description.get("value") == marker
        if marked:
            del node["description"]
        if bid is not None and (own or marked) and not node.get("ignored"):
            node["browsergym_id"] = bid


def tree_text(nodes: Sequence[Node], clickable: Container[str], *, limit: int) -> str:
    """A tree as text: a line for each node, indented with tabs. `clickable` are ids of elements.

    Ends between two lines, and says so, if it were longer than `limit` characters.
    """
    if not nodes:
        return ""
    places = {node["nodeId"]: place for place, node in enumerate(nodes)}
    # A node is shown in one place, so that ids that lead back to their ancestors come to an end.
    seen = bytearray(len(nodes))
    names = _Names()
    lines: list[str] = []
    room = limit + 1
    more = 0
    pending = [(0, 0, "")]
    while pending:
        place, depth, parent_name = pending.pop()
        if seen[place]:
            continue
        seen[place] = 1
        node = nodes[place]
        role = _role(node)
        name = ""
        if "name" in node and role not in _UNSHOWN_ROLES:
            name = node["name"].get("value") or ""
            if role != _STATIC_TEXT or not names.hold(parent_name, name):
                if not more:
                    line = "\t" * depth + _line(node, role, name, clickable)
                    room -= len(line) + 1
                    if room >= 0:
                        lines.append(line)
                more += room < 0
                depth += 1
        for child in reversed(node.get("childIds", ())):
            if child in places:
                pending.append((places[child], depth, name))
    if more:
        lines.append(f"[... {more} more lines; the tree is cut after {limit} characters]")
    return "\n".join(lines)


class _Names:
    """Looks for texts in the names of the nodes they are in, and goes through a long one only once."""

    _LONG = 1_000
    _PATIENCE = 50_000_000

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        #: How many characters may be searched out of order, before texts are taken to be something else.
        self._patience = self._PATIENCE

    def hold(self, name: str, text: str) -> bool:
        """Whether a text is part of a name."""
        if len(name) < self._LONG:
            return text in name
        # Most texts come in the order in which they are in the name.
        place = name.find(text, self._places.get(name, 0)) if self._patience > 0 else -1
        if place < 0 and self._patience > 0:
            self._patience -= len(name)
            place = name.find(text)
        if place >= 0:
            self._places[name] = place
        return place >= 0


def _role(node: Node) -> str:
    role: str = node["role"]["value"] if "role" in node else ""
    return role


def _line(node: Node, role: str, name: str, clickable: Container[str]) -> str:
    line = role if role == "generic" and not name else f"{role} {name.strip()!r}"
    bid = node.get("browsergym_id")
    if bid is not None:
        line = f"[{bid}] {line}"
    value = node.get("value", {}).get("value")
    if value is not None:
        line += f" value={value!r}"
    if bid is not None and role != _STATIC_TEXT and bid in clickable:
        line += ", clickable"
    for item in node.get("properties", ()):
        kind = item["name"]
        held = item.get("value", {})
        if kind in _UNSHOWN_PROPERTIES or "value" not in held:
            continue
        if kind not in _FLAGS:
            line += f", {kind}={held['value']!r}"
        elif held["value"]:
            line += f", {kind}"
    return line
