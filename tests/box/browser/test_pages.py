"""Pages that do not behave are shown as far as they go, and the next one as if nothing had been."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.browser.pages import Browser
from tests.support.running import RunningBox, running_box, wait_until

TREE_LIMIT = 20_000


@pytest.fixture(scope="module")
def strict_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box with little patience, and one that may be disturbed."""
    options = ("browser.load_limit=2", "browser.dialogs=accept", f"browser.tree_limit={TREE_LIMIT}")
    workspace = tmp_path_factory.mktemp("strict") / "workspace"
    with running_box(workspace, "--plugin-options", *options) as box:
        yield box


@pytest.fixture(scope="module")
def tab(browser_box: RunningBox) -> Iterator[RunningBox]:
    """A box whose browser has a tab for these tests: what one leaves behind does not trouble the next."""
    Browser(browser_box).act("new_tab()")
    yield browser_box
    Browser(browser_box).act("tab_close()")


@pytest.fixture
def browser(tab: RunningBox) -> Browser:
    return Browser(tab)


@pytest.fixture
def strict(strict_box: RunningBox) -> Browser:
    return Browser(strict_box)


# Loading.


def test_a_page_that_never_finishes_loading_is_shown_and_usable(strict: Browser, site: str) -> None:
    seen = strict.act(f'goto("{site}/waiting")')
    assert seen.error.startswith("TimeoutError: Page.goto: Timeout 2000ms exceeded.")
    assert seen.url == f"{site}/waiting"
    seen = strict.act("click(<button 'Usable'>)")
    assert not seen.error
    assert "StaticText 'used'" in seen.tree


def test_a_page_that_never_finishes_loading_can_be_read(strict: Browser, site: str) -> None:
    seen = strict.read(f"{site}/waiting")
    assert seen.error.startswith("TimeoutError: Page.goto: Timeout 2000ms exceeded.")
    assert "Said: nothing" in " ".join(seen.text.split())


def test_a_slow_page_is_waited_for(browser: Browser, site: str) -> None:
    assert "StaticText 'Came late.'" in browser.go(f"{site}/slow").tree


def test_a_redirect_is_followed(browser: Browser, site: str) -> None:
    assert browser.go(f"{site}/redirect").url == f"{site}/plain.html"


@pytest.mark.parametrize(
    ("path", "error"),
    [("/redirect-loop", "net::ERR_TOO_MANY_REDIRECTS"), ("/nothing", "net::ERR_ABORTED")],
)
def test_an_address_that_leads_nowhere_says_so(browser: Browser, site: str, path: str, error: str) -> None:
    assert browser.act(f'goto("{site}{path}")').error.startswith(f"Error: Page.goto: {error}")
    assert browser.go(f"{site}/plain.html").bid("heading 'A heading'")


@pytest.mark.parametrize(("path", "text"), [("/broken", "It broke."), ("/no-such-page", "No such page.")])
def test_what_a_server_says_of_its_failure_is_shown(
    browser: Browser, site: str, path: str, text: str
) -> None:
    assert f"StaticText '{text}'" in browser.go(f"{site}{path}").tree


def test_nobody_listening_says_so_and_the_next_page_opens(browser: Browser, site: str) -> None:
    for _ in range(3):
        assert browser.act('goto("http://127.0.0.1:9/")').error.startswith("Error: Page.goto: net::ERR_")
        assert browser.go(f"{site}/plain.html").url == f"{site}/plain.html"


# Addresses.


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("SITE/plain.html?q=日本 é#ß", "heading 'A heading'"),
        ("SITE/plain.html?q=%00", "heading 'A heading'"),
        ("SITE/plain.html?q=" + "x" * 30_000, "heading 'A heading'"),
        ("data:text/html;charset=utf-8,<title>Given</title><h1>Data é</h1>", "heading 'Data é'"),
        ("about:blank", "RootWebArea ''"),
    ],
)
def test_an_unusual_address_is_opened(browser: Browser, site: str, address: str, shown: str) -> None:
    seen = browser.go(address.replace("SITE", site))
    assert any(shown in line for line in seen.tree.split("\n"))


@pytest.mark.parametrize(
    "address",
    [
        "SITE/plain\\x00.html",
        "http://\\x00/",
        "http://[bad/",
        "no address at all",
        "",
        "http:",
        "SITE/" + "x" * 3_000_000,
        "javascript:document.title",
        "about:no-such-thing",
        "chrome://no-such-thing",
        "unknown:scheme",
        "data:",
        "view-source:SITE/plain.html",
        "\\ud800",
    ],
)
def test_no_address_takes_the_browser_away(browser: Browser, site: str, address: str) -> None:
    seen = browser.act(f'goto("{address.replace("SITE", site)}")')
    assert seen.kind == "browse"
    assert len(seen.content) < 100_000
    assert browser.go(f"{site}/plain.html").bid("heading 'A heading'")


# What pages do unasked.


@pytest.mark.parametrize("way", ["link 'New tab'", "button 'Pop up'"])
def test_a_pop_up_becomes_the_active_tab(browser: Browser, site: str, way: str) -> None:
    first = browser.go(f"{site}/opening")
    seen = browser.act(f"click(<{way}>)")
    assert seen.extras["open_pages_urls"] == [*first.extras["open_pages_urls"], seen.url]
    assert seen.extras["active_page_index"] == first.extras["active_page_index"] + 1
    assert seen.url in (f"{site}/plain.html", f"{site}/frame_inner.html")
    assert f"url='{seen.url}'" in seen.tree
    seen = browser.act("tab_close()")
    assert seen.url == f"{site}/opening"
    assert seen.extras["open_pages_urls"] == first.extras["open_pages_urls"]


