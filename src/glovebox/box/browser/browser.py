"""The browser of a box: started when it is first needed, and again when its process has ended."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import sys
from collections.abc import AsyncGenerator
from typing import Literal

from glovebox.box.browser import wire
from glovebox.box.browser.chromium_path import find_chromium
from glovebox.box.browser.options import BrowserOptions
from glovebox.box.browser.process import NAME, BrowserProcess
from glovebox.box.browser.wire import Seen, TextReply
from glovebox.box.events import EventLog
from glovebox.box.services import Keeper
from glovebox.box.threads import Threads
from glovebox.errors import BrowserError, BrowserNotStarted
from glovebox.protocol.actions import BrowseInteractiveAction, BrowseURLAction
from glovebox.protocol.events import BrowserChanged
from glovebox.protocol.observations import BrowserOutputObservation, FileDownloadObservation
from glovebox.protocol.status import BrowserInfo, PageInfo
from glovebox.settings import Settings

#: The contract's limit for one step.
_STEP_LIMIT = 120.0
_LOOK_LIMIT = 15.0
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WORKER = "glovebox.box.browser.worker"
_EVALUATION = "glovebox.box.browser.worker.evaluation"
_EVALUATION_ENDED = (
    "The evaluation's process has ended, and its rewards with it. POST /plugins/browser/restart begins anew."
)
#: A watcher that is this many pictures behind misses some.
_BEHIND = 2


class Browser:
    """Carries out browser actions, one after the other."""

    def __init__(
        self,
        options: BrowserOptions,
        settings: Settings,
        *,
        ports: tuple[int, ...],
        keeper: Keeper,
        threads: Threads,
        events: EventLog,
    ) -> None:
        self._options = options
        self._settings = settings
        self._ports = ports
        self._keeper = keeper
        self._threads = threads
        self._events = events
        self._process: BrowserProcess | None = None
        self._starting = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._watchers: set[asyncio.Queue[wire.Frame]] = set()

    @property
    def running(self) -> bool:
        """Whether it was started, and can be asked."""
        return self._process is not None and not self._process.lost.done()

    async def open(self) -> None:
        """Take over the browser of an earlier server, if it left one."""
        if self._keeper.kept(NAME) is not None:
            with contextlib.suppress(BrowserError):
                await self._started()

    async def close(self) -> None:
        """Leave the process, which ends with the box or waits for the next server; end one that is lost."""
        if self._process is not None:
            process, self._process = self._process, None
            await (process.close() if process.lost.done() else process.disconnect())

    async def browse(self, action: BrowseURLAction) -> BrowserOutputObservation | FileDownloadObservation:
        """Open a page and read it."""
        url = action.url
        if not _SCHEME.match(url):
            url = f"{os.getcwd()}{url}"  # the contract's way to say that this is no address
        return await self._step(f'goto("{_quoted(url)}")', BROWSE, url, raw=action.return_axtree)

    async def interact(
        self, action: BrowseInteractiveAction
    ) -> BrowserOutputObservation | FileDownloadObservation:
        """Act on the active page."""
        return await self._step(action.browser_actions, INTERACTIVE, "", raw=action.return_axtree)

    async def picture(self, kind: Literal["png", "jpeg"]) -> wire.Picture:
        """How the active page looks now.

        Raises:
            BrowserNotStarted: there is none.
            BrowserError: it cannot be seen.
        """
        process = self._there()
        try:
            async with asyncio.timeout(_LOOK_LIMIT):
                return await process.look(kind)
        except TimeoutError as error:
            raise BrowserError(TOO_LONG) from error

    async def info(self) -> BrowserInfo:
        """What there is to know of it."""
        process = self._process
        if process is None or not self.running:
            return BrowserInfo(state="stopped")
        try:
            async with asyncio.timeout(_LOOK_LIMIT):
                told = await process.survey()
        except TimeoutError:
            return BrowserInfo(state="busy", version=process.version)
        except BrowserError:
            if self.running:
                raise
            return BrowserInfo(state="stopped")
        pages = [
            PageInfo(url=url, title=title, active=index == told.active)
            for index, (url, title) in enumerate(zip(told.urls, told.titles, strict=True))
        ]
        return BrowserInfo(state="running", version=process.version, pid=told.pid, pages=pages)

    async def frames(self) -> AsyncGenerator[wire.Frame, None]:
        """The active page whenever it changes; a slow reader misses some.

        Raises:
            BrowserNotStarted: there is none.
        """
        process = self._there()
        queue: asyncio.Queue[wire.Frame] = asyncio.Queue(_BEHIND)
        self._watchers.add(queue)
        process.cast(True)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.discard(queue)
            if not self._watchers and self._process is not None:
                self._process.cast(False)

    async def _step(
        self, actions: str, trigger: str, url: str, *, raw: bool
    ) -> BrowserOutputObservation | FileDownloadObservation:
        async with self._turn:
            try:
                reply = await self._carry_out(actions, trigger, raw=raw)
            except BrowserError as error:
                return failed_observation(str(error), trigger, url)
            if isinstance(reply, wire.TextReply):
                return told_observation(reply, trigger, actions)
            for dialog in reply.dialogs:
                answer = "accepted" if dialog.accepted else "dismissed"
                self._say(f"{dialog.kind} {answer}", dialog.text)
            if reply.downloads:
                return download_observation(actions, reply.downloads[-1].path)
            return seen_observation(reply, trigger, actions)

    async def _carry_out(self, actions: str, trigger: str, *, raw: bool) -> wire.Seen | wire.TextReply:
        process = await self._started()
        try:
            async with asyncio.timeout(_STEP_LIMIT):
                return await process.step(actions, as_text=trigger == BROWSE, raw=raw)
        except TimeoutError as error:
            self._say("ended", TOO_LONG)
            await process.close()
            raise BrowserError(TOO_LONG) from error

    def _there(self) -> BrowserProcess:
        if self._process is None or not self.running:
            raise BrowserNotStarted("The browser is not started: browse or browse_interactive starts it.")
        return self._process

    async def _started(self) -> BrowserProcess:
        async with self._starting:
            if self._process is not None and not self._process.lost.done():
                return self._process
            if self._process is not None:  # it has crashed
                if self._settings.browsergym_eval_env:
                    raise BrowserError(_EVALUATION_ENDED)
                await self._process.close()
                self._process = None
            setup = await self._threads.run(self._setup)
            module = _EVALUATION if setup.evaluation else _WORKER
            command = [self._options.python or sys.executable, "-m", module]
            self._process = await BrowserProcess.start(
                self._keeper, self._threads, setup, command, self._heard
            )
            self._say("started", f"Chromium {self._process.version}")
            if self._watchers:
                self._process.cast(True)
            return self._process

    def _setup(self) -> wire.Setup:
        """What the process is to know. Blocks."""
        settings, options = self._settings, self._options
        return wire.Setup(
            socket="{directory}/s",
            executable=find_chromium(settings.chromium, settings.command_environment.get("PATH", os.defpath)),
            workspace=os.path.abspath(settings.working_dir),
            profile="{directory}/profile",
            closed_ports=list(self._ports),
            width=options.width,
            height=options.height,
            coordinates=options.coordinates,
            load_limit=options.load_limit,
            dialogs=options.dialogs,
            settle=options.settle,
            tree_limit=options.tree_limit,
            evaluation=settings.browsergym_eval_env,
        )

    def _heard(self, told: wire.Frame | wire.Crashed) -> None:
        if isinstance(told, wire.Crashed):
            self._say("crashed", told.what)
            return
        for queue in self._watchers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(told)

    def _say(self, what: str, reason: str = "") -> None:
        self._events.append(BrowserChanged, what=what, reason=reason)


def _quoted(url: str) -> str:
    """An address inside the quotes of a call; those that need nothing stay as they are."""
    return url.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


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


def told_observation(told: TextReply, trigger: str, actions: str) -> BrowserOutputObservation:
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
