"""The plugins of a box: loaded, started, restarted after a crash, and stopped in reverse order."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from glovebox.box import plugin_life
from glovebox.box.executor import Call, Handler, Observer
from glovebox.box.plugin import Plugin, Services
from glovebox.box.plugin_life import MakePlugin, PluginLife
from glovebox.errors import NoSuchPlugin, SettingsError, StartupError
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.status import PluginInfo


class Plugins:
    """All plugins of a box."""

    def __init__(
        self, names: Iterable[str], services: Services, *, only: Mapping[str, MakePlugin] | None = None
    ) -> None:
        """Find them; the plugins that one needs are loaded before it.

        `only`: the plugins of a box that is not a sandbox, but something else that acts as one.

        Raises:
            SettingsError: there is no such plugin.
        """
        self._services = services
        self._made = only or {}
        always = () if self._made else plugin_life.ALWAYS
        self._places = {name: plugin_life.find(name) for name in dict.fromkeys([*always, *names])}
        self._lives: dict[str, PluginLife] = {}
        self._background: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Load all, and start those that start first.

        Raises:
            SettingsError: the settings of one cannot be used.
            StartupError: one of these did not start.
        """
        for name, make in self._made.items():
            self._lives[name] = PluginLife(name, self, self._services, make)
            await self._lives[name].make()
        for name in list(self._places):
            await self._load(name, ())
            if name == plugin_life.EARLIEST:
                await self._begin_first(self._lives[name])
        self._refuse_duplicates()
        for life in self._lives.values():
            await self._begin_first(life)

    async def _begin_first(self, life: PluginLife) -> None:
        """Start a plugin that starts first, unless it runs."""
        if not life.first or life.is_running:
            return
        await life.begin()
        if not life.is_running:
            raise StartupError(f"{life.name}: {life.error}")

    async def _load(self, name: str, needed_by: tuple[str, ...]) -> None:
        """Load a plugin, after those that it needs."""
        if name in self._lives or name in needed_by:
            return
        life = PluginLife(name, self, self._services)
        await life.load(self._places.get(name) or plugin_life.find(name))
        for needed in life.needs:
            try:
                await self._load(needed, (*needed_by, name))
            except SettingsError as error:
                life.refuse(f"It needs {needed}. {error}")
            else:
                if needed not in self._lives:
                    life.refuse(f"It needs {needed}, which needs it.")
        self._lives[name] = life
        await life.make()

    def _refuse_duplicates(self) -> None:
        """A plugin with an action or endpoint of another one has failed; the other works."""
        actions: dict[Any, str] = {}
        places: dict[tuple[str, str], str] = {}
        for life in self._lives.values():
            own_actions = set(life.handlers)
            own_places = {_place(endpoint) for endpoint in life.endpoints}
            taken = [f"the action {one.action} of {actions[one]}" for one in own_actions & actions.keys()]
            taken += [f"{' '.join(one)} of {places[one]}" for one in own_places & places.keys()]
            if taken:
                life.refuse(f"It brings {', '.join(taken)} once more.")
                continue
            actions |= dict.fromkeys(own_actions, life.name)
            places |= dict.fromkeys(own_places, life.name)

    def begin(self) -> None:
        """Start the plugins that start in the background. The box serves by now."""
        for life in self._lives.values():
            if life.plugin is not None and life.plugin.starts == "background" and life.state == "waiting":
                self._background.append(life.begin())

    async def close(self) -> None:
        """Stop all, in reverse order."""
        for life in reversed(self._lives.values()):
            await life.stop()

    def handlers(self) -> dict[type[Action[Any]], Handler]:
        return {
            action: handler if life.first else _handle_after(life, handler)
            for life in self._lives.values()
            for action, handler in life.handlers.items()
        }

    def endpoints(self) -> list[Endpoint | Socket]:
        return [
            endpoint if life.first else _serve_after(life, endpoint)
            for life in self._lives.values()
            for endpoint in life.endpoints
        ]

    def observers(self) -> list[Observer]:
        return [observer for plugin in self.plugins() for observer in plugin.observers()]

    def hints(self) -> list[str]:
        """Lines that are shown when the box is started at a terminal."""
        return [hint for plugin in self.plugins() if (hint := plugin.hint())]

    def life(self, name: str) -> PluginLife:
        """The life of a plugin.

        Raises:
            NoSuchPlugin: it is not loaded.
        """
        try:
            return self._lives[name]
        except KeyError:
            raise NoSuchPlugin(f"There is no plugin {name!r} in this box.") from None

    async def examine(self) -> list[PluginInfo]:
        """Their states with their health."""
        return await asyncio.gather(*(life.examine() for life in self._lives.values()))

    def find(self, name: str) -> Plugin | None:
        life = self._lives.get(name)
        return life.plugin if life else None

    def plugins(self) -> list[Plugin]:
        """All plugins that could be loaded."""
        return [life.plugin for life in self._lives.values() if life.plugin is not None]

    def report(self) -> list[PluginInfo]:
        """Their states, without their health."""
        return [life.info() for life in self._lives.values()]

    def crashed(self, name: str, reason: str) -> None:
        self.life(name).crashed(reason)


def _place(endpoint: Endpoint | Socket) -> tuple[str, str]:
    return ("WS" if isinstance(endpoint, Socket) else endpoint.method, endpoint.path)


def _handle_after(life: PluginLife, handler: Handler) -> Handler:
    """The handler of a plugin that may not have started yet."""

    @functools.wraps(handler)
    async def waiting(action: Any, call: Call) -> Observation:
        if life.state != "running":
            await life.ready()
        return await handler(action, call)

    return waiting


def _serve_after(life: PluginLife, endpoint: Endpoint | Socket) -> Endpoint | Socket:
    if isinstance(endpoint, Socket):
        connect = endpoint.handle

        async def connect_after(socket: WebSocket) -> None:
            await life.ready()
            await connect(socket)

        return structs.replace(endpoint, handle=connect_after)
    handle = endpoint.handle

    async def handle_after(request: Request) -> Response:
        await life.ready()
        return await handle(request)

    return structs.replace(endpoint, handle=handle_after)
