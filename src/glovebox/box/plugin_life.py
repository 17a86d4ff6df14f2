"""One plugin, from its loading to its end."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import structs

from glovebox.box.executor import Handler, handler_table
from glovebox.box.plugin import Context, Plugin, PluginOwner, Services
from glovebox.errors import GloveboxError, PluginFailed, PluginNeeded, SettingsError
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.base import Action
from glovebox.protocol.events import PluginChanged
from glovebox.protocol.status import PluginInfo, PluginState

log = logging.getLogger(__name__)

#: How often a plugin that crashed is restarted.
MOST_RESTARTS = 1
#: Seconds that a plugin may take to stop, and to report its health.
STOP_LIMIT = 10.0
HEALTH_LIMIT = 5.0

MakePlugin = Callable[[Context], Plugin]


class PluginHost(PluginOwner, Protocol):
    """The plugins of a box with their lives."""

    def life(self, name: str) -> PluginLife: ...


class PluginLife:
    """One plugin, from its loading to its end."""

    def __init__(
        self, name: str, host: PluginHost, services: Services, make: MakePlugin | None = None
    ) -> None:
        self.name = name
        self.state: PluginState = "waiting"
        self.error: str | None = None
        self.restarts = 0
        self.start_ms: float | None = None
        self.plugin: Plugin | None = None
        self.handlers: dict[type[Action[Any]], Handler] = {}
        self.endpoints: list[Endpoint | Socket] = []
        self.context = Context(name, services, host)
        self._host = host
        self._kind: type[Plugin] | None = None
        self._maker = make
        self._services = services
        self._starting: asyncio.Task[None] | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        return self._kind.needs if self._kind else ()

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def first(self) -> bool:
        """Whether the box must not serve before it has started."""
        return self.plugin is not None and self.plugin.starts == "first"

    async def load(self, where: str) -> None:
        """Import its class. A plugin that cannot be loaded has failed; the box does without it."""
        problem = await _problem(self._import(where))
        if problem is not None:
            self.refuse(f"It could not be loaded: {_describe(problem)}", problem)

    async def make(self) -> None:
        """Create it with its handlers and endpoints.

        Raises:
            SettingsError: its own settings cannot be used.
        """
        if self.state == "failed":
            return
        problem = await _problem(self._make())
        if isinstance(problem, SettingsError):
            raise problem
        if problem is not None:
            self.refuse(f"It could not be made: {_describe(problem)}", problem)

    def refuse(self, reason: str, problem: BaseException | None = None) -> None:
        self.plugin, self.handlers, self.endpoints = None, {}, []
        self._failed(reason, problem)

    async def _import(self, where: str) -> None:
        self._kind = load(self.name, where)

    async def _make(self) -> None:
        make = self._maker or self._kind
        assert make is not None
        plugin = make(self.context)
        self.handlers = handler_table(plugin.handlers())
        self.endpoints = list(plugin.endpoints())
        self.plugin = plugin

    def begin(self) -> asyncio.Task[None]:
        """Start it, unless it was started."""
        return self._starting or self._go()

    async def ready(self) -> None:
        """Wait until it has started; start it if need be.

        Raises:
            PluginFailed: it cannot be used.
        """
        if self.state in ("waiting", "starting"):
            await asyncio.shield(self.begin())
        if self.state != "running":
            raise PluginFailed(f"Plugin {self.name} is not available. {self.error or 'It was stopped.'}")

    def crashed(self, reason: str) -> None:
        """Restart it once; after that it has failed."""
        if self.state != "running":
            return
        if self.restarts >= MOST_RESTARTS:
            self._failed(f"It crashed again: {reason}", None)
            self._starting = asyncio.create_task(self._end())
            return
        self.restarts += 1
        log.error("plugin %s crashed and is started again: %s", self.name, reason)
        self._go(f"It crashed and was started again: {reason}", again=True)

    async def restart(self) -> None:
        """Stop it and start it again, on request.

        Raises:
            PluginFailed: it could not be loaded, so there is nothing to start.
            PluginNeeded: the box cannot do without it.
        """
        if self.plugin is None:
            raise PluginFailed(f"Plugin {self.name} is not available. {self.error}")
        if self.first:
            raise PluginNeeded(f"The box cannot do without {self.name}. Restart the box instead.")
        if self._starting is not None:
            await asyncio.wait([self._starting])
        self.restarts = 0
        await asyncio.wait([self._go(again=True)])

    async def stop(self) -> None:
        was = self.state
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if was != "failed":
            self._become("stopped", self.error)
        if was in ("running", "starting"):
            await self._end()

    def _go(self, reason: str | None = None, *, again: bool = False) -> asyncio.Task[None]:
        self._become("starting", reason)
        self._starting = asyncio.create_task(self._start(again=again))
        return self._starting

    async def _start(self, *, again: bool) -> None:
        if again:
            await self._end()
        began = time.monotonic()
        problem = await _problem(self._start_all())
        self.start_ms = round((time.monotonic() - began) * 1000, 1)
        if problem is None:
            self._become("running", self.error)
            return
        if isinstance(problem, TimeoutError):
            limit = self._services.settings.init_plugin_timeout
            self._failed(f"It did not start within {limit} s (INIT_PLUGIN_TIMEOUT).", None)
        else:
            self._failed(f"It did not start: {_describe(problem)}", problem)
        await self._end()

    async def _start_all(self) -> None:
        assert self.plugin is not None
        for needed in self.needs:
            await self._host.life(needed).ready()
        with self._services.startup.step(f"plugin {self.name}"):
            async with asyncio.timeout(self._services.settings.init_plugin_timeout):
                await self.plugin.start()

    async def _end(self) -> None:
        if self.plugin is None:
            return
        problem = await _problem(self.plugin.stop(), STOP_LIMIT)
        problem = problem or await _problem(self.context.release(), STOP_LIMIT)
        if problem is not None:
            log.error(
                "plugin %s did not stop as it should: %s", self.name, _describe(problem), exc_info=problem
            )

    def info(self) -> PluginInfo:
        """Its state, without its health."""
        return PluginInfo(
            name=self.name,
            state=self.state,
            error=self.error,
            restarts=self.restarts,
            start_ms=self.start_ms,
            needs=list(self.needs),
        )

    async def examine(self) -> PluginInfo:
        """Its state with its health."""
        if self.state != "running" or self.plugin is None:
            return self.info()
        health = asyncio.ensure_future(self.plugin.health())
        await asyncio.wait([health], timeout=HEALTH_LIMIT)
        if not health.done():
            health.cancel()
            error = f"It did not say how it is within {HEALTH_LIMIT:.0f} s."
            return structs.replace(self.info(), error=error, healthy=False)
        if problem := health.exception():
            return structs.replace(self.info(), error=_describe(problem), healthy=False)
        return structs.replace(self.info(), health=health.result())

    def _become(self, state: PluginState, error: str | None) -> None:
        self.state, self.error = state, error
        self._services.events.append(PluginChanged, plugin=self.name, state=state, reason=error or "")

    def _failed(self, reason: str, problem: BaseException | None) -> None:
        expected = problem is None or isinstance(problem, GloveboxError | OSError | ImportError)
        log.error("plugin %s failed. %s", self.name, reason, exc_info=None if expected else problem)
        self._become("failed", reason)


async def _problem(work: Awaitable[None], limit: float | None = None) -> BaseException | None:
    """The exception of a plugin's work as a value: nothing that a plugin raises ends the box."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=limit)
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        return TimeoutError(f"it took longer than {limit} s")
    return PluginFailed("it was cancelled") if task.cancelled() else task.exception()


