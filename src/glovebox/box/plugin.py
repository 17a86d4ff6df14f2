"""What a plugin is: handlers, endpoints and a life of its own, on top of what a box offers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.executor import Handler, Observer
from glovebox.box.services import Keeper, Launched, ServiceProcess
from glovebox.box.shell import Outputs, Shell
from glovebox.box.startup import Startup
from glovebox.box.threads import Threads
from glovebox.errors import PluginFailed
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.base import Message
from glovebox.protocol.status import PluginInfo
from glovebox.settings import Settings, plugin_options

if TYPE_CHECKING:
    from glovebox.box.credentials import Identity
    from glovebox.box.tools import Toolbox, ToolSource

OptionsT = TypeVar("OptionsT", bound=Message)


class NoOptions(Message):
    """For plugins without settings of their own."""


class PluginOwner(Protocol):
    """Who looks after a plugin."""

    def find(self, name: str) -> Plugin | None:
        """A plugin of this box."""

    def plugins(self) -> list[Plugin]:
        """All plugins of this box."""

    def report(self) -> list[PluginInfo]: ...

    def crashed(self, name: str, reason: str) -> None:
        """A plugin cannot go on as it is."""


class Services(msgspec.Struct):
    """What a box has to offer; some of it comes from plugins."""

    settings: Settings
    events: EventLog
    #: For blocking work with the rights of the server.
    threads: Threads
    #: Set when the box closes: whatever has no end of its own ends then.
    closing: asyncio.Event
    startup: Startup
    #: The ports that the box itself is served on, which nothing in it should call.
    ports: tuple[int, ...] = ()
    #: What is to hold shells, if it was started before the box was.
    launched: Launched | None = None
    #: The user that new files are given to, if that is not the server's own.
    user_id: int | None = None
    #: The sandbox user, if file actions run with its rights instead of the server's.
    identity: Identity | None = None
    #: For blocking work with its rights; without a sandbox user, the same as `threads`.
    user_threads: Threads | None = None
    shell: Shell | None = None
    keeper: Keeper | None = None
    outputs: Outputs | None = None
    #: Where tools of MCP servers come from.
    routed: ToolSource | None = None
    #: What models can call; there once the box is open.
    toolbox: Toolbox | None = None


class Context:
    """A box, as one plugin sees it."""

    def __init__(self, name: str, services: Services, owner: PluginOwner) -> None:
        self.name = name
        self._services = services
        self._owner = owner
        self._kept: list[ServiceProcess] = []
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def services(self) -> Services:
        """Where a plugin puts what it has to offer to others."""
        return self._services

    @property
    def settings(self) -> Settings:
        """What the box was told."""
        return self._services.settings

    @property
    def events(self) -> EventLog:
        """What happens in the box."""
        return self._services.events

    @property
    def threads(self) -> Threads:
        """Where blocking work goes; it has the rights of the server."""
        return self._services.threads

    @property
    def user_threads(self) -> Threads:
        """Where work with files goes that somebody in the sandbox may have made or linked.

        It has the rights of the sandbox user, if that is another than the server's.
        """
        return self._services.user_threads or self._services.threads

    @property
    def startup(self) -> Startup:
        """What the start of the box takes: `with context.startup.step("name"):` adds to it."""
        return self._services.startup

    @property
    def closing(self) -> asyncio.Event:
        """Set when the box closes."""
        return self._services.closing

    @property
    def shell(self) -> Shell:
        """The main shell.

        Raises:
            PluginFailed: this box has none.
        """
        if self._services.shell is None:
            raise PluginFailed(f"Plugin {self.name} needs a shell, and this box has none.")
        return self._services.shell

    @property
    def keeper(self) -> Keeper:
        """What starts processes that live as long as the box.

        Raises:
            PluginFailed: this box has none.
        """
        if self._services.keeper is None:
            raise PluginFailed(f"Plugin {self.name} needs a shell, and this box has none.")
        return self._services.keeper

    @property
    def toolbox(self) -> Toolbox:
        """What models can call in this box.

        Raises:
            PluginFailed: the box is not open yet.
        """
        if self._services.toolbox is None:
            raise PluginFailed(f"Plugin {self.name} needs the tools of the box before it is open.")
        return self._services.toolbox

    def options(self, kind: type[OptionsT]) -> OptionsT:
        """The plugin's own settings.

        Raises:
            SettingsError: one of them is unknown or cannot be used.
        """
        return plugin_options(self.settings, self.name, kind)

    def find(self, name: str) -> Plugin | None:
        """Another plugin of this box, if it was loaded."""
        return self._owner.find(name)

    def plugins(self) -> list[Plugin]:
        """All plugins of this box."""
        return self._owner.plugins()

    def report(self) -> list[PluginInfo]:
        """How all plugins of this box are."""
        return self._owner.report()

    def crashed(self, reason: str) -> None:
        """Say that the plugin cannot go on: it is stopped and started once more, and people are told."""
        self._owner.crashed(self.name, reason)

    async def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ServiceProcess:
        """Start a process of the plugin as the sandbox user. If it ends by itself, the plugin has crashed.

        Raises:
            OSError: it could not be started.
        """
        name = f"{self.name}-{len(self._kept) + 1}"
        if left := self.keeper.kept(name):  # by an earlier server, which cannot say what became of it
            await left.close()
        kept = await self.keeper.keep(name, arguments, cwd=cwd, environment=environment)
        self._kept.append(kept)
        task = asyncio.create_task(self._watch(kept))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return kept

    async def release(self) -> None:
        """End the processes that were started with `run`."""
        for task in self._watching:
            task.cancel()
        kept, self._kept = self._kept, []
        await asyncio.gather(*(process.close() for process in kept))

    async def _watch(self, kept: ServiceProcess) -> None:
        await asyncio.wait([kept.exited])
        status = kept.exited.result()
        said = (await kept.printed(500)).strip()
        how = "ended" if status is None else f"ended with exit status {status}"
        self.crashed(f"its process {kept.pid} {how}{': ' + said if said else ''}")


class Plugin:
    """Derive from this, and name the class in the entry point group `glovebox.plugins`.

    It is made when the box is, before anything is started; starting and stopping may come several times.
    """

    #: What it is chosen by, with `--plugins`.
    name: ClassVar[str]
    #: Plugins that are loaded along with it and started before it.
    needs: ClassVar[tuple[str, ...]] = ()
    #: Its own settings: a message whose fields all have defaults.
    options: ClassVar[type[Message]] = NoOptions
    #: When it starts: before the box serves, in the background once it does, or when it is first needed.
    starts: ClassVar[Literal["first", "background", "on_use"]] = "background"

    def __init__(self, context: Context) -> None:
        self.context = context

    def handlers(self) -> Iterable[Handler]:
        """The actions it carries out. Each waits until the plugin has started."""
        return ()

    def refusals(self) -> Iterable[Handler]:
        """Handlers that only say why an action cannot be carried out; models are not offered these."""
        return ()

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        """What it serves over HTTP. Requests wait until the plugin has started."""
        return ()

    def gauges(self) -> Mapping[str, float]:
        """Numbers to show on `/metrics`, each as `glovebox_NAME`: how many sessions there are, say."""
        return {}

    def processes(self) -> Iterable[int]:
        """Processes of the box that need not descend from the server; asked for in any thread."""
        return ()

    def hint(self) -> str | None:
        """A line of shell for whoever starts the box at a terminal, once it serves."""
        return None

    def observers(self) -> Iterable[Observer]:
        """Who is told of every action of the box."""
        return ()

    async def start(self) -> None:
        """Begin to work. Any exception means that it cannot; its text is shown to people."""

    async def health(self) -> dict[str, Any]:
        """What can be said of how it is. Raise PluginFailed if it does not work as it should."""
        return {}

    async def stop(self) -> None:
        """End everything that `start` began."""
