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

from msgspec import structs

from glovebox.box.browser import wire
from glovebox.box.browser.chromium import BrowserOptions, Setup, find_chromium
from glovebox.box.browser.process import NAME, BrowserProcess
from glovebox.box.browser.wire import Seen, TextReply
from glovebox.box.plugin import Context
from glovebox.box.supervised import Supervised
from glovebox.errors import BrowserError, BrowserNotStarted
from glovebox.protocol.actions import BrowseInteractiveAction, BrowseURLAction
from glovebox.protocol.events import BrowserChanged
from glovebox.protocol.observations import BrowserOutputObservation, FileDownloadObservation
from glovebox.protocol.status import BrowserInfo, PageInfo

#: The contract's limit for one step.
_STEP_LIMIT = 120.0
_LOOK_LIMIT = 15.0
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WORKER = "glovebox.box.browser.worker"
_EVALUATION = "glovebox.box.browser.worker.evaluation"
#: Runs a module with the search path of the server: neither PYTHONPATH nor the current directory changes it.
_RUN_MODULE = (
    "import sys; sys.path = sys.argv.pop(1).split(':'); import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_EVALUATION_ENDED = (
    "The evaluation's process has ended, and its rewards with it. POST /plugins/browser/restart begins anew."
)
#: A watcher that is this many pictures behind misses some.
_BEHIND = 2


