"""Accessibility trees become the text that BrowserGym makes of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.browser.worker.page.accessibility_tree import (
    FrameTree,
    Node,
    merge_trees,
    tree_text,
    write_bids,
)
from glovebox.box.browser.worker.page.elements import bids_of, clickable_of
from tests.box.browser.test_elements import MARKER, PAGES, captured, frame_owners

_browsergym: Any = import_module("browsergym.utils.obs")
_UNLIMITED = 10**9


def text_of_browsergym(nodes: list[Node], clickable: set[str]) -> str:
    bids = {node["browsergym_id"] for node in nodes if "browsergym_id" in node}
    properties = {
        bid: {"visibility": 1.0, "bbox": None, "clickable": bid in clickable, "set_of_marks": False}
        for bid in bids
    }
    text = _browsergym.flatten_axtree_to_str(
        {"nodes": nodes}, properties, with_clickable=True, skip_generic=False, filter_visible_only=False
    )
    assert isinstance(text, str)
    return text


def node(place: int | str, role: str, name: str | None = None, children: Any = (), **more: Any) -> Node:
    named = {} if name is None else {"name": {"type": "computedString", "value": name}}
    ids = [str(child) for child in children]
    return {"nodeId": str(place), "role": {"type": "role", "value": role}, "childIds": ids, **named, **more}


def whole(name: str) -> tuple[list[Node], set[str]]:
    """The tree of a page with all its frames, and the ids of what can be clicked."""
    snapshot, trees = captured(name)
    bids = bids_of(snapshot)
    for tree in trees:
        write_bids(tree.nodes, bids, MARKER)
    indexes = {tree.frame_id: index for index, tree in enumerate(trees)}
    owners = {
        frame: (indexes[parent], element) for frame, (parent, element) in frame_owners(snapshot).items()
    }
    return merge_trees(trees, owners), clickable_of(snapshot)


@pytest.mark.parametrize("name", PAGES)
def test_the_text_of_a_page_is_that_of_browsergym(name: str) -> None:
    nodes, clickable = whole(name)
    text = tree_text(nodes, clickable, limit=_UNLIMITED)
    assert text == text_of_browsergym(nodes, clickable)
    assert text.startswith("RootWebArea")


def test_elements_are_told_with_their_ids() -> None:
    nodes, clickable = whole("clicks")
    lines = [line.strip() for line in tree_text(nodes, clickable, limit=_UNLIMITED).splitlines()]
    assert "[3] generic, clickable" in lines
    assert "[6] button 'button'" in lines


def test_what_marked_elements_is_not_seen() -> None:
    nodes, _ = whole("odd")
    described = [node["description"]["value"] for node in nodes if "description" in node]
    assert MARKER not in described
    assert "mine" in described


def test_only_what_is_not_ignored_gets_an_id() -> None:
    described = {"type": "computedString", "value": MARKER}
    roledescription = {"name": "roledescription", "value": {"type": "string", "value": MARKER}}
    nodes = [
        node(1, "button", "B", backendDOMNodeId=7, description=described, properties=[roledescription]),
        node(2, "none", backendDOMNodeId=8, ignored=True),
        node(3, "StaticText", "text", backendDOMNodeId=9, description={"value": "another"}),
        node(4, "InlineTextBox", "text"),
    ]
    write_bids(nodes, {7: "a1", 8: "a2"}, MARKER)
    assert nodes[0]["browsergym_id"] == "a1"
    assert "description" not in nodes[0]
    assert nodes[0]["properties"] == [roledescription]
    assert not any("browsergym_id" in other for other in nodes[1:])
    assert nodes[2]["description"] == {"value": "another"}


def test_what_chromium_puts_into_an_element_has_its_id() -> None:
    marked = {"type": "computedString", "value": MARKER}
    nodes = [
        node(1, "Date", "", [2], backendDOMNodeId=7, description=dict(marked)),
        node(2, "none", None, [3, 4], backendDOMNodeId=8, parentId="1", ignored=True),
        node(3, "spinbutton", "Month", backendDOMNodeId=9, parentId="2", description=dict(marked)),
        node(4, "StaticText", "/", backendDOMNodeId=10, parentId="2"),
    ]
    write_bids(nodes, {7: "5"}, MARKER)
    assert [one.get("browsergym_id") for one in nodes] == ["5", None, "5", None]
    assert not any("description" in one for one in nodes)


def test_frames_are_shown_where_they_are() -> None:
    nodes, clickable = whole("frames")
    lines = tree_text(nodes, clickable, limit=_UNLIMITED).splitlines()
    (outer,) = (line for line in lines if line.lstrip("\t").startswith("[b] Iframe"))
    (inner,) = (line for line in lines if line.lstrip("\t").startswith("[ba] Iframe"))
    (button,) = (line for line in lines if "[ba4] button 'B'" in line)
    assert outer.count("\t") < inner.count("\t") < button.count("\t")
    assert lines.index(outer) < lines.index(inner) < lines.index(button)
    assert "Hidden" not in "".join(lines)
    assert lines[-1].strip() == "InlineTextBox 'After'"


def test_node_ids_of_other_processes_are_told_apart() -> None:
    frame = {"backendDOMNodeId": 5}
    page = FrameTree("page", [node(1, "RootWebArea", "P", [2]), node(2, "Iframe", "", **frame)], "")
    inner = FrameTree(
        "inner", [node(1, "RootWebArea", "I", [2], **frame), node(2, "button", "B", parentId="1")], "1."
    )
    found = merge_trees([page, inner], {"inner": (0, 5)})
    assert [one["nodeId"] for one in found] == ["1", "2", "1.1", "1.2"]
    assert found[1]["childIds"] == ["1.1"]
    assert found[3]["parentId"] == "1.1"
    assert "parentId" not in found[2]
    assert tree_text(found, set(), limit=_UNLIMITED).splitlines() == [
        "RootWebArea 'P'",
        "\tIframe ''",
        "\t\tRootWebArea 'I'",
        "\t\t\tbutton 'B'",
    ]
    assert page.nodes[1]["childIds"] == [], "the trees that were given are left as they are"
    assert inner.nodes[1]["nodeId"] == "2"


@pytest.mark.parametrize("role", ["none", "IframePresentational", "generic"])
def test_a_frame_that_is_hidden_or_something_else_hides_its_document(role: str) -> None:
    page = FrameTree("page", [node(1, "RootWebArea", "", [2]), node(2, role, backendDOMNodeId=5)], "")
    inner = FrameTree("inner", [node(9, "RootWebArea", "I")], "")
    found = merge_trees([page, inner], {"inner": (0, 5)})
    assert [one["nodeId"] for one in found] == ["1", "2", "9"]
    assert "'I'" not in tree_text(found, set(), limit=_UNLIMITED)


def test_a_frame_without_a_tree_or_an_owner_does_no_harm() -> None:
    page = FrameTree("page", [node(1, "Iframe", "", backendDOMNodeId=5)], "")
    lost = FrameTree("lost", [node(2, "RootWebArea", "lost")], "")
    found = merge_trees([page, FrameTree("empty", [], ""), lost], {"empty": (0, 5)})
    assert tree_text(found, set(), limit=_UNLIMITED) == "Iframe ''"
    assert merge_trees([], {}) == []


_roles = st.sampled_from(["generic", "StaticText", "button", "LineBreak", "InlineTextBox", "none", "link"])
_names = st.none() | st.sampled_from(["", " ", "a", "ab", " a ", "it's", 'say "x"', "\n", "é😀", "\ud800"])
_values = st.none() | st.text(max_size=3) | st.booleans() | st.integers(0, 3) | st.floats(0, 1)
_held = st.fixed_dictionaries({}, optional={"type": st.just("string"), "value": _values})
_kinds = st.sampled_from(["focused", "required", "atomic", "level", "focusable", "invalid", "url", "checked"])
_properties = st.lists(
    st.fixed_dictionaries({"name": _kinds}, optional={"value": _held}), max_size=3, unique_by=repr
)


@st.composite
def trees(draw: st.DrawFn) -> list[Node]:
    """Trees with ids that lead nowhere or to the node itself, as Chromium's do."""
    count = draw(st.integers(1, 12))
    nodes: list[Node] = []
    for place in range(count):
        one = node(place, draw(_roles), draw(_names), properties=draw(_properties))
        one["childIds"] += draw(st.lists(st.sampled_from(["-7", str(place)]), max_size=1))
        if draw(st.booleans()):
            one["value"] = draw(_held)
        if draw(st.booleans()):
            one["browsergym_id"] = draw(st.sampled_from(["1", "2", "a3"]))
        if place:
            nodes[draw(st.integers(0, place - 1))]["childIds"].append(str(place))
        nodes.append(one)
    return nodes


