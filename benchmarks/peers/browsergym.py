"""BrowserGym in a process of its own, used as the server of OpenHands uses it. Times are taken here."""

from __future__ import annotations

import base64
import importlib
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.processes import default_signals
from glovebox.box.browser.worker.page.text import html_text

#: What a picture in an answer begins with.
PICTURE = "data:image/png;base64,"


@dataclass(frozen=True)
class Page:
    """A page after a step, as an agent gets it, and the time until it was there."""

    milliseconds: float
    url: str
    #: The text for the agent, with the accessibility tree.
    text: str
    error: str
    #: How many of the two pictures are there: of the page, and of the page with its marks.
    pictures: int


class Environment:
    """The environment, and its observations as OpenHands renders them.

    Without the pauses between actions for people who watch, and without the chat's own browser.
    """

    def __init__(self, chromium: str, downloads: str) -> None:
        self._obs = importlib.import_module("browsergym.utils.obs")
        self._image = importlib.import_module("PIL.Image")
        core: Any = importlib.import_module("browsergym.core.env")
        core.Chat = _NoChat
        self._env = importlib.import_module("gymnasium").make(
            "browsergym/openended",
            task_kwargs={"start_url": "about:blank", "goal": "PLACEHOLDER_GOAL"},
            wait_for_user_message=False,
            headless=True,
            disable_env_checker=True,
            tags_to_mark="all",
            timeout=100000,
            slow_mo=0,
            pw_context_kwargs={"accept_downloads": True},
            pw_chromium_kwargs={"executable_path": chromium, "downloads_path": downloads},
        )
        self._env.reset()

    def step(self, actions: str) -> Page:
        """Carry out a step, or without actions only observe."""
        began = time.perf_counter()
        seen = self._env.step(actions)[0] if actions else self._env.unwrapped._get_obs()
        html_text(self._obs.flatten_dom_to_str(seen["dom_object"]))
        marks = self._obs.overlay_som(seen["screenshot"], seen["extra_element_properties"])
        pictures = [self._png(picture) for picture in (marks, seen["screenshot"])]
        text = self._text(seen)
        took = 1000 * (time.perf_counter() - began)
        found = sum(picture.startswith(PICTURE) for picture in pictures)
        return Page(took, seen["url"], text, seen["last_action_error"], found)

    def _png(self, pixels: Any) -> str:
        image = self._image.fromarray(pixels)
        if image.mode == "RGBA":
            image = image.convert("RGB")
        file = io.BytesIO()
        image.save(file, format="PNG")
        return PICTURE + base64.b64encode(file.getvalue()).decode()

    def _text(self, seen: Mapping[str, Any]) -> str:
        """The text for the agent, as far as it depends on the page."""
        tree = self._obs.flatten_axtree_to_str(
            seen["axtree_object"],
            extra_properties=seen["extra_element_properties"],
            with_clickable=True,
            skip_generic=False,
            filter_visible_only=False,
        )
        return (
            f"[Current URL: {seen['url']}]\n[Focused element bid: {seen['focused_element_bid']}]\n\n"
            f"============== BEGIN accessibility tree ==============\n{tree}\n"
            "============== END accessibility tree ==============\n"
        )

    def close(self) -> None:
        self._env.close()


class _NoChat:
    """In place of the chat, whose window is a browser of its own."""

    def __init__(self, **_: object) -> None:
        self.messages: list[dict[str, object]] = []

    def add_message(self, role: str, msg: str) -> None:
        self.messages.append({"role": role, "timestamp": time.time(), "message": msg})

    def close(self) -> None:
        """Nothing was opened."""


def serve(pipe: Connection, chromium: str, downloads: str) -> None:
    """In a process of its own: a page for each string of actions; a text is the error that ends it."""
    default_signals()
    try:
        environment = Environment(chromium, downloads)
        pipe.send(None)
        while (actions := pipe.recv()) is not None:
            pipe.send(environment.step(actions))
        environment.close()
    except EOFError:  # the benchmark is gone
        pass
    except Exception as error:  # noqa: BLE001 - whatever it is, the benchmark reports it
        pipe.send(f"{type(error).__name__}: {error}"[:300])
