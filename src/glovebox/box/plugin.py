"""What a plugin is: handlers and endpoints, with a start and an end; and the box as a plugin sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.executor import Handler, Observer
from glovebox.box.machine import MainShell, Outputs
from glovebox.box.services import Activity, Keeper, Launched, ServiceProcess, Starter
from glovebox.box.startup import Startup
from glovebox.box.supervised import describe_exit, keep_process, spawn
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
    """The plugins of a box."""

    def find(self, name: str) -> Plugin | None: ...

    def plugins(self) -> list[Plugin]: ...

    def report(self) -> list[PluginInfo]: ...

    def crashed(self, name: str, reason: str) -> None: ...


class Services(msgspec.Struct):
    """What a box offers to plugins; some of it comes from plugins."""

    settings: Settings
    events: EventLog
    #: For blocking work with the rights of the server.
    threads: Threads
    #: Set when the box closes; endless streams end then.
    closing: asyncio.Event
    startup: Startup
    activity: Activity = msgspec.field(default_factory=Activity)
    #: The ports that the box itself is served on, which are closed to its browser.
    ports: tuple[int, ...] = ()
    #: The holder of shells, if it was started before the box.
    launched: Launched | None = None
    #: The user that new files are given to, if that is not the server's own.
    user_id: int | None = None
    #: The sandbox user, if file actions run with its rights instead of the server's.
    identity: Identity | None = None
    #: For blocking work with its rights; without a sandbox user, the same as `threads`.
    user_threads: Threads | None = None
    shell: MainShell | None = None
    keeper: Keeper | None = None
    starter: Starter | None = None
    outputs: Outputs | None = None
    #: Where tools of MCP servers come from.
    routed: ToolSource | None = None
    #: The tools of the box, once it is open.
    toolbox: Toolbox | None = None


class Context:
    """A box, as one plugin sees it."""

    def __init__(self, name: str, services: Services, owner: PluginOwner) -> None:
        self.name = name
        #: Plugins may put what they offer to others here.
        self.services = services
        self.settings = services.settings
        self.events = services.events
        #: For blocking work with the rights of the server.
        self.threads = services.threads
        #: The report of the start: `with context.startup.step("name"):` adds a step.
        self.startup = services.startup
        #: Set when the box closes.
        self.closing = services.closing
        self._owner = owner
        self._kept: list[ServiceProcess] = []
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def user_threads(self) -> Threads:
        """For blocking work with files of the sandbox, with the rights of the sandbox user."""
        return self.services.user_threads or self.services.threads

    @property
    def shell(self) -> MainShell:
        """The main shell.

        Raises:
            PluginFailed: this box has none.
        """
        if self.services.shell is None:
            raise PluginFailed(f"Plugin {self.name} needs a shell, and this box has none.")
        return self.services.shell

    @property
    def keeper(self) -> Keeper:
        """Starts processes that live as long as the box.

        Raises:
            PluginFailed: this box has none.
        """
        if self.services.keeper is None:
            raise PluginFailed(f"Plugin {self.name} needs a shell, and this box has none.")
        return self.services.keeper

    @property
    def starter(self) -> Starter:
        """Starts programs for callers.

        Raises:
            PluginFailed: this box cannot.
        """
        if self.services.starter is None:
            raise PluginFailed(f"Plugin {self.name} needs a shell, and this box has none.")
        return self.services.starter

    @property
    def toolbox(self) -> Toolbox:
        """The tools of this box.

        Raises:
            PluginFailed: the box is not open yet.
        """
        if self.services.toolbox is None:
            raise PluginFailed(f"Plugin {self.name} needs the tools of the box before it is open.")
        return self.services.toolbox

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
        return self._owner.plugins()

    def report(self) -> list[PluginInfo]:
        """The states of all plugins of this box."""
        return self._owner.report()

    def crashed(self, reason: str) -> None:
        """Report a crash of the plugin: it is stopped and restarted once, and the reason is shown."""
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
        kept = await keep_process(self.keeper, name, arguments, cwd=cwd, environment=environment)
        self._kept.append(kept)
        spawn(self._watching, self._watch(kept))
        return kept

    async def release(self) -> None:
        """End the processes that were started with `run`."""
        for task in self._watching:
            task.cancel()
        kept, self._kept = self._kept, []
        await asyncio.gather(*(process.close() for process in kept))

    async def _watch(self, kept: ServiceProcess) -> None:
        await asyncio.wait([kept.exited])
        printed = (await kept.printed(500)).strip()
        self.crashed(f"its process {kept.pid} {describe_exit(kept)}{': ' + printed if printed else ''}")


class Plugin:
    """Derive from this, and name the class in the entry point group `glovebox.plugins`.

    It is created with the box, before anything starts. It may be started and stopped several times.
    """

    #: Its name for `--plugins`.
    name: ClassVar[str]
    #: Plugins that are loaded with it and started before it.
    needs: ClassVar[tuple[str, ...]] = ()
    #: Its own settings: a message whose fields all have defaults.
    options: ClassVar[type[Message]] = NoOptions
    #: When it starts: before the box serves, in the background afterwards, or when it is first needed.
    starts: Literal["first", "background", "on_use"] = "background"

    def __init__(self, context: Context) -> None:
        self.context = context

    def handlers(self) -> Iterable[Handler]:
        """Its actions. Each waits until the plugin has started."""
        return ()

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        """Its HTTP endpoints. Requests wait until the plugin has started."""
        return ()

    def gauges(self) -> Mapping[str, float]:
        """Numbers for `/metrics`, such as how many sessions there are, each as `glovebox_NAME`."""
        return {}

    def processes(self) -> Iterable[int]:
        """Processes of the box that need not descend from the server. Called in any thread."""
        return ()

    def hint(self) -> str | None:
        """A line of shell that is shown when the box is started at a terminal."""
        return None

    def observers(self) -> Iterable[Observer]:
        """Observers of all actions of the box."""
        return ()

    async def start(self) -> None:
        """Start. Any exception means that it failed; its text is shown to people."""

    async def health(self) -> dict[str, Any]:
        """Details of its state. Raise PluginFailed if it does not work as it should."""
        return {}

    async def stop(self) -> None:
        """End everything that `start` began."""
