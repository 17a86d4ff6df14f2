"""A task of BrowserGym in its browser: the steps an agent takes, what it sees then, and its rewards.

BrowserGym drives Playwright without an event loop, so everything here blocks.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import gymnasium
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, BrowserType, Error, Page, Playwright, sync_playwright

from glovebox.box.browser.chromium import Setup, flags, how_to_get
from glovebox.box.browser.wire import (
    BrowserStep,
    Observe,
    OpenTabs,
    Picture,
    Seen,
    Survey,
    replace_surrogates,
)
from glovebox.box.browser.worker.downloads import save_screenshot
from glovebox.box.browser.worker.page.text import html_text

# BrowserGym has no types.
_core: Any = import_module("browsergym.core")
_environments: Any = import_module("browsergym.core.env")
_observation: Any = import_module("browsergym.core.observation")
_showing: Any = import_module("browsergym.utils.obs")

#: The limit of Playwright's calls in milliseconds. Agents are measured with it, so it is no option.
_CALL_LIMIT = 100_000
#: The roles of messages of the agent to the user.
_AGENT_ROLES = ("assistant", "infeasible")

#: What an environment or a task raises when it fails: their own errors, and Python's for what they are not
#: prepared for.
FAILURES: tuple[type[Exception], ...] = (
    Error,
    gymnasium.error.Error,
    _observation.MarkingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Goal(NamedTuple):
    """The goal of the task."""

    text: str
    images: list[str]


class Task:
    """An environment of BrowserGym that has been started. One per process: it leans on globals of BrowserGym.

    Every method but `close` raises one of `FAILURES` if the environment fails.
    """

    def __init__(self, name: str, setup: Setup) -> None:
        logging.getLogger("browsergym").setLevel(logging.ERROR)  # it warns of what is wanted here
        self.rewards: list[float] = []
        self._playwright = sync_playwright().start()
        self._setup = setup
        self._env: gymnasium.Env[Any, Any] | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._start(name, setup)
            undo.pop_all()

    def _start(self, name: str, setup: Setup) -> None:
        executable = setup.executable or self._playwright.chromium.executable_path
        if not os.path.exists(executable):
            raise FileNotFoundError(f"There is no Chromium at {executable}. {how_to_get(sys.executable)}")
        _core._set_global_playwright(_WithFlags(self._playwright, flags(setup.closed_ports)))
        _environments.Chat = TaskChat
        self._env = gymnasium.make(
            name,
            disable_env_checker=True,
            tags_to_mark="all",
            timeout=_CALL_LIMIT,
            pw_chromium_kwargs={"executable_path": executable},
        )
        seen, _ = self._env.reset()
        self.goal = _goal(seen)
        self.version = self._browser.version
        self._said = len(seen["chat_messages"])
        self._pid = _process_id(self._browser)

    @property
    def ended(self) -> bool:
        """Whether Chromium has ended, as far as is known. There is no other for the same task."""
        return not self._browser.is_connected()

    def step(self, request: BrowserStep) -> Seen:
        """Carry out calls; they are rewarded."""
        assert self._env is not None
        seen, reward, _, _, _ = self._env.step(request.actions)
        self.rewards.append(float(reward))
        said = seen["chat_messages"][self._said :]
        self._said += len(said)
        messages = [one["message"] for one in said if one["role"] in _AGENT_ROLES]
        return _seen(request, seen, messages, self._setup)

    def look(self, request: Observe) -> Picture:
        page = self._page()
        title = page.title()
        image = page.screenshot(type=request.format)
        return Picture(
            id=request.id, image=image, url=replace_surrogates(page.url), title=replace_surrogates(title)
        )

    def survey(self, request: Survey) -> OpenTabs:
        """List the open pages, also when Chromium has ended."""
        try:
            active = self._page()
            pages = self._context.pages
            return OpenTabs(
                id=request.id,
                urls=replace_surrogates([page.url for page in pages]),
                titles=replace_surrogates([page.title() for page in pages]),
                active=pages.index(active),
                pid=self._pid,
            )
        except Error:
            if not self.ended:
                raise
            return OpenTabs(id=request.id, urls=[], titles=[], active=0, pid=0)

    def close(self) -> None:
        # Chromium ends with Playwright, even if it does not answer or the task cannot be ended.
        if self._env is not None:
            with contextlib.suppress(*FAILURES):
                self._env.close()
        with contextlib.suppress(*FAILURES):
            self._playwright.stop()

    @property
    def _browser(self) -> Browser:
        browser: Browser = self._gym.browser
        return browser

    @property
    def _context(self) -> BrowserContext:
        context: BrowserContext = self._gym.context
        return context

    @property
    def _gym(self) -> Any:
        assert self._env is not None
        return self._env.unwrapped

    def _page(self) -> Page:
        """The active page. It may have closed itself since the last step."""
        self._context.cookies()  # Playwright handles events only during a call
        page: Page = self._gym.page
        return self._context.pages[-1] if page.is_closed() else page


class TaskChat:
    """The messages of agent, user and task.

    Replaces BrowserGym's, which shows it in a second, invisible browser.
    """

    def __init__(self, headless: bool, **_: object) -> None:
        self.messages: list[dict[str, Any]] = []

    def add_message(self, role: str, msg: str) -> None:
        if role != "info":  # it is for people who watch
            self.messages.append({"role": role, "timestamp": time.time(), "message": msg})

    def close(self) -> None: ...


class _WithFlags:
    """Playwright that starts Chromium with flags: BrowserGym has no option for them."""

    def __init__(self, playwright: Playwright, flags: Sequence[str]) -> None:
        self._playwright = playwright
        self.chromium = _ChromiumWithFlags(playwright.chromium, flags)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._playwright, name)


class _ChromiumWithFlags:
    def __init__(self, chromium: BrowserType, flags: Sequence[str]) -> None:
        self._chromium = chromium
        self._flags = flags

    def launch(self, *, args: Sequence[str] | None = None, **options: Any) -> Browser:
        return self._chromium.launch(args=[*(args or ()), *self._flags], **options)


def _process_id(browser: Browser) -> int:
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return next((one["id"] for one in processes if one["type"] == "browser"), 0)


def _goal(seen: Mapping[str, Any]) -> Goal:
    parts = seen["goal_object"]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    images = [part["image_url"] for part in parts if part["type"] == "image_url"]
    urls = [image["url"] if isinstance(image, dict) else image for image in images]
    return Goal(replace_surrogates(texts[0] if texts else seen["goal"]), replace_surrogates(urls))


def _seen(request: BrowserStep, seen: Mapping[str, Any], messages: list[str], setup: Setup) -> Seen:
    limit = setup.tree_limit
    properties = seen["extra_element_properties"]
    screenshot = _png(seen["screenshot"])
    marked = any(one["set_of_marks"] for one in properties.values())
    tree, tree_error = ("", "") if request.as_text else _tree(seen, limit)
    return Seen(
        id=request.id,
        url=replace_surrogates(seen["url"]),
        open_pages_urls=replace_surrogates(list(seen["open_pages_urls"])),
        active_page_index=int(seen["active_page_index"][0]),
        focused_element_bid=seen["focused_element_bid"] or "",
        screenshot=screenshot,
        set_of_marks=_png(_showing.overlay_som(seen["screenshot"], properties)) if marked else screenshot,
        screenshot_path=save_screenshot(screenshot, setup.workspace),
        error=replace_surrogates(seen["last_action_error"]),
        text=_page_text(seen["dom_object"], limit) if request.as_text else "",
        tree=tree,
        tree_error=tree_error,
        axtree=replace_surrogates(seen["axtree_object"]) if request.raw else {},
        properties=replace_surrogates(properties) if request.raw else {},
        messages=replace_surrogates(messages),
    )


def _tree(seen: Mapping[str, Any], limit: int) -> tuple[str, str]:
    """The accessibility tree as text, and why there is none."""
    try:
        tree = _showing.flatten_axtree_to_str(
            seen["axtree_object"], seen["extra_element_properties"], with_clickable=True, skip_generic=False
        )
    except (LookupError, TypeError, RecursionError) as error:  # pages may be stranger than it expects
        return "", replace_surrogates(str(error))
    return _cut(replace_surrogates(tree), "the tree", limit), ""


def _page_text(document: Mapping[str, Any], limit: int) -> str:
    document = {
        **document,
        "strings": replace_surrogates(document["strings"]),
    }  # lxml takes no half characters
    try:
        text = html_text(_showing.flatten_dom_to_str(document))
    except (AssertionError, LookupError, RecursionError) as error:
        return f"[The page could not be turned into text: {error}]"
    return _cut(text, "the text", limit)


def _cut(text: str, what: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    end = max(text.rfind("\n", 0, limit + 1), 0)
    more = text.count("\n", end) or 1
    return f"{text[:end]}\n[... {more} more lines; {what} is cut after {limit} characters]"


def _png(pixels: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