class Browser:
    """Carries out browser actions, one after the other."""

    def __init__(self, options: BrowserOptions, context: Context) -> None:
        self._options = options
        self._context = context
        self._supervised = Supervised(self._start, lambda process: not process.lost.done())
        self._turn = asyncio.Lock()
        self._watchers: set[asyncio.Queue[wire.Frame]] = set()

    @property
    def running(self) -> bool:
        """Whether it was started, and can be asked."""
        return self._supervised.alive is not None

    async def open(self) -> None:
        """Adopt the browser of an earlier server, if it left one."""
        if self._context.keeper.kept(NAME) is not None:
            with contextlib.suppress(BrowserError):
                await self._supervised.get()

    async def close(self) -> None:
        """Disconnect; the process ends with the box or waits for the next server. End one that is lost."""
        await self._supervised.stop()
        process, self._supervised.current = self._supervised.current, None
        if process is not None:
            await (process.close() if process.lost.done() else process.disconnect())

    async def browse(self, action: BrowseURLAction) -> BrowserOutputObservation | FileDownloadObservation:
        """Open a page and read it."""
        url = action.url
        if not _SCHEME.match(url):
            url = f"{os.getcwd()}{url}"  # as the contract shows what is no address
        return await self._step(f'goto("{_quote(url)}")', BROWSE, url, raw=action.return_axtree)

    async def interact(
        self, action: BrowseInteractiveAction
    ) -> BrowserOutputObservation | FileDownloadObservation:
        """Act on the active page."""
        return await self._step(action.browser_actions, INTERACTIVE, "", raw=action.return_axtree)

    async def picture(self, kind: Literal["png", "jpeg"]) -> wire.Picture:
        """A picture of the active page.

        Raises:
            BrowserNotStarted: there is none.
            BrowserError: it cannot be observed.
        """
        process = self._expect()
        try:
            async with asyncio.timeout(_LOOK_LIMIT):
                return await process.look(kind)
        except TimeoutError as error:
            raise BrowserError(TOO_LONG) from error

    async def info(self) -> BrowserInfo:
        process = self._supervised.alive
        if process is None:
            return BrowserInfo(state="stopped")
        try:
            async with asyncio.timeout(_LOOK_LIMIT):
                tabs = await process.survey()
        except TimeoutError:
            return BrowserInfo(state="busy", version=process.version)
        except BrowserError:
            if self.running:
                raise
            return BrowserInfo(state="stopped")
        pages = [
            PageInfo(url=url, title=title, active=index == tabs.active)
            for index, (url, title) in enumerate(zip(tabs.urls, tabs.titles, strict=True))
        ]
        return BrowserInfo(state="running", version=process.version, pid=tabs.pid, pages=pages)

    async def frames(self) -> AsyncGenerator[wire.Frame, None]:
        """The active page whenever it changes; a slow reader misses some.

        Raises:
            BrowserNotStarted: there is none.
        """
        process = self._expect()
        queue: asyncio.Queue[wire.Frame] = asyncio.Queue(_BEHIND)
        self._watchers.add(queue)
        process.cast(True)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.discard(queue)
            if not self._watchers and self._supervised.current is not None:
                self._supervised.current.cast(False)

    async def _step(
        self, actions: str, trigger: str, url: str, *, raw: bool
    ) -> BrowserOutputObservation | FileDownloadObservation:
        async with self._turn:
            try:
                reply = await self._carry_out(actions, trigger, raw=raw)
            except BrowserError as error:
                return failed_observation(str(error), trigger, url)
            if isinstance(reply, wire.TextReply):
                return text_observation(reply, trigger, actions)
            for dialog in reply.dialogs:
                answer = "accepted" if dialog.accepted else "dismissed"
                self._publish(f"{dialog.kind} {answer}", dialog.text)
            if reply.downloads:
                return download_observation(actions, reply.downloads[-1].path)
            return seen_observation(reply, trigger, actions)

    async def _carry_out(self, actions: str, trigger: str, *, raw: bool) -> wire.Seen | wire.TextReply:
        process = await self._supervised.get()
        try:
            async with asyncio.timeout(_STEP_LIMIT):
                return await process.step(actions, as_text=trigger == BROWSE, raw=raw)
        except TimeoutError as error:
            self._publish("ended", TOO_LONG)
            await process.close()
            raise BrowserError(TOO_LONG) from error

    def _expect(self) -> BrowserProcess:
        if (process := self._supervised.alive) is None:
            raise BrowserNotStarted("The browser is not started: browse or browse_interactive starts it.")
        return process

    async def _start(self) -> BrowserProcess:
        settings, supervised, threads = self._context.settings, self._supervised, self._context.threads
        if supervised.current is not None:  # it has crashed
            if settings.browsergym_eval_env:
                raise BrowserError(_EVALUATION_ENDED)
            await supervised.current.close()
            supervised.current = None
        setup = await threads.run(self._setup)
        command = self._command(_EVALUATION if setup.evaluation else _WORKER)
        process = await BrowserProcess.start(self._context.keeper, threads, setup, command, self._receive)
        self._publish("started", f"Chromium {process.version}")
        if self._watchers:
            process.cast(True)
        return process

    def _command(self, module: str) -> list[str]:
        if self._options.python:
            return [self._options.python, "-m", module]
        return [sys.executable, "-I", "-c", _RUN_MODULE, ":".join(sys.path), module]

    def _setup(self) -> Setup:
        settings = self._context.settings
        return Setup(
            socket="{directory}/s",
            executable=find_chromium(settings.chromium, settings.command_environment.get("PATH", os.defpath)),
            workspace=os.path.abspath(settings.working_dir),
            profile="{directory}/profile",
            closed_ports=list(self._context.services.ports),
            evaluation=settings.browsergym_eval_env,
            **structs.asdict(self._options),
        )

    def _receive(self, message: wire.Frame | wire.Crashed) -> None:
        if isinstance(message, wire.Crashed):
            self._publish("crashed", message.what)
            return
        for queue in self._watchers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(message)

    def _publish(self, what: str, reason: str = "") -> None:
        self._context.events.append(BrowserChanged, what=what, reason=reason)


def _quote(url: str) -> str:
    """Escape an address for the quotes of a call."""
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
    """An observation without a page."""
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


def text_observation(reply: TextReply, trigger: str, actions: str) -> BrowserOutputObservation:
    """The goal or the rewards of an evaluation."""
    return BrowserOutputObservation(
        content=reply.text,
        url="",
        trigger_by_action=trigger,
        goal_image_urls=reply.images,
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
