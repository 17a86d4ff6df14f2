"""The browser as a plugin."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.browser.chromium import BrowserOptions
from glovebox.box.executor import Call, Handler
from glovebox.box.plugin import Context, Plugin
from glovebox.errors import BrowserError, PluginFailed, RequestError
from glovebox.http.endpoints import Endpoint, Parameter, Reply, Socket
from glovebox.http.responses import ErrorBody, json_response
from glovebox.http.sse import EVENTS, Stream, described, message
from glovebox.protocol.actions import BrowseInteractiveAction, BrowseURLAction
from glovebox.protocol.observations import BrowserOutputObservation, FileDownloadObservation
from glovebox.protocol.status import BrowserInfo, ScreencastFrame

if TYPE_CHECKING:
    from glovebox.box.browser.browser import Browser


class BrowserPlugin(Plugin):
    """Shows web pages to agents. Chromium itself starts with the first page."""

    name = "browser"
    options = BrowserOptions
    starts = "background"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options(BrowserOptions)
        self._browser: Browser | None = None

    @property
    def browser(self) -> Browser:
        """The browser.

        Raises:
            PluginFailed: the plugin is not started.
        """
        if self._browser is None:
            raise PluginFailed("Plugin browser is not started.")
        return self._browser

    def handlers(self) -> Iterable[Handler]:
        return [self.browse, self.browse_interactive]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        return browser_endpoints(self)

    def gauges(self) -> Mapping[str, float]:
        return {"browser_running": self._browser.running if self._browser else 0}

    async def browse(
        self, action: BrowseURLAction, call: Call
    ) -> BrowserOutputObservation | FileDownloadObservation:
        """Open a page and read it."""
        return await self.browser.browse(action)

    async def browse_interactive(
        self, action: BrowseInteractiveAction, call: Call
    ) -> BrowserOutputObservation | FileDownloadObservation:
        """Act on the active page."""
        return await self.browser.interact(action)

    async def start(self) -> None:
        """Adopt the browser of an earlier server, if it left one."""
        from glovebox.box.browser.browser import Browser

        self._browser = Browser(self._options, self.context)
        await self._browser.open()

    async def health(self) -> dict[str, Any]:
        """Whether it answers; one that was never started is healthy."""
        try:
            info = await self.browser.info()
        except BrowserError as error:
            raise PluginFailed(str(error)) from error
        return {"browser": info.state, "pages": len(info.pages), "version": info.version}

    async def stop(self) -> None:
        if self._browser is not None:
            browser, self._browser = self._browser, None
            await browser.close()

    async def show(self, request: Request) -> Response:
        return json_response(await self.browser.info())

    async def screenshot(self, request: Request) -> Response:
        asked = request.query_params.get("format", "png")
        kind = _FORMATS.get(asked)
        if kind is None:
            raise RequestError(f"format is {asked[:50]!r}, which is none of: {', '.join(_FORMATS)}.")
        picture = await self.browser.picture(kind)
        return Response(picture.image, media_type=f"image/{kind}", headers={"Cache-Control": "no-store"})

    async def screencast(self, request: Request) -> Response:
        browser = self.browser
        await browser.picture("jpeg")  # fails before the response begins if there is no page
        return Stream(_messages(browser), closing=self.context.closing)


_FORMATS: dict[str, Literal["png", "jpeg"]] = {"png": "png", "jpeg": "jpeg"}


async def _messages(browser: Browser) -> AsyncGenerator[bytes, None]:
    async for frame in browser.frames():
        shown = ScreencastFrame(
            url=frame.url,
            width=frame.width,
            height=frame.height,
            image=base64.b64encode(frame.image).decode(),
        )
        yield message("screencast", shown)


def browser_endpoints(own: BrowserPlugin) -> list[Endpoint]:
    """The endpoints for people who watch."""
    stopped = Reply("The browser is not started: no page was asked for yet.", ErrorBody)
    failed = Reply("The page cannot be seen.", ErrorBody)
    kinds = Parameter("format", {"enum": list(_FORMATS), "default": "png"}, "The kind of picture.")
    return [
        Endpoint(
            "GET", "/browser", own.show, "The browser and its open pages",
            {200: Reply("How it is.", BrowserInfo), 500: failed},
        ),
        Endpoint(
            "GET", "/browser/screenshot", own.screenshot, "The active page as it looks now",
            {200: Reply("The picture.", media_type="image/png"), 409: stopped,
             422: Reply("There is no such format.", ErrorBody), 500: failed},
            parameters=(kinds,),
        ),
        Endpoint(
            "GET", "/browser/screencast", own.screencast, "The active page whenever it changes",
            {200: Reply("A stream of `screencast` events.", described("screencast"), media_type=EVENTS),
             409: stopped, 500: failed},
        ),
    ]  # fmt: skip
