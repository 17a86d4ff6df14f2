"""BrowserGym in a process of its own, used as the server of OpenHands uses it.

What is asked comes through a pipe: actions for a step, an empty text for an observation without one, None
for the end. Times are taken here, so what OpenHands spends on sending an observation through its pipe, on
the file of the screenshot, on JSON and on HTTP is not counted. Pages become text by our own converter, which
takes a third of the time of the one that OpenHands uses.
"""

from __future__ import annotations

import base64
import functools
import importlib
import io
import json
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.browser.seen import PICTURE, Seen
from glovebox.box.browser.worker.page_text import html_text


class Environment:
    """The environment, and what is made of its observations."""

    def __init__(self, chromium: str, downloads: str, *, is_plain: bool) -> None:
        self._obs = importlib.import_module("browsergym.utils.obs")
        self._image = importlib.import_module("PIL.Image")
        if is_plain:
            core: Any = importlib.import_module("browsergym.core.env")
            core.Chat = _NoWindow
        else:
            _launch_everywhere(chromium)
        self._env = importlib.import_module("gymnasium").make(
            "browsergym/openended",
            task_kwargs={"start_url": "about:blank", "goal": "PLACEHOLDER_GOAL"},
            wait_for_user_message=False,
            headless=True,
            disable_env_checker=True,
            tags_to_mark="all",
            timeout=100000,
            slow_mo=0 if is_plain else None,
            pw_context_kwargs={"accept_downloads": True},
            pw_chromium_kwargs={"executable_path": chromium, "downloads_path": downloads},
        )
        self._env.reset()

    def answer(self, actions: str) -> Seen:
        """Carry out a step, or only look, and make of what is seen what OpenHands makes of it."""
        began = time.perf_counter()
        seen = self._env.step(actions)[0] if actions else self._env.unwrapped._get_obs()
        html_text(self._obs.flatten_dom_to_str(seen["dom_object"]))
        marks = self._obs.overlay_som(seen["screenshot"], seen["extra_element_properties"])
        pictures = {"set_of_marks": self._png(marks), "screenshot": self._png(seen["screenshot"])}
        text = _told(seen, self._tree(seen))
        took = time.perf_counter() - began
        return Seen(
            milliseconds=1000 * took,
            url=seen["url"],
            text=text,
            error=seen["last_action_error"],
            pictures=sum(picture.startswith(PICTURE) for picture in pictures.values()),
            size=len(_json(seen, text, pictures)),
        )

    def _png(self, pixels: Any) -> str:
        image = self._image.fromarray(pixels)
        if image.mode == "RGBA":
            image = image.convert("RGB")
        file = io.BytesIO()
        image.save(file, format="PNG")
        return PICTURE + base64.b64encode(file.getvalue()).decode()

    def _tree(self, seen: Mapping[str, Any]) -> str:
        tree: str = self._obs.flatten_axtree_to_str(
            seen["axtree_object"],
            extra_properties=seen["extra_element_properties"],
            with_clickable=True,
            skip_generic=False,
            filter_visible_only=False,
        )
        return tree

    def close(self) -> None:
        """End its browsers."""
        self._env.close()


class _NoWindow:
    """In place of the chat, whose window is a browser of its own."""

    def __init__(self, **_: object) -> None:
        self.messages: list[dict[str, object]] = []

    def add_message(self, role: str, msg: str) -> None:
        self.messages.append({"role": role, "timestamp": time.time(), "message": msg})

    def close(self) -> None:
        """There is nothing to close."""


def _launch_everywhere(chromium: str) -> None:
    """Let the chat's window use this Chromium, too: nobody can tell it which one."""
    kind = importlib.import_module("playwright.sync_api").BrowserType
    kind.launch = functools.partialmethod(kind.launch, executable_path=chromium)


def _told(seen: Mapping[str, Any], tree: str) -> str:
    """The text for the agent, as far as it depends on the page."""
    return (
        f"[Current URL: {seen['url']}]\n[Focused element bid: {seen['focused_element_bid']}]\n\n"
        f"============== BEGIN accessibility tree ==============\n{tree}\n"
        "============== END accessibility tree ==============\n"
    )


def _json(seen: Mapping[str, Any], text: str, pictures: Mapping[str, str]) -> str:
    """The answer, with the fields that grow with the page."""
    extras = {
        "url": seen["url"],
        "open_pages_urls": list(seen["open_pages_urls"]),
        "active_page_index": seen["active_page_index"].item(),
        "last_browser_action": seen["last_action"],
        "last_browser_action_error": seen["last_action_error"],
        "focused_element_bid": seen["focused_element_bid"],
        **pictures,
    }
    return json.dumps({"observation": "browse", "content": text, "extras": extras})


def main() -> None:
    """Say that it is ready, then answer until the other side says or is at its end."""
    handle, chromium, downloads, kind = sys.argv[1:]
    pipe = Connection(int(handle))
    environment = Environment(chromium, downloads, is_plain=kind == "plain")
    pipe.send("ready")
    try:
        while (actions := pipe.recv()) is not None:
            pipe.send(environment.answer(actions))
    except (EOFError, BrokenPipeError):  # the benchmark is gone
        pass
    environment.close()


if __name__ == "__main__":
    main()
