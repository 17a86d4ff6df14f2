"""Everything a hub has of its windows: who they are, the link to each, and the box that each is."""

from __future__ import annotations

import asyncio
import logging
import ntpath
import posixpath
import time
import unicodedata
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import structs
from starlette.types import ASGIApp

from glovebox.box.box import Box
from glovebox.box.plugin import Context
from glovebox.box.startup import Startup
from glovebox.box.threads import Threads
from glovebox.errors import WindowError, WindowLeft, WindowLost
from glovebox.http.requests import InvalidParameter
from glovebox.hub.link import Peer, WindowLink
from glovebox.hub.registry import Registry, WindowEntry
from glovebox.hub.state import StateDir
from glovebox.hub.stays import Stay
from glovebox.hub.window.plugin import WindowPlugin
from glovebox.hub.window_client import Hands
from glovebox.protocol.base import Message
from glovebox.protocol.window import (
    Changed,
    Folder,
    Heartbeat,
    Hello,
    Leaving,
    Registered,
    Registration,
    Window,
)
from glovebox.server.app import create_app
from glovebox.settings import Settings

log = logging.getLogger(__name__)

#: Makes the settings of a window's box.
MakeSettings = Callable[[Window], Settings]


class HubStats(Message):
    """How a hub is."""

    #: Seconds since it was started.
    uptime: float
    #: How many windows it knows, and how many of them are in each state.
    windows: int
    by_status: dict[str, int]
    #: Orders to windows: since it was started, how many of these came to nothing, and those under way.
    orders_given: int
    orders_failed: int
    orders_outstanding: int


class OpenWindow:
    """A window, with what a hub has of it."""

    def __init__(
        self, entry: WindowEntry, registry: Registry, settings: MakeSettings, turns: asyncio.Lock
    ) -> None:
        self.entry = entry
        self.link = WindowLink(lambda: registry.window(entry))
        self.box = WindowBox(self.link, lambda: settings(registry.window(entry)), turns)
        self.peer: Peer | None = None
        self.stay: Stay | None = None
        #: The last state that was logged.
        self.logged = ""

    def __str__(self) -> str:
        return f"{self.entry.id} ({self.entry.registration.name!r})"


