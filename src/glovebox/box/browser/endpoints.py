"""`/browser`: which pages are open, and how the active one looks."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Literal

from starlette.requests import Request
from starlette.responses import Response

from glovebox.errors import RequestError
from glovebox.http.endpoints import Answer, Endpoint, Parameter
from glovebox.http.responses import ErrorBody, json_response
from glovebox.http.sse import EVENTS, Stream, described, message
from glovebox.protocol.browser import BrowserInfo, ScreencastFrame

if TYPE_CHECKING:
    from glovebox.box.browser.browser import Browser

_FORMATS: dict[str, Literal["png", "jpeg"]] = {"png": "png", "jpeg": "jpeg"}


class BrowserEndpoints:
    """The endpoints."""

    def __init__(self, browser: Callable[[], Browser], closing: asyncio.Event) -> None:
        self._browser = browser
        self._closing = closing

    async def info(self, request: Request) -> Response:
        """The browser and its pages."""
        return json_response(await self._browser().info())

    async def screenshot(self, request: Request) -> Response:
        """The active page as a picture."""
        asked = request.query_params.get("format", "png")
        kind = _FORMATS.get(asked)
        if kind is None:
            raise RequestError(f"format is {asked[:50]!r}, which is none of: {', '.join(_FORMATS)}.")
        picture = await self._browser().picture(kind)
        return Response(picture.image, media_type=f"image/{kind}", headers={"Cache-Control": "no-store"})

    async def screencast(self, request: Request) -> Response:
        """The active page whenever it changes."""
        browser = self._browser()
        await browser.picture("jpeg")  # says if there is nothing to be seen, before the answer begins
        return Stream(_messages(browser), closing=self._closing)


async def _messages(browser: Browser) -> AsyncGenerator[bytes, None]:
    async for frame in browser.frames():
        shown = ScreencastFrame(
            url=frame.url,
            width=frame.width,
            height=frame.height,
            image=base64.b64encode(frame.image).decode(),
        )
        yield message("screencast", shown)


def browser_endpoints(browser: Callable[[], Browser], closing: asyncio.Event) -> list[Endpoint]:
    """What is served of the browser."""
    own = BrowserEndpoints(browser, closing)
    stopped = Answer("The browser is not started: no page was asked for yet.", ErrorBody)
    failed = Answer("The page cannot be seen.", ErrorBody)
    kinds = Parameter("format", {"enum": list(_FORMATS), "default": "png"}, "The kind of picture.")
    return [
        Endpoint(
            "GET", "/browser", own.info, "The browser and its open pages",
            {200: Answer("How it is.", BrowserInfo), 500: failed},
        ),
        Endpoint(
            "GET", "/browser/screenshot", own.screenshot, "The active page as it looks now",
            {200: Answer("The picture.", media_type="image/png"), 409: stopped,
             422: Answer("There is no such format.", ErrorBody), 500: failed},
            parameters=(kinds,),
        ),
        Endpoint(
            "GET", "/browser/screencast", own.screencast, "The active page whenever it changes",
            {200: Answer("A stream of `screencast` events.", described("screencast"), media_type=EVENTS),
             409: stopped, 500: failed},
        ),
    ]  # fmt: skip