@settings(deadline=None)
@given(trees(), st.sets(st.sampled_from(["1", "a3"])))
def test_the_text_of_any_tree_is_that_of_browsergym(nodes: list[Node], clickable: set[str]) -> None:
    assert tree_text(nodes, clickable, limit=_UNLIMITED) == text_of_browsergym(nodes, clickable)


@settings(deadline=None)
@given(trees(), st.integers(0, 200))
def test_a_tree_that_is_cut_tells_how_much_is_missing(nodes: list[Node], limit: int) -> None:
    lines = tree_text(nodes, set(), limit=_UNLIMITED).split("\n")
    text = tree_text(nodes, set(), limit=limit)
    if len("\n".join(lines)) <= limit:
        assert text == "\n".join(lines)
        return
    *kept, note = text.split("\n")
    assert kept == lines[: len(kept)]
    assert len("\n".join(kept)) <= limit
    assert len("\n".join(lines[: len(kept) + 1])) > limit
    assert note == f"[... {len(lines) - len(kept)} more lines; the tree is cut after {limit} characters]"


def test_no_nodes_are_no_text() -> None:
    assert tree_text([], set(), limit=10) == ""


def test_nodes_may_lack_what_others_have() -> None:
    nodes: list[Node] = [
        {
            "nodeId": "1",
            "role": {"value": "main"},
            "name": {"type": "computedString"},
            "childIds": ["2", "3"],
        },
        {"nodeId": "2", "role": {"value": "none"}, "ignored": True},
        {"nodeId": "3", "name": {"value": "no role"}, "value": {"type": "string"}},
    ]
    assert tree_text(nodes, set(), limit=_UNLIMITED) == "main ''\n\t 'no role'"


