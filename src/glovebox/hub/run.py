"""Serves a hub: takes its state, binds, listens, and leaves everything in order."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import socketio  # type: ignore[import-untyped]
from socketio.exceptions import ConnectionRefusedError as Refusal  # type: ignore[import-untyped]
from starlette.types import ASGIApp

from glovebox import settings as box_settings
from glovebox.box.startup import Startup
from glovebox.box.threads import Threads
from glovebox.http.requests import InvalidParameter
from glovebox.hub.app import create_hub_app
from glovebox.hub.registry import RegistrationRefused, Registry
from glovebox.hub.state import StateDir
from glovebox.hub.windows import OpenWindow, Windows
from glovebox.json_codec import convert
from glovebox.linux.limits import raise_limit
from glovebox.protocol.base import Message
from glovebox.protocol.window import Changed, Hello, Leaving, Window
from glovebox.secret_environment import forbid_inspection
from glovebox.server import port
from glovebox.server.connection import bounded
from glovebox.server.port import address_of, bind
from glovebox.server.uvicorn import serve_app
from glovebox.settings import Settings
from glovebox.settings.hub import HubSettings

log = logging.getLogger(__name__)

#: The largest message of a window.
LARGEST = 8 << 20
#: No message of a window has more pieces of binary data.
MOST_PIECES = 16
#: A peer that is dead is noticed after the sum of these, in seconds.
PING_EVERY = 10.0
PING_LIMIT = 8.0

MessageT = TypeVar("MessageT", bound=Message)


class _Json:
    """JSON for the library, which knows no other error than that something is not JSON."""

    dumps = staticmethod(json.dumps)

    @staticmethod
    def loads(text: str | bytes) -> Any:
        try:
            return json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None


class _Packet(socketio.packet.Packet):  # type: ignore[misc]
    """A packet with a bound for what it makes the hub hold until it is whole."""

    def decode(self, encoded_packet: Any) -> int:
        count: int = super().decode(encoded_packet)
        if count > MOST_PIECES:
            raise ValueError("too many attachments")
        return count


class _Socket:
    """One connection."""

    def __init__(self, server: Any, sid: str) -> None:
        self._server = server
        self._sid = sid

    async def send(self, event: str, data: Any, acknowledged: Callable[..., None] | None = None) -> None:
        await self._server.emit(event, data, to=self._sid, callback=acknowledged)

    async def close(self) -> None:
        await self._server.disconnect(self._sid)


class Sockets:
    """The sockets of all windows."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._held: dict[str, tuple[OpenWindow, _Socket]] = {}
        quiet = logging.getLogger("glovebox.hub.socketio")
        quiet.setLevel(logging.WARNING)
        self._server = socketio.AsyncServer(
            async_mode="asgi",
            transports=["websocket"],
            # One after the other, in the order in which they come: nothing here waits for anything.
            async_handlers=False,
            serializer=_Packet,
            json=_Json,
            ping_interval=PING_EVERY,
            ping_timeout=PING_LIMIT,
            max_http_buffer_size=LARGEST,
            logger=quiet,
            engineio_logger=quiet,
        )
        self._server.on("connect", self._connect)
        self._server.on("disconnect", self._disconnected)
        self._server.on("hello", self._hello)
        self._server.on("changed", self._changed)
        self._server.on("told", self._report)
        self._server.on("leaving", self._leaving)
        self.app: ASGIApp = socketio.ASGIApp(self._server)

    async def close(self) -> None:
        await self._server.shutdown()

    async def _connect(self, sid: str, environ: Any, auth: Any = None) -> None:
        shown = auth if isinstance(auth, dict) else {}
        socket = _Socket(self._server, sid)
        try:
            window = self._windows.connect(str(shown.get("id", "")), str(shown.get("secret", "")), socket)
        except RegistrationRefused as refused:
            raise Refusal(refused.code) from None
        self._held[sid] = window, socket

    async def _disconnected(self, sid: str, reason: Any = None) -> None:
        held = self._held.pop(sid, None)
        if held is not None:
            self._windows.disconnected(*held)

    async def _hello(self, sid: str, data: Any = None, *more: Any) -> bool:
        return await self._apply(sid, data, Hello, self._windows.hello)

    async def _changed(self, sid: str, data: Any = None, *more: Any) -> bool:
        return await self._apply(sid, data, Changed, self._windows.changed)

    async def _apply(
        self,
        sid: str,
        data: Any,
        kind: type[MessageT],
        apply: Callable[[OpenWindow, MessageT], Awaitable[None]],
    ) -> bool:
        window, message = self._window(sid), _understood(data, kind)
        if window is None or message is None:
            return False
        try:
            await apply(window, message)
        except InvalidParameter as error:
            log.warning("Window %s cannot have such folders: %s", window, error)
            return False
        return True

    async def _report(self, sid: str, data: Any = None, *more: Any) -> bool:
        window = self._window(sid)
        return window is not None and window.link.report(data)

    async def _leaving(self, sid: str, data: Any = None, *more: Any) -> bool:
        window = self._window(sid)
        if window is not None:
            self._windows.leave(window, _understood(data, Leaving) or Leaving(reason=""))
        return True

    def _window(self, sid: str) -> OpenWindow | None:
        """The window that speaks, if this is still its connection."""
        window, socket = self._held.get(sid, (None, None))
        return window if window is not None and window.peer is socket else None


