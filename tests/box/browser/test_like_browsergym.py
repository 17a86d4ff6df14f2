"""Agents were made for what BrowserGym shows them: the same pages are shown the same way, line by line."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from glovebox.box.browser.chromium import find_chromium
from tests.box.browser.gym import Gym, Observed, running_gym
from tests.box.browser.pages import Browser, Seen, aimed
from tests.box.browser.web_server import PAGES
from tests.support.running import RunningBox

ALL_PAGES = sorted(path.name for path in PAGES.glob("*.html"))


class Difference(NamedTuple):
    """Lines of a tree that are not the same, without their indentation."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]


#: The differences that are wanted, by page, and why.
KNOWN: dict[str, list[Difference]] = {
    # BrowserGym has no tree for frames in processes of their own: those of other sites, and sandboxed ones.
    "across.html": [
        Difference(
            (),
            (
                "RootWebArea 'The middle', url='OTHER/frame_middle.html'",
                "[a4] generic",
                "[a5] paragraph ''",
                "StaticText 'Middle text with'",
                "InlineTextBox 'Middle text with'",
                "[a6] link 'a link', clickable, url='OTHER/plain.html'",
                "InlineTextBox 'a link'",
                "[a7] button 'Middle button', clickable",
                "InlineTextBox 'Middle button'",
                "[aa] Iframe 'Inner'",
                "RootWebArea 'The inside', url='OTHER/frame_inner.html'",
                "[aa4] generic",
                "[aa5] LabelText '', clickable",
                "StaticText 'Inner'",
                "InlineTextBox 'Inner'",
                "[aa6] textbox 'Inner' value='start', clickable",
                "generic",
                "StaticText 'start'",
                "InlineTextBox 'start'",
                "[aa7] button 'Inner button', clickable",
                "InlineTextBox 'Inner button'",
            ),
        )
    ],
    "frames.html": [
        Difference(
            (),
            (
                "RootWebArea '', url='about:srcdoc'",
                "[e2] generic",
                "[e3] paragraph ''",
                "StaticText 'Sandboxed'",
                "InlineTextBox 'Sandboxed'",
            ),
        ),
        Difference(
            (),
            (
                "RootWebArea '', url='about:srcdoc'",
                "[f2] generic",
                "[f3] paragraph ''",
                "StaticText 'May run scripts'",
                "InlineTextBox 'May run scripts'",
                "[f4] button 'Strict'",
                "InlineTextBox 'Strict'",
            ),
        ),
    ],
    # BrowserGym writes the property `value` of every element into its attribute. An <li> then begins to count
    # at 0, a <progress> without a value is at 0, and a button loses the caption that it has by default.
    "lists.html": [
        Difference(("ListMarker '0.'",), ("ListMarker '1.'",)),
        Difference(("ListMarker '0.'",), ("ListMarker '2.'",)),
        Difference(("ListMarker '0.'",), ("ListMarker 'a.'",)),
        Difference(("ListMarker '0.'",), ("ListMarker '5.'",)),
    ],
    "media.html": [
        Difference(
            ("[15] progressbar 'Unknown' value=0, valuemin=0, valuemax=1, valuetext=''",),
            ("[15] progressbar 'Unknown', valuemin=0, valuemax=1, valuetext=''",),
        )
    ],
    "form.html": [
        Difference(
            ("[82] button '', clickable",), ("[82] button 'Reset', clickable", "InlineTextBox 'Reset'")
        )
    ],
}

_LABELS = [(f"StaticText '{label}'", f"InlineTextBox '{label}'") for label in ("Off", "On", "One", "Two")]
#: Differences that come and go. From a tree that it keeps, Chromium leaves out the text of a label that the
#: name of its checkbox repeats, at a time of its own.
UNSTEADY = {
    "form.html": [
        *(Difference(lines, ()) for lines in _LABELS),
        *(Difference((), lines) for lines in _LABELS),
    ]
}

#: Text shows the source of frames. BrowserGym has written the values of fields into it, which are not there.
WRITTEN = re.compile(r' (?:value|checked)="[^"]*"')

TOO_LATE = "Timeout 500ms exceeded"

