"""A box: its plugins put together, opened and closed as one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from glovebox import state_files
from glovebox.box import fallbacks
from glovebox.box.events import EventLog
from glovebox.box.executor import Executor, Handler, Observer, answers_of
from glovebox.box.plugin import Services
from glovebox.box.plugin_life import MakePlugin
from glovebox.box.plugins import Plugins
from glovebox.box.services import Launched
from glovebox.box.startup import Startup
from glovebox.box.system.users import ensure_directory, ensure_user, give_directory
from glovebox.box.threads import Threads
from glovebox.box.tools import Toolbox
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.base import Action
from glovebox.protocol.openhands import Codec
from glovebox.settings import Settings

log = logging.getLogger(__name__)

THREADS = 8


class Box:
    """Everything a box does, behind one executor. Use as an async context manager.

    Raises:
        SettingsError: a plugin is unknown.
    """

    def __init__(
        self,
        settings: Settings,
        startup: Startup,
        *,
        ports: tuple[int, ...] = (),
        launched: Launched | None = None,
        only: Mapping[str, MakePlugin] | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        """`ports`: what the box is served on. `launched`: the holder of its shells, if it was started.

        `only`: the plugins of a box that is something else than this machine.
        """
        self.settings = settings
        self.startup = startup
        self.threads = Threads("glovebox", THREADS)
        #: Set when the box begins to close.
        self.closing = asyncio.Event()
        self.services = Services(
            settings=settings,
            events=EventLog(),
            threads=self.threads,
            closing=self.closing,
            startup=startup,
            ports=ports,
            launched=launched,
        )
        self._is_sandbox = only is None
        self._observers = tuple(observers)
        self.plugins = Plugins(_plugin_names(settings) if only is None else (), self.services, only=only)
        self._exit = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Box:
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.threads.close)
            if self._is_sandbox:
                with self.startup.step("workspace"):
                    await self._prepare(stack)
            stack.push_async_callback(self.plugins.close)
            with self.startup.step("plugins"):
                await self.plugins.open()
            handlers = self.plugins.handlers()
            self.executor = Executor(
                {**fallbacks.HANDLERS, **handlers},
                self.services.events,
                (*self._observers, *self.plugins.observers()),
            )
            self.codec = _codec(handlers)
            self.toolbox = self.services.toolbox = Toolbox(self.executor, handlers, self.services)
            stack.callback(self.closing.set)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _prepare(self, stack: contextlib.AsyncExitStack) -> None:
        """Prepare the account, the workspace, and threads with the rights of the sandbox user."""
        user_id = self.services.user_id = await self.threads.run(_prepare, self.settings)
        if user_id and self.settings.su_to_user:
            from glovebox.box.credentials import assume_user, identity_of

            threads = Threads("glovebox-files", THREADS, initializer=functools.partial(assume_user, user_id))
            stack.callback(threads.close)
            self.services.user_threads = threads
            self.services.identity = await self.threads.run(identity_of, user_id)

    def begin(self) -> None:
        """The box serves: start the plugins that start in the background."""
        self.plugins.begin()

    async def close(self) -> None:
        """End everything that is open. A second call does nothing."""
        await self._exit.aclose()

    def endpoints(self) -> list[Endpoint | Socket]:
        """The endpoints of the plugins, and fallbacks for those of the contract that are missing."""
        served = self.plugins.endpoints()
        paths = {endpoint.path for endpoint in served}
        return [*served, *(endpoint for endpoint in fallbacks.endpoints() if endpoint.path not in paths)]

    def state_file(self, name: str) -> str | None:
        """The path of a file that survives a restart; None if nothing does."""
        keeper = self.services.keeper
        return keeper.state_file(name) if keeper else None

    def damaged_files(self) -> list[str]:
        """The names of damaged files that were set aside in the state directory. Blocks."""
        path = self.state_file(state_files.DAMAGED)
        return state_files.damaged_files(os.path.dirname(path)) if path else []


def _plugin_names(settings: Settings) -> tuple[str, ...]:
    """The plugins of the settings: the browser has a setting of its own, as in the contract."""
    return (*settings.plugins, "browser") if settings.enable_browser else tuple(settings.plugins)


def _codec(handlers: Mapping[type[Action[Any]], Handler]) -> Codec:
    """A codec for the messages of the contract and of plugins."""
    known = Codec()
    actions = [action for action in handlers if known.actions.get(action.action) is not action]
    answers = [answer for action in actions for answer in answers_of(handlers[action])]
    if not actions:
        return known
    return Codec(
        dict.fromkeys([*known.actions.values(), *actions]),
        dict.fromkeys([*known.observations.values(), *answers]),
    )


def _prepare(settings: Settings) -> int | None:
    """Create account and workspace as in the contract; returns the owner of new files, or None.

    Without a user name, or with the name of the user who starts the box, accounts and files are left alone.
    """
    name = settings.username
    own = name == settings.command_environment.get("USER") and name not in ("root", "openhands")
    if not name or (own and not settings.sudo):
        ensure_directory(settings.working_dir)
        return None
    user_id = ensure_user(name, settings.user_id, sudo=settings.sudo)
    ensure_directory(settings.working_dir)
    give_directory(settings.working_dir, user_id, settings.sandbox_group_id)
    if os.geteuid() == 0:
        return user_id
    if user_id != os.geteuid():
        log.warning("only root can run the shell as %s; it runs as the current user", name)
    return None
