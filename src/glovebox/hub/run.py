"""Serves a hub: takes its state, binds, listens, and leaves everything in order."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import time
from collections.abc import AsyncIterator, Callable

from glovebox import settings as box_settings
from glovebox.box.startup import Startup
from glovebox.box.threads import Threads
from glovebox.hub.app import create_hub_app
from glovebox.hub.registry import Registry
from glovebox.hub.sockets import LARGEST, Sockets
from glovebox.hub.state import StateDir
from glovebox.hub.windows import Windows
from glovebox.linux.limits import raise_limit
from glovebox.protocol.window import Window
from glovebox.secret_environment import forbid_inspection
from glovebox.server import port
from glovebox.server.connection import bounded
from glovebox.server.port import address_of, bind
from glovebox.server.uvicorn import serve_app
from glovebox.settings import Settings
from glovebox.settings.hub import HubSettings

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
    interval = max(OFTEN, min(SELDOM, settings.heartbeat / 4, settings.grace / 4))
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