def _describe(problem: BaseException) -> str:
    """An exception for people: its text, with its class unless it is a known one."""
    text = str(problem)
    known = isinstance(problem, GloveboxError | OSError | ImportError)
    return text if text and known else f"{type(problem).__name__}: {text}" if text else type(problem).__name__


GROUP = "glovebox.plugins"
#: This project's own entry points. To search all installed packages would slow the start.
OWN = {
    "telemetry": "glovebox.box.telemetry.plugin:TelemetryPlugin",
    "system": "glovebox.box.system.plugin:SystemPlugin",
    "terminal": "glovebox.box.terminal.plugin:TerminalPlugin",
    "files": "glovebox.box.files.plugin:FilesPlugin",
    "processes": "glovebox.box.processes.plugin:ProcessesPlugin",
    "mcp": "glovebox.box.mcp.plugin:McpPlugin",
    "browser": "glovebox.box.browser.plugin:BrowserPlugin",
    "jupyter": "glovebox.box.notebook.plugin:JupyterPlugin",
    "agent_skills": "glovebox.box.notebook.skills.plugin:AgentSkillsPlugin",
    "vscode": "glovebox.box.vscode.plugin:VSCodePlugin",
}
#: What every box has.
ALWAYS = ("telemetry", "system", "terminal", "files", "processes", "mcp")
#: Started before the others are loaded, so that its shell starts meanwhile.
EARLIEST = "terminal"


def find(name: str) -> str:
    """The place of a plugin, as `module:class`.

    Raises:
        SettingsError: there is no such plugin.
    """
    if name in OWN:
        return OWN[name]
    from importlib.metadata import entry_points

    installed = {point.name: point.value for point in entry_points(group=GROUP)}
    if name in installed:
        return installed[name]
    known = [*(own for own in OWN if own not in ALWAYS), *sorted(set(installed) - set(OWN))]
    raise SettingsError(
        f"Plugin {name} not found. Known plugins: {', '.join(known)}. "
        "A plugin of another package must be installed beside Glovebox."
    )


def load(name: str, where: str) -> type[Plugin]:
    """The class at `module:class`. Importing it may raise anything.

    Raises:
        PluginFailed: it is not a plugin of that name.
    """
    module, _, path = where.partition(":")
    found = getattr(importlib.import_module(module), path, None)
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise PluginFailed(f"{where} is not a plugin: derive a class from glovebox.plugins.Plugin.")
    if getattr(found, "name", None) != name:
        raise PluginFailed(f"{where} has the name {getattr(found, 'name', None)!r}, not {name!r}.")
    return found
