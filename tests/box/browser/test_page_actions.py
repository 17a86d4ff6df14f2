"""What agents call is done to real pages, and what goes wrong is told as the wire has it."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, async_playwright
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser.worker.actions import PageActions
from tests.box.browser.hands import Hands, OpenTabs, Site
from tests.support.chromium import CHROMIUM, FLAGS
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.closing.set()
        site.shutdown()
        thread.join(LIMIT)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        playwright.selectors.set_test_id_attribute("bid")
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def context(chromium: Browser) -> AsyncIterator[BrowserContext]:
    context = await chromium.new_context(viewport={"width": 1280, "height": 720})
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def hands(context: BrowserContext, address: str, tmp_path: Path) -> Hands:
    return Hands(OpenTabs(context, await context.new_page()), address, tmp_path)


# Elements.


async def test_fields_are_filled_and_cleared(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("fill('#name', 'Ada')", "fill('#story', 'two\\nlines')") == ""
    assert await hands.value("#name") == "Ada"
    assert await hands.value("#story") == "two\nlines"
    assert await hands.do("clear('#name')") == ""
    assert await hands.value("#name") == ""


async def test_keys_are_pressed_in_an_element(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("press('#name', 'ControlOrMeta+a')", "press('#name', 'x')") == ""
    assert await hands.value("#name") == "x"
    assert "key:a:true" in await hands.seen()
    assert (await hands.do("press('#name', 'NoSuchKey')")).startswith("Error: Locator.press: Unknown key")


async def test_an_element_has_the_focus(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("focus('#name')") == ""
    assert await hands.seen() == ["focus"]


async def test_options_are_selected_by_value_or_label(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("select_option('#colour', 'b')") == ""
    assert await hands.value("#colour") == "b"
    assert (
        await hands.do("select_option('#colour', 'Green')", "select_option('#many', ['one', 'three'])") == ""
    )
    assert await hands.value("#colour") == "g"
    assert await hands.page.evaluate("[...many.selectedOptions].map(o => o.value)") == ["one", "three"]
    assert await hands.do("select_option('#many', [])") == ""
    assert await hands.page.evaluate("many.selectedOptions.length") == 0


async def test_clicks_have_buttons_and_modifiers(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("click('#go')") == ""
    assert "click:0:false:false" in await hands.seen()
    assert await hands.do("click('#go', button='right', modifiers=['Shift', 'Alt'])") == ""
    assert "contextmenu:2:true:true" in await hands.seen()
    assert await hands.do("click('#go', 'middle')") == ""
    assert "auxclick:1:false:false" in await hands.seen()


async def test_a_double_click_is_one(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("dblclick('#go', modifiers=['Shift'])") == ""
    clicks = [one for one in await hands.seen() if "click" in one]
    assert clicks == ["click:0:true:false", "click:0:true:false", "dblclick:0:true:false"]


async def test_the_mouse_hovers_over_an_element(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("hover('#go')") == ""
    assert await hands.seen() == ["mouseover:0:false:false"]


async def test_an_element_that_is_not_ready_is_waited_for_half_a_second(hands: Hands, tmp_path: Path) -> None:
    await hands.open("/form")
    hands.acting = PageActions(hands.tabs, load_limit=30, workspace=str(tmp_path), coordinates=False)
    error = await hands.do("click('#disabled')")
    assert error.startswith("TimeoutError: Locator.click: Timeout 500ms exceeded.\nCall log:\n")
    error = await hands.do("fill('#unseen', 'x')")
    assert error.startswith("TimeoutError: Locator.fill: Timeout 500ms exceeded.\nCall log:\n")
    for call in ("dblclick('#hidden')", "hover('#hidden')", "drag_and_drop('#hidden', '#go')"):
        error = await hands.do(call)
        assert re.match(r"TimeoutError: Locator\.\w+: Timeout 500ms exceeded\.\nCall log:\n", error), error


async def test_why_an_element_is_not_ready_is_told(hands: Hands, tmp_path: Path) -> None:
    hands = Hands(hands.tabs, hands.address, tmp_path, element_limit=2)
    await hands.open("/form")
    assert "element is not enabled" in await hands.do("click('#disabled')")
    assert "element is not visible" in await hands.do("hover('#hidden')")
    assert "not an <input>" in await hands.do("fill('#go', 'x')")


async def test_an_error_can_be_sent_whatever_the_page_has_in_it(hands: Hands, tmp_path: Path) -> None:
    hands = Hands(hands.tabs, hands.address, tmp_path, element_limit=1)
    await hands.open("/form")
    await hands.page.evaluate("disabled.textContent = 'half \\ud83d character'")
    error = await hands.do("click('#disabled')")
    assert "half ? character" in error
    assert error.encode()


@pytest.mark.parametrize("bid", ["x", "999", "a1", "", "-", "a-1", "Ä", "A1", "1a", "aAA0", "' or //*", "٣"])
async def test_an_unknown_element_is_named(hands: Hands, bid: str) -> None:
    await hands.open("/form")
    assert await hands.do(f"click({bid!r})") == f'ValueError: Could not find element with bid "{bid}"'


async def test_elements_in_frames_are_found(hands: Hands) -> None:
    await hands.open("/frames")
    outer, inner = hands.page.frames[1], hands.page.frames[1].child_frames[0]
    for frame, css in ((outer, "#outer"), (inner, "#inner")):
        await frame.evaluate(f"void ({css[1:]}.onclick = () => {{ {css[1:]}.textContent = 'clicked'; }})")
        bid = await frame.locator(css).get_attribute("bid")
        assert bid is not None
        assert bid.startswith("a" if frame is outer else "aa")
        assert await hands.do(f"click({bid!r})") == ""
        assert await frame.locator(css).inner_text() == "clicked"


async def test_frames_beyond_the_alphabet_have_two_letters(hands: Hands) -> None:
    await hands.open("/frames")
    last = hands.page.main_frame.child_frames[26]
    bid = await last.locator("#last").get_attribute("bid")
    assert bid is not None
    assert bid.startswith("aA")
    assert await hands.do(f"fill({bid!r}, 'here')") == ""
    assert await last.locator("#last").input_value() == "here"


async def test_a_frame_is_an_element_itself(hands: Hands) -> None:
    await hands.open("/frames")
    await hands.page.evaluate("void (document.querySelector('iframe').onmouseenter = () => note('entered'))")
    assert await hands.do("hover('a')") == ""
    assert await hands.seen() == ["entered"]
    assert await hands.do("hover('aa')") == ""


async def test_elements_in_open_shadow_roots_are_found(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("click('#inner')") == ""
    assert await hands.seen() == ["shadow"]


# Dragging.


async def test_what_pages_let_drag_is_dragged(hands: Hands) -> None:
    await hands.open("/dragging")
    assert await hands.do("drag_and_drop('#native', '#drop')") == ""
    await hands.becomes("seen.includes('dropped:cargo')")


async def test_what_follows_the_mouse_is_dragged(hands: Hands) -> None:
    await hands.open("/dragging")
    assert await hands.do("drag_and_drop('#handle', '#target')") == ""
    assert await hands.seen() == ["released:645:345"]
    assert await hands.page.evaluate("[handle.style.left, handle.style.top]") == ["620px", "320px"]


async def test_the_mouse_is_let_go_if_the_target_is_out_of_reach(hands: Hands, tmp_path: Path) -> None:
    hands = Hands(hands.tabs, hands.address, tmp_path, element_limit=3)
    await hands.open("/dragging")
    error = await hands.do("drag_and_drop('#handle', '#hidden')")
    assert error.startswith("TimeoutError: Locator.hover: Timeout 3000ms exceeded.")
    assert await hands.seen() == ["released:425:35"]
    assert await hands.do("drag_and_drop('#handle', '999')") == (
        'ValueError: Could not find element with bid "999"'
    )
    assert await hands.seen() == []


# Files.


async def names_in(hands: Hands, css: str) -> list[str]:
    found: list[str] = await hands.page.locator(css).evaluate("input => [...input.files].map(f => f.name)")
    return found


async def test_files_are_given_to_what_takes_them(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    await hands.open("/uploading")
    assert await hands.do("upload_file('#one', 'a.txt')") == ""
    assert await names_in(hands, "#one") == ["a.txt"]
    assert await hands.do(f"upload_file('#several', ['a.txt', {str(tmp_path / 'b.txt')!r}])") == ""
    assert await names_in(hands, "#several") == ["a.txt", "b.txt"]
    assert await hands.do("upload_file('#several', [])") == ""
    assert await names_in(hands, "#several") == []


async def test_files_are_given_to_what_asks_for_them(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    await hands.open("/uploading")
    assert await hands.do("upload_file('#label', 'a.txt')", "upload_file('#asking', ['a.txt'])") == ""
    assert await names_in(hands, "#several") == ["a.txt"]
    assert await names_in(hands, "#one") == ["a.txt"]


async def test_files_that_cannot_be_given_are_named(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    await hands.open("/uploading")
    missing = f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path}/none.txt'"
    assert await hands.do("upload_file('#one', 'none.txt')") == missing
    assert await hands.do("mouse_upload_file(1, 1, ['a.txt', 'none.txt'])") == missing
    assert "single file" in await hands.do("upload_file('#one', ['a.txt', 'a.txt'])")
    assert "directories" in await hands.do("upload_file('#one', '.')")
    assert await hands.do("upload_file('#one', 'a\\0b')") == "ValueError: embedded null byte"
    error = await hands.do("upload_file('#silent', 'a.txt')")
    assert error.startswith("TimeoutError: Page.expect_file_chooser: Timeout 5000ms exceeded")
    assert await names_in(hands, "#one") == []


# Pages and tabs.


async def test_pages_are_visited_and_left(hands: Hands) -> None:
    form, other = f"{hands.address}/form", f"{hands.address}/other"
    assert await hands.do(f"goto('{form}')", f"goto('{other}')") == ""
    assert hands.page.url == other
    assert await hands.do("go_back()") == ""
    assert hands.page.url == form
    assert await hands.do("go_forward()", "go_forward()") == ""
    assert hands.page.url == other


async def test_an_address_that_may_not_be_visited_is_not(hands: Hands) -> None:
    assert await hands.do("goto('http://forbidden/')") == "ValueError: This address may not be visited."
    assert hands.page.url == "about:blank"


async def test_a_page_that_does_not_load_is_told(hands: Hands) -> None:
    error = await hands.do("goto('http://127.0.0.1:1/')")
    assert error.startswith("Error: Page.goto: net::ERR_UNSAFE_PORT at http://127.0.0.1:1/\nCall log:\n")
    assert (await hands.do("goto('nowhere')")).startswith("Error: Page.goto: Protocol error")
    download = await hands.do(f"goto('{hands.address}/download')")
    assert download.startswith("Error: Page.goto: Download is starting")


async def test_a_page_is_visited_right_after_one_that_failed(hands: Hands) -> None:
    for _ in range(5):
        assert (await hands.do("goto('http://127.0.0.1:1/')")).startswith("Error: Page.goto: net::ERR_")
        assert await hands.do(f"goto('{hands.address}/other')") == ""
        assert hands.page.url == f"{hands.address}/other"


async def test_a_page_is_visited_while_one_that_failed_is_yet_to_be_shown(hands: Hands) -> None:
    for place in ("/other", "/form", "/other"):
        with pytest.raises(PlaywrightError):
            await hands.page.goto("http://127.0.0.1:1/")
        assert await hands.do(f"goto('{hands.address}{place}')") == ""
        assert hands.page.url == hands.address + place
        with pytest.raises(PlaywrightError):
            await hands.page.goto("http://127.0.0.1:1/")
        error = await hands.do("goto('http://127.0.0.1:7/')")
        assert error.startswith("Error: Page.goto: net::ERR_UNSAFE_PORT at http://127.0.0.1:7/")


async def test_a_page_that_takes_too_long_is_told(hands: Hands, address: str, tmp_path: Path) -> None:
    hands = Hands(hands.tabs, address, tmp_path, load_limit=0.3)
    error = await hands.do(f"goto('{address}/never')")
    assert error.startswith("TimeoutError: Page.goto: Timeout 300ms exceeded.\nCall log:\n")


async def test_a_page_that_does_not_answer_is_not_waited_for(hands: Hands, tmp_path: Path) -> None:
    hands = Hands(hands.tabs, hands.address, tmp_path, load_limit=0.1)
    await hands.open("/form")
    bid = await hands.bid("#go")
    await hands.page.evaluate("void setTimeout(() => { for (;;); })")
    error = await hands.do(f"hover('{bid}')")
    assert error == "TimeoutError: hover() got no answer from the page within 5.1 s."


async def test_tabs_are_opened_focused_and_closed(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("new_tab()", f"goto('{hands.address}/other')") == ""
    assert [page.url for page in hands.tabs.pages] == [f"{hands.address}/form", f"{hands.address}/other"]
    assert await hands.do("tab_focus(0)") == ""
    assert hands.page.url == f"{hands.address}/form"
    assert await hands.do("tab_focus(-1)", "tab_close()", "go_back()") == ""
    assert hands.page.url == "about:blank"
    assert await hands.do("tab_close()") == ""
    assert [page.url for page in hands.tabs.pages] == ["about:blank"]
    assert await hands.do("tab_focus(7)") == "IndexError: list index out of range"


async def test_a_page_is_scrolled(hands: Hands) -> None:
    await hands.open("/tall")
    assert await hands.do("scroll(50, 200.5)") == ""
    await hands.becomes("scrollX === 50 && Math.round(scrollY) >= 200")
    assert await hands.do("scroll(-50, -1000)") == ""
    await hands.becomes("scrollX === 0 && scrollY === 0")


# Strings of calls.


async def test_what_was_done_before_a_call_that_fails_stays_done(hands: Hands) -> None:
    await hands.open("/form")
    error = await hands.do("fill('#name', 'first')", "click('999')", "fill('#name', 'third')")
    assert error == 'ValueError: Could not find element with bid "999"'
    assert await hands.value("#name") == "first"
    error = await hands.do("fill('#name', 'second')", "click()", "fill('#name', 'third')")
    assert error == "TypeError: click() missing 1 required positional argument: 'bid'"
    assert await hands.value("#name") == "second"


async def test_nothing_is_done_if_the_text_makes_no_sense(hands: Hands) -> None:
    await hands.open("/form")
    assert await hands.do("fill('#name', 'new')", "foo()") == "NameError: Invalid action type 'foo'."
    assert await hands.do("fill('#name', new)") == "ValueError: Received an empty action."
    assert await hands.value("#name") == "before"


async def test_the_user_is_told_what_the_agent_says(hands: Hands) -> None:
    assert await hands.do("send_msg_to_user('hello')", "noop(1)", "report_infeasible('no way')") == ""
    assert hands.acting.take_messages() == ["hello", "no way"]
    assert hands.acting.take_messages() == []


async def test_a_page_that_was_closed_is_an_error(hands: Hands) -> None:
    await hands.page.close()
    error = await hands.do("scroll(0, 1)")
    assert error.startswith("Error: Mouse.wheel: Target page, context or browser has been closed")


async def test_places_are_not_named_unless_that_is_allowed(hands: Hands, tmp_path: Path) -> None:
    acting = PageActions(hands.tabs, load_limit=5, workspace=str(tmp_path), coordinates=False)
    assert await acting.perform("mouse_move(1, 1)") == "NameError: Invalid action type 'mouse_move'."


# The mouse and the keyboard.


async def test_the_mouse_does_what_is_said(hands: Hands) -> None:
    await hands.open("/pointing")
    assert await hands.do("mouse_move(310, 20)") == ""
    assert await hands.seen() == ["mousemove:310:20:0"]
    assert await hands.do("mouse_down(320, 30)", "mouse_up(330, 40)") == ""
    assert [one for one in await hands.seen() if "move" not in one] == [
        "mousedown:320:30:0",
        "mouseup:330:40:0",
        "click:330:40:0",
    ]
    assert await hands.do("mouse_click(340, 50, 'right')") == ""
    assert "contextmenu:340:50:2" in await hands.seen()
    assert await hands.do("mouse_dblclick(350, 60)") == ""
    assert (await hands.seen())[-1] == "dblclick:350:60:0"
    assert await hands.do("mouse_click(x=360, y=70)") == ""
    assert (await hands.seen())[-1] == "click:360:70:0"


async def test_the_mouse_drags_from_place_to_place(hands: Hands) -> None:
    await hands.open("/dragging")
    assert await hands.do("mouse_drag_and_drop(425, 35, 645, 345)") == ""
    assert await hands.seen() == ["released:645:345"]
    assert await hands.page.evaluate("[handle.style.left, handle.style.top]") == ["620px", "320px"]


async def test_files_are_given_where_the_mouse_clicks(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    await hands.open("/uploading")
    assert await hands.do("mouse_upload_file(310, 310, 'a.txt')") == ""
    assert await names_in(hands, "#one") == ["a.txt"]


async def test_keys_are_pressed_and_text_is_typed(hands: Hands) -> None:
    await hands.open("/pointing")
    assert await hands.do("mouse_click(50, 50)", "keyboard_type('ab')") == ""
    keys = ["keydown:a", "input:a", "keyup:a", "keydown:b", "input:b", "keyup:b"]
    assert await hands.seen() == keys
    assert await hands.do("keyboard_insert_text('日本')") == ""
    assert await hands.seen() == ["input:日本"]
    assert (
        await hands.do("keyboard_down('Shift')", "keyboard_press('ArrowLeft')", "keyboard_up('Shift')") == ""
    )
    assert await hands.seen() == ["keydown:Shift", "keydown:ArrowLeft", "keyup:ArrowLeft", "keyup:Shift"]
    assert await hands.do("keyboard_press('x')") == ""
    assert await hands.value("#text") == "ab日x"