def test_text_that_its_parent_is_named_after_is_left_out() -> None:
    nodes = [
        node(0, "button", "Send it", [1, 2, 3]),
        node(1, "StaticText", "Send", [4]),
        node(2, "StaticText", "Sent"),
        node(3, "none", None, [5], ignored=True),
        node(4, "InlineTextBox", "Send"),
        node(5, "StaticText", "it"),
    ]
    assert tree_text(nodes, set(), limit=_UNLIMITED).splitlines() == [
        "button 'Send it'",
        "\tInlineTextBox 'Send'",
        "\tStaticText 'Sent'",
        "\tStaticText 'it'",
    ]


def test_ids_that_lead_round_in_circles_come_to_an_end() -> None:
    nodes = [
        node(0, "main", "M", [1, 2, 1]),
        node(1, "group", "G", [0, 2]),
        node(2, "button", "B", [1, 2]),
    ]
    assert tree_text(nodes, set(), limit=_UNLIMITED).splitlines() == [
        "main 'M'",
        "\tgroup 'G'",
        "\t\tbutton 'B'",
    ]


def test_a_tree_may_be_very_deep() -> None:
    nodes = [node(place, "generic", "", [place + 1]) for place in range(200_000)]
    kept = tree_text(nodes, set(), limit=100_000).split("\n")
    assert kept[-1] == f"[... {200_000 - len(kept) + 1} more lines; the tree is cut after 100000 characters]"
    assert kept[-2].count("\t") == len(kept) - 2


def test_long_names_are_not_searched_again_for_each_text() -> None:
    words = [f"word {number}" for number in range(20_000)]
    texts = [node(place, "StaticText", word) for place, word in enumerate(words, 1)]
    heading = node(0, "heading", " ".join(words), range(1, len(words) + 1))
    assert tree_text([heading, *texts, node(-1, "x")], set(), limit=_UNLIMITED).count("\n") == 0
    other = node(0, "heading", "x" * 5_000_000, range(1, len(words) + 1))
    assert tree_text([other, *texts], set(), limit=_UNLIMITED).count("\n") == len(words)


def test_texts_are_found_in_long_names_in_any_order() -> None:
    name = "-".join(map(str, range(1000)))
    texts = ["999", "5-6", "missing", "998-999", "0-1", "0-1"]
    nodes = [node(0, "heading", name, range(1, 7))]
    nodes += [node(place, "StaticText", text) for place, text in enumerate(texts, 1)]
    assert tree_text(nodes, set(), limit=_UNLIMITED).splitlines()[1:] == ["\tStaticText 'missing'"]
