"""Everything a hub has of its windows: who they are, the link to each, and the box that each is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.types import ASGIApp

from glovebox.box.threads import Threads
from glovebox.errors import WindowError, WindowLeft, WindowLost
from glovebox.hub.boxes import WindowBox
from glovebox.hub.introduction import checked, checked_folders
from glovebox.hub.link import Peer, WindowLink
from glovebox.hub.registry import Entry, Registry
from glovebox.hub.state import StateDir
from glovebox.protocol.base import Message
from glovebox.protocol.window import Changed, Heartbeat, Hello, Registered, Registration, Window
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

    def __init__(self, entry: Entry, registry: Registry, settings: MakeSettings, turns: asyncio.Lock) -> None:
        self.entry = entry
        self.link = WindowLink(lambda: registry.window(entry))
        self.box = WindowBox(self.link, lambda: settings(registry.window(entry)), turns)
        self.peer: Peer | None = None
        #: The last state that was logged.
        self.told = ""

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

    def listed(self) -> list[Window]:
        """All windows, the oldest first."""
        return [self._registry.window(entry) for entry in self._registry.entries()]

    async def app(self, window_id: str) -> ASGIApp:
        """What serves a window as a box.

        Raises:
            NoSuchWindow: there is none.
        """
        return await self._open[self._registry.find(window_id).id].box.app()

    def stats(self) -> HubStats:
        """How the hub is."""
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
        """The window introduces itself on its socket."""
        await self.changed(window, Changed(paused=hello.paused, trusted=hello.trusted, folders=hello.folders))
        await window.link.hello(hello.orders)

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

    def leave(self, window: OpenWindow, reason: str) -> None:
        """The user ends the connection."""
        said = reason.strip() or "Its user has disconnected it."
        self._remove(window.entry, WindowLeft, said)
        self._background(self._save())

    def disconnected(self, window: OpenWindow, peer: Peer) -> None:
        """A socket is closed."""
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

    def _new(self, entry: Entry) -> OpenWindow:
        return OpenWindow(entry, self._registry, self._settings, self._turns)

    def _detach(self, window: OpenWindow) -> None:
        window.peer = None
        window.link.disconnected()
        self._registry.disconnected(window.entry)
        self._log_state(window)

    def _remove(self, entry: Entry, kind: type[WindowError], why: str) -> None:
        window = self._open.pop(entry.id)
        self._registry.remove(entry, why)
        window.link.end(kind, f"The VS Code window {entry.registration.name!r} is gone. {why}")
        self._given_before += window.link.given
        self._failed_before += window.link.failed + window.link.outstanding
        if window.peer is not None:
            self._background(window.peer.close())
        self._background(window.box.close())
        log.info("Window %s is gone. %s", window, why)

    def _log_state(self, window: OpenWindow) -> None:
        state = self._registry.status(window.entry)
        if state != window.told:
            window.told = state
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