def _understood(data: Any, kind: type[MessageT]) -> MessageT | None:
    try:
        return convert(data, kind)
    except msgspec.ValidationError as error:
        log.warning("A window said something that cannot be understood (%s): %s", kind.__name__, error)
        return None


#: Frames are a little larger than what they carry.
LARGEST_FRAME = LARGEST + 4096
#: Seconds between two looks at which windows are not coming back, at most and at least.
SELDOM, OFTEN = 1.0, 0.05

#: Gets the address, the milliseconds until the hub was ready, and the file with the address and the key.
Announce = Callable[[str, float, str], None]


async def serve(settings: HubSettings, state: StateDir, announce: Announce) -> None:
    """Serve until a signal.

    Raises:
        SettingsError: a variable of windows' boxes cannot be used.
        StartupError: the port is taken, or the state cannot be written.
    """
    startup = Startup()
    limits = box_settings.load({}, settings.box_environment)
    raise_limit()
    listener = bind(settings.host, settings.port, "hub")
    address = _address(listener)
    threads = Threads("glovebox-hub", 2)
    key = settings.key or state.key()
    registry = Registry(
        key=key,
        heartbeat=settings.heartbeat,
        grace=settings.grace,
        reload=settings.reload,
        clock=time.monotonic,
        wall=time.time,
    )
    registry.recall(state.windows())
    windows = Windows(registry, state, threads, lambda window: _settings_of(window, key, settings))
    sockets = Sockets(windows)

    async def begin() -> None:
        await threads.run(forbid_inspection)

    try:
        await threads.run(state.announce, address, key)
        async with _looked_after(windows, settings):
            await serve_app(
                create_hub_app(windows, sockets.app, key),
                listener,
                bounded(limits),
                longest_message=LARGEST_FRAME,
                announce=lambda: announce(address, startup.ready(), str(state.address_file)),
                begin=begin,
                close=windows.close,
            )
    finally:
        await sockets.close()
        await threads.run(state.withdraw)
        threads.close()


@contextlib.asynccontextmanager
async def _looked_after(windows: Windows, settings: HubSettings) -> AsyncIterator[None]:
    shortest = min(settings.heartbeat, settings.grace, settings.reload)
    interval = max(OFTEN, min(SELDOM, shortest / 4))
    looking = asyncio.create_task(windows.look_after(interval))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


def _settings_of(window: Window, key: str, settings: HubSettings) -> Settings:
    flags = {"working_dir": window.folders[0].path} if window.folders else {}
    return box_settings.load(flags, {**settings.box_environment, "SESSION_API_KEY": key})


def _address(listener: socket.socket) -> str:
    """Where programs of this machine reach it."""
    host = ipaddress.ip_address(listener.getsockname()[0].partition("%")[0])
    if host.is_unspecified:
        return address_of(listener, "127.0.0.1" if host.version == 4 else "::1")
    return address_of(listener)


def main(settings: HubSettings, announce: Announce) -> None:
    """Serve until a signal.

    Raises:
        SettingsError: a variable of windows' boxes cannot be used.
        StartupError: another hub has the state, the port is taken, or the state cannot be written.
    """
    state = StateDir(settings.state_dir)
    try:
        port.run(serve(settings, state, announce))
    finally:
        state.close()
