"""What can be set about the browser."""

from __future__ import annotations

from typing import Literal

from glovebox.protocol.base import Message


class BrowserOptions(Message):
    """Settings of the plugin."""

    #: The size of pages.
    width: int = 1280
    height: int = 720
    #: Whether actions may name places on the screen: mouse_click(x, y), keyboard_type(text) and so on.
    coordinates: bool = False
    #: How long pages may take to load, in seconds.
    load_limit: float = 30.0
    #: What pages that ask with confirm() or prompt() are answered.
    dialogs: Literal["accept", "dismiss"] = "dismiss"
    #: How long a page must be quiet after an action before it is looked at, in seconds.
    settle: float = 0.1
    #: The most characters of an accessibility tree, or of a page's text.
    tree_limit: int = 400_000
    #: The interpreter of the process that drives Chromium; empty for the one that runs the box.
    python: str = ""
