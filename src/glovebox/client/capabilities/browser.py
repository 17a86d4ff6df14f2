"""The browser of a box: pages, read and acted on."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glovebox.client.connection.link import Link
from glovebox.errors import BrowserError, BrowserNotStarted, PageFailed, UnsupportedAction
from glovebox.protocol.actions import BrowseInteractiveAction, BrowseURLAction
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
)
from glovebox.protocol.status import BrowserInfo, PageInfo

#: What the box answers if it has no browser, in the contract's words.
_DISABLED = "Browser functionality is not supported or disabled."
_MISSING = "This box has no browser: start it with Box(browser=True) or `glovebox serve --enable-browser`."


@dataclass(frozen=True)
class WebPage:
    """A page of the browser, at the moment an action was done."""

    url: str
    title: str
    #: After `goto` and actions: its accessibility tree, with the id of each element. After `read`: its text.
    text: str
    #: The path in the box of a file that the action has downloaded.
    download: str | None = None
    #: The id of the element that has the focus.
    focused: str = ""
    #: The addresses of all tabs.
    tabs: tuple[str, ...] = ()
    #: The picture of the page, as PNG.
    image: bytes = b""

    def screenshot(self, path: str | Path) -> Path:
        """Write the picture of the page to a file of this machine; its path."""
        Path(path).write_bytes(self.image)
        return Path(path)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<WebPage {self.title!r} {self.url}>"


class AsyncBoxBrowser:
    """`box.browser`: opens pages and acts on their elements, by the ids in `WebPage.text`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    async def goto(self, url: str, *, timeout: float | None = None) -> WebPage:
        """Open an address; the page with the ids of its elements.

        Raises:
            PageFailed: it could not be opened.
        """
        return await self.do("goto", url, timeout=timeout)

    async def read(self, url: str, *, timeout: float | None = None) -> WebPage:
        """Open an address; the page with its text as Markdown, links kept.

        Raises:
            PageFailed: it could not be opened.
        """
        return await self._execute(BrowseURLAction(url=url, timeout=timeout))

    async def page(self) -> WebPage:
        """The page as it is now."""
        return await self.do("noop", 0)

    async def click(self, element: str, *, button: str = "left") -> WebPage:
        """Click an element, named by its id in the page's text."""
        return await self.do("click", element, button)

    async def fill(self, element: str, text: str) -> WebPage:
        """Replace the text of a field."""
        return await self.do("fill", element, text)

    async def press(self, element: str, keys: str) -> WebPage:
        """Press keys in an element: `"Enter"`, `"Control+a"`."""
        return await self.do("press", element, keys)

    async def select(self, element: str, *options: str) -> WebPage:
        """Choose options of a list by their values or labels."""
        return await self.do("select_option", element, list(options))

    async def hover(self, element: str) -> WebPage:
        """Move the mouse to an element."""
        return await self.do("hover", element)

    async def scroll(self, down: float = 0, right: float = 0) -> WebPage:
        """Scroll by pixels; negative numbers scroll up and left."""
        return await self.do("scroll", right, down)

    async def back(self) -> WebPage:
        """Go to the page before."""
        return await self.do("go_back")

    async def forward(self) -> WebPage:
        """Go to the page after."""
        return await self.do("go_forward")

    async def do(
        self, action: str, *arguments: str | float | Sequence[str], timeout: float | None = None
    ) -> WebPage:
        """Any action of the browser, such as `do("upload_file", "12", "cv.pdf")`.

        Raises:
            PageFailed: it could not be done.
        """
        call = f"{action}({', '.join(json.dumps(argument) for argument in arguments)})"
        return await self._execute(BrowseInteractiveAction(browser_actions=call, timeout=timeout))

    async def tabs(self) -> list[PageInfo]:
        """The open tabs, with their addresses and titles."""
        return (await self._link.ask(BrowserInfo, "GET", "/browser")).pages

    async def screenshot(self, path: str | Path) -> Path:
        """Write a picture of the page, as it looks now, to a file of this machine; its path.

        Raises:
            BrowserNotStarted: no page was opened yet.
        """
        image = await self._link.send("GET", "/browser/screenshot")
        await asyncio.to_thread(Path(path).write_bytes, image)
        return Path(path)

    async def _execute(self, action: BrowseInteractiveAction | BrowseURLAction) -> WebPage:
        await self._link.connection()
        try:
            answer = await self._link.runtime.execute(action)
        except UnsupportedAction as error:
            raise BrowserError(_MISSING) from error
        if isinstance(answer, ErrorObservation):
            raise BrowserError(_MISSING) if answer.content == _DISABLED else PageFailed(answer.content)
        if isinstance(answer, FileDownloadObservation):
            return WebPage(url="", title="", text=answer.content, download=answer.file_path)
        if answer.error:
            raise PageFailed(answer.last_browser_action_error.strip() or answer.content)
        return _page(answer, await self._title(answer.active_page_index))

    async def _title(self, index: int) -> str:
        try:
            pages = await self.tabs()
        except BrowserNotStarted:
            return ""
        return pages[index].title if 0 <= index < len(pages) else ""


def _page(answer: BrowserOutputObservation, title: str) -> WebPage:
    return WebPage(
        url=answer.url,
        title=title,
        text=_content(answer.content),
        focused=answer.focused_element_bid,
        tabs=tuple(answer.open_pages_urls),
        image=base64.b64decode(answer.screenshot.partition(",")[2] or answer.screenshot),
    )


def _content(told: str) -> str:
    """The page without what the contract writes around it."""
    _, mark, rest = told.partition("============== BEGIN ")
    if not mark:
        return told
    return rest.partition("\n")[2].rpartition("\n============== END ")[0]