def test_a_pop_up_that_closes_itself_leaves_the_page_active(browser: Browser, site: str) -> None:
    first = browser.go(f"{site}/opening")
    browser.act("click(<button 'Pop up and close'>)")
    seen = browser.act("noop(0)")
    assert seen.url == f"{site}/opening"
    assert seen.extras["open_pages_urls"] == first.extras["open_pages_urls"]


@pytest.mark.parametrize(
    ("button", "refused", "allowed"),
    [
        ("Alert", "told", "told"),
        ("Confirm", "false", "true"),
        ("Prompt", "", "nobody"),
        ("Again", "five", "five"),
    ],
)
def test_dialogs_are_answered_as_was_set_and_the_page_goes_on(
    browser: Browser, strict: Browser, site: str, button: str, refused: str, allowed: str
) -> None:
    for asked, answer in ((browser, refused), (strict, allowed)):
        asked.go(f"{site}/asking")
        seen = asked.act(f"click(<button '{button}'>)")
        assert not seen.error
        assert "StaticText 'nothing'" not in seen.tree
        assert not answer or f"StaticText '{answer}'" in seen.tree


@pytest.mark.parametrize("way", ['goto("SITE/plain.html")', "click(<link 'Leave'>)"])
def test_a_page_that_asks_to_stay_is_left(browser: Browser, site: str, way: str) -> None:
    browser.go(f"{site}/staying")
    browser.act("click(<button 'Stay'>)")
    seen = browser.act(way.replace("SITE", site))
    assert not seen.error
    assert seen.url == f"{site}/plain.html"


# Downloads.


def test_going_to_a_file_to_keep_is_answered_with_the_file(browser: Browser, site: str) -> None:
    actions = f'goto("{site}/download")'
    seen = browser.act(actions)
    assert seen.kind == "download"
    path = Path(seen.extras["file_path"])
    assert path.parent == browser.box.workspace
    assert path.read_bytes() == b"a,b\n1,2\n"
    assert seen.content == (
        f"Execution of the previous action {actions} resulted in a file download. "
        f"The downloaded file is saved at location: {path}"
    )
    assert browser.go(f"{site}/plain.html").bid("heading 'A heading'")


def test_a_click_that_downloads_is_answered_with_the_file(browser: Browser, site: str) -> None:
    browser.go(f"{site}/downloading")
    seen = browser.act("click(<link 'Table'>)")
    assert seen.kind == "download"
    assert Path(seen.extras["file_path"]).read_bytes() == b"a,b\n1,2\n"
    assert browser.act("noop(0)").url == f"{site}/downloading"


def test_a_file_is_kept_in_the_workspace_whatever_its_name_is(browser: Browser, site: str) -> None:
    browser.go(f"{site}/downloading")
    path = Path(browser.act("click(<link 'Odd'>)").extras["file_path"])
    assert path.parent == browser.box.workspace
    assert path.read_bytes() == b"odd"


# What is in a page.


def test_what_is_in_a_frame_of_another_site_can_be_used(browser: Browser, site: str) -> None:
    browser.go(f"{site}/across.html")
    assert browser.act("click(<button 'Middle button'>)").bid("button 'Clicked'").startswith("a")
    seen = browser.act("fill(<textbox 'Inner'>, 'over there')")
    assert seen.bid("textbox 'Inner' value='over there'") == seen.extras["focused_element_bid"]


def test_what_is_in_a_shadow_root_can_be_used(browser: Browser, site: str) -> None:
    browser.go(f"{site}/shadow.html")
    assert browser.act("fill(<textbox 'Inner'>, 'filled')").bid("textbox 'Inner' value='filled'")
    assert browser.act("click(<button 'Card button'>)").bid("button 'Carded'")


def test_a_page_of_ten_thousand_elements_is_cut_where_the_limit_is_and_used_behind_it(
    strict: Browser, site: str
) -> None:
    seen = strict.go(f"{site}/many")
    assert len(seen.tree) < TREE_LIMIT + 200
    assert seen.tree.split("\n")[-1].startswith("[... ")
    assert str(TREE_LIMIT) in seen.tree.split("\n")[-1]
    first = int(seen.bid("link 'link 0'"))
    bid = first + 4000 * (int(seen.bid("link 'link 1'")) - first)
    assert strict.act(f'click("{bid}")').url == f"{site}/many#4000"
    assert len(strict.read(f"{site}/many").text) < TREE_LIMIT + 200


def test_frames_beyond_the_alphabet_can_be_used(browser: Browser, site: str) -> None:
    browser.go(f"{site}/crowd.html")
    seen = browser.act("click(<button '28'>)")
    assert seen.extras["focused_element_bid"] == seen.bid("button '28', focused") == "aB3"


# Scripts that do not end, and crashes.


def test_a_script_that_does_not_end_is_ended(strict: Browser, site: str) -> None:
    strict.go(f"{site}/busy")
    seen = strict.act("click(<button 'Later'>)")
    assert seen.kind == "browse"
    assert strict.box.run("echo alive") == "alive"
    assert strict.go(f"{site}/plain.html").bid("heading 'A heading'")


def test_a_page_that_crashes_is_said_and_the_next_one_opens(strict: Browser, site: str) -> None:
    strict.go(f"{site}/plain.html")
    assert strict.act('goto("chrome://crash")').error
    assert strict.go(f"{site}/plain.html").bid("heading 'A heading'")


def test_a_chromium_that_was_killed_is_started_again(strict: Browser, site: str) -> None:
    strict.go(f"{site}/plain.html")
    pid = strict.box.client.get("/browser").json()["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: strict.box.client.get("/browser").json().get("pid") not in (pid, None), what="a new one"
    )
    assert strict.go(f"{site}/plain.html").bid("heading 'A heading'")
