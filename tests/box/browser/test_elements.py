"""What DOM snapshots say of elements is what BrowserGym reads from them."""

from __future__ import annotations

import asyncio
import copy
import functools
from importlib import import_module
from typing import Any, NamedTuple

import pytest
from playwright.async_api import CDPSession, Frame, Page, async_playwright

from glovebox.box.browser.worker.page.accessibility_tree import FrameTree
from glovebox.box.browser.worker.page.elements import (
    Snapshot,
    bids_of,
    clickable_of,
    element_properties,
)
from tests.support.chromium import CHROMIUM, FLAGS

_browsergym: Any = import_module("browsergym.core.observation")

#: How elements are described while a page is captured.
MARKER = "captured"
PAGES = {
    "text": """<title>Text</title><h1>A <em>heading</em>, <b>bold</b><br>and broken</h1>
        <p>Some <code>code</code>, <kbd>keys</kbd>, <del>gone</del> and <a href="/x?a=1&b=2" title="A title">a
        link <i>in</i> it</a>. <a href="http://example.test/">http://example.test/</a> <q>quoted</q></p>
        <ul><li>one<li>two<ol start=7><li>seven<li>eight</ol></ul><ol><li>1. first<li>- second</ol>
        <pre>  kept
           as it is </pre><blockquote>said<p>more</p></blockquote><hr><dl><dt>term<dd>meaning</dl>
        <abbr title="World Wide Web">WWW</abbr> 3 &lt; 4 &amp; 5 &gt; 4 + \\* - 1. <img src=x alt=Picture>
        <style>p { color: #111 }</style><script>const html = "<p>none</p>" </script>""",
    "form": """<form><label>Name <input required value="Ada"></label><input type=checkbox checked
        aria-label=Yes><input type=radio name=r><input type=range value=3>
        <select><option>A<option selected>B</select>
        <select multiple size=3><option>1<option selected>2<option>3</select><textarea>some
        text</textarea><input placeholder=nothing disabled><button>Send</button><input type=file><input
        type=date value=2024-02-29><meter value=.5></meter><progress></progress></form>""",
    "table": """<table><caption>Numbers</caption><thead><tr><th>Name<th headers="a  b">Value</thead>
        <tr><td>one<td>1</tr><tr><td colspan=2><a href=#two>two</a></table>
        <table role=presentation><tr><td>laid<td>out</table>""",
    "clicks": """<div onclick="1">clicked</div><div id=listens>listened to</div><span style="cursor: pointer"
        title='has "quotes" > in it' onclick='say("a > b")'>points</span><button>button</button>
        <a>no link</a><p name=bid>a name</p><script>listens.addEventListener("click", () => 1)</script>""",
    "frames": """<p>Outside</p><iframe title=First style="margin: 30px; border: 5px solid" srcdoc="<meta
        charset=latin1><div class='a   b' style='height: 2000px'>Inside <a href=y rel='x  y'>link</a></div>
        <button>Deep</button><script>scrollTo(0, 1500)</script>"></iframe>
        <iframe srcdoc="<p>Second</p><iframe srcdoc='<b>Third</b><button onclick=1>B</button>'></iframe>">
        </iframe>
        <iframe style="display: none" srcdoc="<p>Hidden</p>"></iframe>
        <iframe role=presentation srcdoc="<p>Presented</p>"></iframe><p>After</p>""",
    "shadows": """<my-card><span slot=title>Slotted</span>Light</my-card><details open><summary>More</summary>
        Shown</details><script>const root = document.querySelector("my-card").attachShadow({mode: "open"});
        root.innerHTML = "Bare <h2><slot name=title></slot></h2><button>In shadow</button><slot></slot>"
        </script><template><p>in a template</p></template>""",
    "scrolled": """<div style="height: 3000px; width: 3000px">tall <button style="position: absolute; top:
        1000px; left: 700px">Far</button><button style="position: fixed; top: 5px">Fixed</button></div>
        <div style="height: 100px; overflow: auto" id=inner><p style="margin-top: 300px">Inner</p></div>
        <script>scrollTo(200, 900); inner.scrollTop = 150</script>""",
    "odd": """<p hidden>hidden</p><p aria-hidden=true>unseen</p><p style="visibility: hidden">invisible</p>
        <x-unknown aria-label="it's &quot;named&quot;">Ünï 😀 مرحبا</x-unknown>
        <p aria-description=mine>own</p>
        <svg width=20 height=20><title>Drawing</title><a href=z><circle r=5 cx=9 cy=9 /></a></svg>
        <div role=alert aria-live=polite aria-atomic=true>Alert</div><div contenteditable>Edit</div>
        <code>&lt;textarea&gt; and &lt;!-- a comment --&gt; and &lt;/textarea&gt;</code><div tabindex=0
        autofocus role=slider aria-valuenow=4 aria-valuetext="four">slide</div>
        <math><mi>x</mi></math><br><wbr>""",
    "empty": "",
}
_MARK = """([prefix, marker]) => {
  let numbered = 0, frames = 0;
  const mark = (root) => {
    for (const element of root.querySelectorAll("*")) {
      const id = element.localName === "iframe" ? String.fromCharCode(97 + frames++) : numbered++;
      element.setAttribute("bid", prefix + id);
      if (!element.hasAttribute("aria-description")) element.setAttribute("aria-description", marker);
      if (element.shadowRoot) mark(element.shadowRoot);
    }
  };
  mark(document);
}"""
_SNAPSHOT = {"computedStyles": [], "includeDOMRects": True, "includePaintOrder": True}


