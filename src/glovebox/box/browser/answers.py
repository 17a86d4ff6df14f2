"""The texts of the contract around what a browser shows."""

from __future__ import annotations

import base64

from glovebox.box.browser.wire import Seen, Told
from glovebox.protocol.observations import BrowserOutputObservation, FileDownloadObservation

TOO_LONG = "Browser environment took too long to respond."
BROWSE = "browse"
INTERACTIVE = "browse_interactive"

_NOTE = (
    "Note: [bid] is the unique alpha-numeric identifier at the beginning of lines for each element in the"
    " AXTree. Always use bid to refer to elements in your actions."
)


def seen_observation(seen: Seen, trigger: str, actions: str) -> BrowserOutputObservation:
    """A page after a step."""
    content = _page(seen.url, seen.error, seen.text) if trigger == BROWSE else _tree(seen)
    return BrowserOutputObservation(
        content=content,
        url=seen.url,
        trigger_by_action=trigger,
        screenshot=_data_url(seen.screenshot),
        screenshot_path=seen.screenshot_path,
        set_of_marks=_data_url(seen.set_of_marks),
        error=bool(seen.error),
        open_pages_urls=seen.open_pages_urls,
        active_page_index=seen.active_page_index,
        axtree_object=seen.axtree,
        extra_element_properties=seen.properties,
        last_browser_action=actions,
        last_browser_action_error=seen.error,
        focused_element_bid=seen.focused_element_bid,
    )


def failed_observation(error: str, trigger: str, url: str) -> BrowserOutputObservation:
    """What there is to say when nothing was seen."""
    nothing = Seen(
        id=0,
        url="",
        open_pages_urls=[],
        active_page_index=-1,
        focused_element_bid="",
        screenshot=b"",
        set_of_marks=b"",
        error=error,
        tree_error="'nodes'",  # the contract's words for a tree that is not there
    )
    content = _page(url, error, error) if trigger == BROWSE else _tree(nothing)
    return BrowserOutputObservation(
        content=content,
        url=url if trigger == BROWSE else "",
        trigger_by_action=trigger,
        error=True,
        last_browser_action_error=error,
    )


def told_observation(told: Told, trigger: str, actions: str) -> BrowserOutputObservation:
    """What an evaluation tells: its goal, its rewards."""
    return BrowserOutputObservation(
        content=told.text,
        url="",
        trigger_by_action=trigger,
        goal_image_urls=told.images,
        last_browser_action=actions,
    )


def download_observation(actions: str, path: str) -> FileDownloadObservation:
    """A file came instead of a page."""
    return FileDownloadObservation(
        content=f"Execution of the previous action {actions} resulted in a file download. "
        f"The downloaded file is saved at location: {path}",
        file_path=path,
    )


def _page(url: str, error: str, text: str) -> str:
    problem = _problem("trying to visit the URL", error) if error else ""
    return (
        f"[Current URL: {url}]\n{problem}============== BEGIN webpage content ==============\n"
        f"{text}\n============== END webpage content ==============\n"
    )


def _tree(seen: Seen) -> str:
    path = seen.screenshot_path
    saved = f"[Screenshot saved to: {path}]\n" if path else ""
    outcome = "[Action executed successfully.]\n"
    if seen.error:
        outcome = _problem("executing the last action", seen.error)
    focused = seen.focused_element_bid
    head = f"[Current URL: {seen.url}]\n[Focused element bid: {focused}]\n{saved}\n{outcome}"
    if seen.tree_error:
        return f"{head}\n[Error encountered when processing the accessibility tree: {seen.tree_error}]"
    return (
        f"{head}Accessibility tree of the COMPLETE webpage:\n{_NOTE}\n"
        f"============== BEGIN accessibility tree ==============\n{seen.tree}\n"
        "============== END accessibility tree ==============\n"
    )


def _problem(when: str, error: str) -> str:
    return (
        "================ BEGIN error message ===============\n"
        f"The following error occurred when {when}:\n{error}\n"
        "================ END error message ===============\n"
    )


def _data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}" if png else ""
