"""What can be said of the browser of a box."""

from __future__ import annotations

from typing import Literal

from glovebox.protocol.base import Message

BrowserState = Literal["stopped", "running", "busy"]


class PageInfo(Message):
    """An open page."""

    url: str
    title: str
    active: bool


class BrowserInfo(Message):
    """The browser: `stopped` until a page is asked for."""

    state: BrowserState
    #: Of Chromium.
    version: str = ""
    pid: int = 0
    pages: list[PageInfo] = []


class ScreencastFrame(Message):
    """How the active page looks: a JPEG as base64."""

    url: str
    width: int
    height: int
    image: str