def frame_owners(snapshot: Snapshot) -> dict[str, tuple[str, int]]:
    """By the id of each frame inside another: the id of that one, and the backend node id of the element."""
    strings = snapshot["strings"]
    documents = snapshot["documents"]
    owners: dict[str, tuple[str, int]] = {}
    for document in documents:
        nodes = document["nodes"]
        inner = nodes["contentDocumentIndex"]
        for index, place in zip(inner["index"], inner["value"], strict=True):
            frame_id = strings[documents[place]["frameId"]]
            owners[frame_id] = (strings[document["frameId"]], nodes["backendNodeId"][index])
    return owners


class Capture(NamedTuple):
    """A page as Chromium tells of it."""

    snapshot: dict[str, Any]
    trees: list[FrameTree]


def captured(name: str) -> Capture:
    """One of the pages; the caller may change what it gets."""
    return copy.deepcopy(_captures()[name])


@functools.cache
def _captures() -> dict[str, Capture]:
    return asyncio.run(_capture_all())


async def _capture_all() -> dict[str, Capture]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page(viewport={"width": 1280, "height": 720})
        captures = {name: await _capture(page, html) for name, html in PAGES.items()}
        await browser.close()
    return captures


async def _capture(page: Page, html: str) -> Capture:
    await page.set_content(f"<!doctype html>{html}")
    await _mark(page.main_frame, "")
    session = await page.context.new_cdp_session(page)
    snapshot = await session.send("DOMSnapshot.captureSnapshot", _SNAPSHOT)
    frames = [(await session.send("Page.getFrameTree"))["frameTree"]]
    for branch in frames:
        frames += branch.get("childFrames", ())
    trees = [await _tree(session, branch["frame"]["id"]) for branch in frames]
    await session.detach()
    return Capture(snapshot, trees)


async def _mark(frame: Frame, prefix: str) -> None:
    await frame.evaluate(_MARK, [prefix, MARKER])
    for child in frame.child_frames:
        bid = await (await child.frame_element()).get_attribute("bid")
        assert bid is not None
        await _mark(child, bid)


async def _tree(session: CDPSession, frame_id: str) -> FrameTree:
    told = await session.send("Accessibility.getFullAXTree", {"frameId": frame_id})
    return FrameTree(frame_id, told["nodes"], "")


def told_to_browsergym(
    snapshot: dict[str, Any], visibility: dict[str, float], marked: set[str]
) -> dict[str, Any]:
    """The same snapshot with what BrowserGym writes into attributes."""
    strings: list[str] = snapshot["strings"]
    for document in snapshot["documents"]:
        for attributes in document["nodes"]["attributes"]:
            texts = [strings[place] for place in attributes]
            bid = dict(zip(texts[::2], texts[1::2], strict=True)).get("bid")
            if bid is not None:
                added = {
                    "browsergym_visibility_ratio": str(visibility[bid]),
                    "browsergym_set_of_marks": str(int(bid in marked)),
                }
                for text in (text for pair in added.items() for text in pair):
                    if text not in strings:
                        strings.append(text)
                    attributes.append(strings.index(text))
    return snapshot


@pytest.mark.parametrize("name", PAGES)
def test_elements_have_the_properties_that_browsergym_finds(name: str) -> None:
    snapshot = captured(name).snapshot
    bids = list(bids_of(snapshot).values())
    assert bids
    visibility = {bid: place % 11 / 10 for place, bid in enumerate(bids)}
    marked = set(bids[::3])
    found = element_properties(snapshot, visibility, marked)
    expected = _browsergym.extract_dom_extra_properties(told_to_browsergym(snapshot, visibility, marked))
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize("name", PAGES)
def test_what_can_be_clicked_is_what_browsergym_says(name: str) -> None:
    snapshot = captured(name).snapshot
    expected = _browsergym.extract_dom_extra_properties(snapshot)
    assert clickable_of(snapshot) == {bid for bid, found in expected.items() if found["clickable"]}