#: What is done on pages, one step after the other.
STEPS = {
    "filling a form": (
        "form.html",
        (
            "fill(<textbox 'Name'>, 'Ada \"L\" O\\'Hara')",
            "clear(<textbox 'Mail'>)",
            "select_option(<combobox 'Colour'>, 'navy')",
            "select_option(<listbox 'Many'>, ['b', 'c'])",
            "click(<checkbox 'Off'>)\nclick(<radio 'One'>)\nclick(<checkbox 'Half'>)",
            "fill(<Date 'Day'>, '2022-12-31')\nfill(<slider 'Volume'>, '8')",
            "press(<textbox 'Name'>, 'ArrowLeft')\npress(<textbox 'Name'>, 'Backspace')",
            "focus(<textbox 'Notes'>)",
            "click(<button 'Press'>)",
            "fill(<textbox 'Cannot'>, 'x')",
            "fill('no-such', 'x')",
        ),
    ),
    "opening and closing": (
        "disclosure.html",
        (
            "click(<DisclosureTriangle 'More'>)",
            "click(<button 'Tip'>)",
            "click(<button 'Ask'>)",
            "click(<button 'Yes'>)",
        ),
    ),
    "cloning": (
        "growing.html",
        (
            "click(<button 'Clone'>)",
            "click(<button 'Prepend'>)\nclick(<button 'Clone'>)",
            "click(<button 'Late frame'>)",
            "click(<button 'Late button'>)",
            "click(<button 'Empty'>)",
        ),
    ),
    "frames": (
        "frames.html",
        (
            "click(<button 'Middle button'>)",
            "fill(<textbox 'Inner'>, 'changed')",
            "click(<button 'In srcdoc'>)",
            "focus(<textbox 'Deep'>)",
            "click(<link 'a link'>)",
        ),
    ),
    "shadow roots": (
        "shadow.html",
        (
            "fill(<textbox 'Inner'>, 'shallow')",
            "click(<button 'Card button'>)",
            "click(<button 'Declared button'>)",
        ),
    ),
    "links": (
        "links.html",
        (
            "hover(<link 'Relative'>)",
            "click(<link 'Fragment'>)",
            "click(<StaticText 'Listener by script'>)\nclick(<StaticText 'Handler by script'>)",
            "press(<link 'Mail'>, 'Tab')",
            "click(<link 'Relative'>)",
            "go_back()",
        ),
    ),
    "scrolling": (
        "long.html",
        (
            "scroll(0, 900)",
            "click(<link 'To part 5'>)",
            "focus(<button 'Framed below'>)",
            "hover(<button 'Far right'>)",
        ),
    ),
    "editing": (
        "editable.html",
        (
            "fill(<textbox 'Editor'>, 'New\\ntext')",
            "clear(<textbox 'Write here'>)",
            "press(<textbox 'Editor'>, 'End')",
        ),
    ),
}

#: Elements whose properties differ, by page.
OTHER_PLACES = {
    # The button that has lost its caption is smaller.
    "form.html": {"82"},
    # Our script runs in a world of its own, which does not see the handlers that a page's scripts have set.
    "links.html": {"43"},
}

#: How the ids of elements begin that only we know: those in frames for which BrowserGym has no tree.
ONLY_OURS = {"across.html": ("a",), "frames.html": ("e", "f")}


class Look(NamedTuple):
    """A page as BrowserGym sees it when it was just opened, and when it is looked at again."""

    opened: Observed
    again: Observed


class Reference:
    """BrowserGym, asked for every page before anybody wants it, for it takes its time."""

    def __init__(self, gym: Gym, site: str, other: str) -> None:
        self._gym = gym
        self._addresses = {site: "SITE", other: "OTHER"}
        #: It does one step after the other, while the box does its own.
        self._turns = ThreadPoolExecutor(1)
        self._known = {
            page: (self.step(f'goto("{site}/{page}")'), self.step("noop(0)")) for page in ALL_PAGES
        }

    def step(self, actions: str) -> Future[Observed]:
        """What it sees after actions, when it comes to them."""
        return self._turns.submit(self._gym.step, actions)

    def look(self, page: str) -> Look:
        """What it says of a page."""
        opened, again = self._known[page]
        return Look(opened.result(), again.result())

    def close(self) -> None:
        """Carry out no more."""
        self._turns.shutdown(cancel_futures=True)

    def compare(self, page: str, ours: Seen, theirs: Observed) -> None:
        """All that an agent is shown of a page must be the same."""
        assert ours.url == theirs.url
        unsteady = UNSTEADY.get(page, ())
        found = [one for one in self._differences(ours.tree, theirs.tree) if one not in unsteady]
        assert found == KNOWN.get(page, [])
        assert ours.extras["focused_element_bid"] == theirs.focused

    def _differences(self, ours: str, theirs: str) -> list[Difference]:
        for address, name in self._addresses.items():
            ours, theirs = ours.replace(address, name), theirs.replace(address, name)
        first, second = theirs.split("\n"), ours.split("\n")
        matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
        return [
            Difference(_bare(first[start:end]), _bare(second[begin:stop]))
            for kind, start, end, begin, stop in matcher.get_opcodes()
            if kind != "equal"
        ]