class Windows:
    """All windows of a hub."""

    def __init__(self, registry: Registry, state: StateDir, threads: Threads, settings: MakeSettings) -> None:
        self._registry = registry
        self._state = state
        self._threads = threads
        self._settings = settings
        self._turns = asyncio.Lock()
        self._open = {entry.id: self._new(entry) for entry in registry.entries()}
        self._started = time.monotonic()
        self._saving = asyncio.Lock()
        self._wanted = self._saved = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._given_before = self._failed_before = 0

    # Over HTTP.

    async def register(self, said: Registration, known_id: str, known_secret: str) -> Registered:
        """Take in a window.

        Raises:
            InvalidParameter: what it says of itself cannot be.
            WindowError: there are too many.
        """
        entry, secret = self._registry.register(checked(said), known_id, known_secret)
        for old in self._registry.unanswered(entry):
            self._remove(old, WindowLost, "It registered again, under another id.")
        window = self._open.get(entry.id)
        if window is None:
            window = self._open[entry.id] = self._new(entry)
        elif window.peer is not None:
            log.warning("Window %s, which was %s, is taken over by a new registration", window, window.logged)
            self._background(window.peer.close())
            self._detach(window)
        log.info("Window %s has registered", window)
        await self._save()
        return Registered(
            id=entry.id,
            secret=secret,
            heartbeat_seconds=self._registry.heartbeat_seconds,
            grace_seconds=self._registry.grace_seconds,
        )

    def heartbeat(self, window_id: str, beat: Heartbeat) -> Window:
        """A window's main thread has answered.

        Raises:
            NoSuchWindow: there is none of that id and secret.
        """
        entry = self._registry.proven(window_id, beat.secret)
        self._registry.heartbeat(entry)
        return self._registry.window(entry)

    async def unregister(self, window_id: str, secret: str) -> None:
        """A window wants to be forgotten.

        Raises:
            NoSuchWindow: there is none of that id and secret.
        """
        self._remove(self._registry.proven(window_id, secret), WindowLeft, "Its user has disconnected it.")
        await self._save()

    def find(self, window_id: str) -> OpenWindow:
        """A window.

        Raises:
            NoSuchWindow: there is none.
        """
        return self._open[self._registry.find(window_id).id]

    def described(self, window: OpenWindow) -> Window:
        return self._registry.window(window.entry)

    def listed(self) -> list[Window]:
        """All windows, the oldest first."""
        return [self._registry.window(entry) for entry in self._registry.entries()]

    async def app(self, window_id: str) -> ASGIApp:
        """What serves a window as a box.

        Raises:
            NoSuchWindow: there is none.
        """
        return await self.find(window_id).box.app()

    def stats(self) -> HubStats:
        by_status: dict[str, int] = {}
        for window in self.listed():
            by_status[window.status] = by_status.get(window.status, 0) + 1
        links = [window.link for window in self._open.values()]
        return HubStats(
            uptime=round(time.monotonic() - self._started, 3),
            windows=len(links),
            by_status=by_status,
            orders_given=self._given_before + sum(link.given for link in links),
            orders_failed=self._failed_before + sum(link.failed for link in links),
            orders_outstanding=sum(link.outstanding for link in links),
        )

    # On sockets.

    def connect(self, window_id: str, secret: str, peer: Peer) -> OpenWindow:
        """A window has opened a socket; one that it had before is closed.

        Raises:
            Refused: it is unknown, or does not prove who it is.
        """
        window = self._open[self._registry.connect(window_id, secret).id]
        if window.peer is not None:
            self._background(window.peer.close())
        window.peer = peer
        window.link.connected(peer)
        self._log_state(window)
        return window

    async def hello(self, window: OpenWindow, hello: Hello) -> None:
        await self.changed(window, Changed(paused=hello.paused, trusted=hello.trusted, folders=hello.folders))
        await window.link.hello(hello.orders)
        if window.stay is not None:  # a window that was reloaded has forgotten it
            self._background(window.stay.renew(window.link))

    async def changed(self, window: OpenWindow, now: Changed) -> None:
        """Something about the window is different.

        Raises:
            InvalidParameter: its folders cannot be.
        """
        folders = checked_folders(now.folders)
        before = window.entry.registration
        self._registry.changed(window.entry, paused=now.paused, trusted=now.trusted, folders=folders)
        self._log_state(window)
        if before != window.entry.registration:
            self._background(self._save())

    def leave(self, window: OpenWindow, leaving: Leaving) -> None:
        """A window ends its connection: for good, or until it is loaded again."""
        if leaving.returns:
            window.link.fail_taken("The VS Code window was reloaded or closed")
            self._detach(window, reloading=True)
        else:
            said = leaving.reason.strip() or "Its user has disconnected it."
            self._remove(window.entry, WindowLeft, said)
            self._background(self._save())

    def disconnected(self, window: OpenWindow, peer: Peer) -> None:
        if window.peer is peer and self._open.get(window.entry.id) is window:
            self._detach(window)

    # Time passes.

    async def look_after(self, interval: float) -> None:
        """Remove windows that are not coming back, for as long as the hub lives."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(interval)
            late = time.monotonic() - before - interval
            overdue = self._registry.look(late if late > interval else 0.0)
            for entry, why in overdue:
                self._remove(entry, WindowLost, why)
            for window in self._open.values():
                self._log_state(window)
            if overdue:
                await self._save()

    async def close(self) -> None:
        """The hub ends. The next one finds the windows where this one has left them."""
        for window in self._open.values():
            window.link.end(WindowLost, "The hub is stopping; whether the order took effect is not known.")
        await self._save()
        await asyncio.gather(*(window.box.close() for window in self._open.values()))

    def _new(self, entry: WindowEntry) -> OpenWindow:
        return OpenWindow(entry, self._registry, self._settings, self._turns)

    def _detach(self, window: OpenWindow, *, reloading: bool = False) -> None:
        window.peer = None
        window.link.disconnected()
        self._registry.disconnected(window.entry, reloading=reloading)
        self._log_state(window)

    def _remove(self, entry: WindowEntry, kind: type[WindowError], why: str) -> None:
        window = self._open.pop(entry.id)
        self._registry.remove(entry, why, may_return=kind is WindowLost and entry.met)
        window.link.end(kind, f"The VS Code window {entry.registration.name!r} is gone. {why}")
        self._given_before += window.link.given
        self._failed_before += window.link.failed + window.link.outstanding
        if window.peer is not None:
            self._background(window.peer.close())
        self._background(window.box.close())
        log.info("Window %s is gone. %s", window, why)

    def _log_state(self, window: OpenWindow) -> None:
        state = self._registry.status(window.entry)
        if state != window.logged:
            window.logged = state
            log.info("Window %s is %s", window, state)

    async def _save(self) -> None:
        """Have what is known now on disk; calls that come together are one."""
        self._wanted += 1
        mine = self._wanted
        async with self._saving:
            if self._saved < mine:
                latest = self._wanted
                await self._threads.run(self._state.keep, self._registry.remembered())
                self._saved = latest

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


MOST_FOLDERS = 100
MOST_CAPABILITIES = 100
LONGEST_NAME = 1000
LONGEST_PATH = 4096
LONGEST_WORD = 200


def checked(said: Registration) -> Registration:
    """A registration without control characters in its names.

    Raises:
        InvalidParameter: something in it is too long, or is not what it should be.
    """
    if not said.instance:
        raise _wrong("instance", "Input should not be empty")
    if len(said.capabilities) > MOST_CAPABILITIES:
        raise _wrong("capabilities", f"There should be at most {MOST_CAPABILITIES}")
    return structs.replace(
        said,
        instance=_clean("instance", said.instance, LONGEST_WORD),
        name=_clean("name", said.name, LONGEST_NAME),
        folders=checked_folders(said.folders),
        vscode_version=_clean("vscode_version", said.vscode_version, LONGEST_WORD),
        extension_version=_clean("extension_version", said.extension_version, LONGEST_WORD),
        capabilities=[_clean("capabilities", one, LONGEST_WORD) for one in said.capabilities],
        app=_clean("app", said.app, LONGEST_WORD),
        remote=_clean("remote", said.remote, LONGEST_WORD),
    )


def checked_folders(folders: list[Folder]) -> list[Folder]:
    """Folders without control characters in their names; their paths are left as they are.

    Raises:
        InvalidParameter: there are too many, or one has no absolute path.
    """
    if len(folders) > MOST_FOLDERS:
        raise _wrong("folders", f"There should be at most {MOST_FOLDERS}")
    for folder in folders:
        path = folder.path
        absolute = posixpath.isabs(path) or (ntpath.isabs(path) and bool(ntpath.splitdrive(path)[0]))
        if not absolute or "\0" in path or len(path) > LONGEST_PATH:
            raise _wrong("folders", f"Input should be an absolute path of at most {LONGEST_PATH} characters")
    return [structs.replace(one, name=_clean("folders", one.name, LONGEST_NAME)) for one in folders]


def _clean(field: str, text: str, most: int) -> str:
    if len(text) > most:
        raise _wrong(field, f"Input should have at most {most} characters")
    return "".join(" " if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") else one for one in text)


def _wrong(field: str, problem: str) -> InvalidParameter:
    return InvalidParameter("value_error", ("body", field), problem, None)


class WindowBox:
    """The box of one window."""

    def __init__(self, hands: Hands, settings: Callable[[], Settings], turns: asyncio.Lock) -> None:
        """`turns`: opening one takes time, so they take turns, and others are heard in between."""
        self._hands = hands
        self._settings = settings
        self._turns = turns
        self._opening: asyncio.Task[tuple[Box, ASGIApp]] | None = None
        self._plugin: WindowPlugin | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an action is under way."""
        return self._plugin is not None and bool(self._plugin.active.count)

    async def end_sessions(self) -> None:
        """Forget the sessions; the window closes their terminals."""
        if self._plugin is not None:
            await self._plugin.terminal.end_all()

    async def app(self) -> ASGIApp:
        failed = self._opening is not None and self._opening.done() and self._opening.exception() is not None
        if self._opening is None or failed:
            self._opening = asyncio.create_task(self._open())
        return (await asyncio.shield(self._opening))[1]

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
            if self._opening.exception() is None:
                await self._opening.result()[0].close()

    async def _open(self) -> tuple[Box, ASGIApp]:
        async with self._turns:
            await asyncio.sleep(0)
            return await self._opened()

    async def _opened(self) -> tuple[Box, ASGIApp]:
        startup = Startup()
        box = Box(
            self._settings(),
            startup,
            only={"window": self._make_plugin},
        )
        await box.__aenter__()
        startup.ready()
        box.begin()
        return box, create_app(box)

    def _make_plugin(self, context: Context) -> WindowPlugin:
        self._plugin = WindowPlugin(context, self._hands)
        return self._plugin