def test_listeners_make_elements_clickable() -> None:
    snapshot = captured("clicks").snapshot
    # The body is 2: an attribute, a listener, an attribute, and then a button that nobody listens to.
    assert clickable_of(snapshot) == {"3", "4", "5"}


def test_a_value_is_not_taken_for_the_name_of_an_attribute() -> None:
    strings = ["bid", "name", "5", "6"]
    nodes = {"backendNodeId": [10, 11, 12, 13], "attributes": [[1, 0], [1, 0, 0, 2], [0, -1], []]}
    nodes["isClickable"] = {"index": [0, 1, 2]}
    snapshot = {"strings": strings, "documents": [{"nodes": nodes}]}
    assert bids_of(snapshot) == {11: "5"}
    assert clickable_of(snapshot) == {"5"}


def test_a_page_without_ids_has_none() -> None:
    nodes = {"backendNodeId": [10], "attributes": [[0, 1]], "isClickable": {"index": [0]}}
    snapshot = {"strings": ["class", "x"], "documents": [{"nodes": nodes}]}
    assert bids_of(snapshot) == {}
    assert clickable_of(snapshot) == set()


def test_boxes_are_where_scrolled_frames_show_their_elements() -> None:
    properties = element_properties(captured("frames").snapshot, {"a0": 0.25}, ["a0"])
    assert properties["a0"]["visibility"] == 0.25
    assert properties["a0"]["set_of_marks"] is True
    frame, inside = properties["a"]["bbox"], properties["a0"]["bbox"]
    assert inside[0] >= frame[0]
    assert inside[1] < frame[1] - 1000, "the document was scrolled by 1500 pixels or as far as it goes"


def test_what_is_not_rendered_has_no_box() -> None:
    properties = element_properties(captured("odd").snapshot, {}, ())
    boxes = [found["bbox"] for found in properties.values()]
    assert None in boxes
    assert any(boxes)
    assert all(found["visibility"] == 0.0 for found in properties.values())


def document(bids: list[int], inner: dict[int, int], *, scrolled: int = 0) -> dict[str, Any]:
    """A document of elements with ids in two columns, the second of them not rendered."""
    places = range(len(bids))
    nodes = {
        "parentIndex": [place - 1 for place in places],
        "attributes": [[0, bid] for bid in bids],
        "isClickable": {"index": [0]},
        "contentDocumentIndex": {"index": list(inner), "value": list(inner.values())},
    }
    layout = {
        "nodeIndex": list(places),
        "bounds": [[place, 10 * place, 5.5, 7] for place in places],
        "clientRects": [[] if place == 1 else [0, 0, 5, 7] for place in places],
    }
    return {"nodes": nodes, "layout": layout, "scrollOffsetX": 3, "scrollOffsetY": scrolled}


def test_frames_are_told_of_in_the_order_of_browsergym() -> None:
    documents = [
        document([1, 2, 3], {0: 1, 2: 2}),
        document([4, 5], {0: 3}, scrolled=100),
        document([6, 7, 1], {1: 4, 2: 5}),
        *(document([number], {}, scrolled=number) for number in (8, 9, 10)),
    ]
    strings = ["bid", *(f"b{number}" for number in range(1, 11))]
    snapshot = {"strings": strings, "documents": documents}
    visibility = {f"b{number}": number / 10 for number in range(1, 11)}
    found = element_properties(snapshot, visibility, {"b3"})
    expected = _browsergym.extract_dom_extra_properties(told_to_browsergym(snapshot, visibility, {"b3"}))
    assert found == expected
    assert list(found) == list(expected)
    assert found["b2"]["bbox"] is None
    assert found["b8"]["bbox"] == [-9, -108, 5.5, 7]


def test_frames_are_owned_by_elements_of_other_frames() -> None:
    capture = captured("frames")
    owners = frame_owners(capture.snapshot)
    bids = bids_of(capture.snapshot)
    assert owners.keys() == {tree.frame_id for tree in capture.trees[1:]}
    assert sorted(bids[node] for _, node in owners.values()) == ["a", "b", "ba", "c", "d"]
    (nested,) = (parent for parent, node in owners.values() if bids[node] == "ba")
    assert bids[owners[nested][1]] == "b"