def _bare(lines: list[str]) -> tuple[str, ...]:
    return tuple(line.lstrip("\t") for line in lines)


@pytest.fixture(scope="module")
def reference(site: str, other_site: str) -> Iterator[Reference]:
    chromium = find_chromium(os.environ.get("GLOVEBOX_CHROMIUM", ""), os.environ["PATH"])
    with running_gym(chromium) as gym, contextlib.closing(Reference(gym, site, other_site)) as reference:
        yield reference


@pytest.fixture(scope="module", params=ALL_PAGES)
def page(request: pytest.FixtureRequest) -> str:
    """Each page in turn: all that is asked of it, while BrowserGym is at the next."""
    name: str = request.param
    return name


@pytest.fixture
def browser(browser_box: RunningBox) -> Browser:
    return Browser(browser_box)


def test_a_page_is_shown_as_by_browsergym(
    browser: Browser, reference: Reference, site: str, page: str
) -> None:
    look = reference.look(page)
    reference.compare(page, browser.go(f"{site}/{page}"), look.opened)
    reference.compare(page, browser.act("noop(0)"), look.again)


def test_the_text_of_a_page_is_that_of_browsergym(
    browser: Browser, reference: Reference, site: str, page: str
) -> None:
    ours = browser.read(f"{site}/{page}")
    assert not ours.error
    assert WRITTEN.sub("", ours.text) == WRITTEN.sub("", reference.look(page).opened.page_text)


def test_where_elements_are_is_told_as_by_browsergym(
    browser: Browser, reference: Reference, site: str, page: str
) -> None:
    theirs = reference.look(page).again.properties
    browser.go(f"{site}/{page}")
    compare_properties(page, browser.act("noop(0)", return_axtree=True), theirs)


@pytest.mark.parametrize(
    ("moving", "actions"),
    [
        ("long.html", "scroll(0, 700)"),
        ("long.html", "click(<link 'To part 5'>)"),
        ("long.html", "focus(<button 'Framed below'>)"),
        ("long.html", "hover(<button 'Boxed bottom'>)"),
        ("disclosure.html", "click(<button 'Ask'>)"),
        ("disclosure.html", "click(<button 'Tip'>)"),
    ],
)
def test_where_elements_have_gone_is_told_as_by_browsergym(
    browser: Browser, reference: Reference, site: str, moving: str, actions: str
) -> None:
    start = f'goto("{site}/{moving}")'
    opened = reference.step(start)
    browser.act(start)
    step = aimed(actions, opened.result().tree)
    theirs = reference.step(step)
    ours = browser.act(step, return_axtree=True)
    compare_properties(moving, ours, theirs.result().properties)


def compare_properties(page: str, ours: Seen, theirs: dict[str, dict[str, Any]]) -> None:
    """Where all elements are, whether they are seen, can be clicked, and are marked, must be the same."""
    told = ours.extras["extra_element_properties"]
    assert theirs.keys() <= told.keys()
    assert all(bid.startswith(ONLY_OURS.get(page, ())) for bid in told.keys() - theirs.keys())
    compared = theirs.keys() - OTHER_PLACES.get(page, set())
    assert compared
    assert {bid: _place(told[bid]) for bid in compared} == {bid: _place(theirs[bid]) for bid in compared}
    for bid in theirs:
        assert told[bid]["visibility"] == pytest.approx(theirs[bid]["visibility"], abs=0.02), bid


def _place(element: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in element.items() if name != "visibility"}


@pytest.mark.parametrize("name", STEPS)
def test_a_page_that_was_acted_on_is_shown_as_by_browsergym(
    browser: Browser, reference: Reference, site: str, name: str
) -> None:
    start, steps = STEPS[name]
    for tries_left in (2, 1, 0):
        if _acted_alike(browser, reference, f"{site}/{start}", steps, tries_left):
            return


def _acted_alike(
    browser: Browser, reference: Reference, url: str, steps: tuple[str, ...], tries: int
) -> bool:
    """Compare after every step. False if a machine that is too busy has missed the half second of a step."""
    opened = reference.step(f'goto("{url}")')
    browser.go(url)
    seen = opened.result()
    for step in steps:
        actions = aimed(step, seen.tree)
        theirs = reference.step(actions)
        ours = browser.act(actions)
        seen = theirs.result()
        told, wanted = ours.error.split("\n")[0], seen.error.split("\n")[0]
        if tries and told != wanted and TOO_LATE in told + wanted:
            return False
        assert told == wanted, ours.error
        reference.compare(url.rpartition("/")[2], ours, seen)
    return True
