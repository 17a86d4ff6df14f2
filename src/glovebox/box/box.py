"""A box: its capabilities put together, opened and closed as one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from types import TracebackType

from glovebox.box import absent
from glovebox.box.events import EventLog
from glovebox.box.executor import Executor
from glovebox.box.files.handlers import FileActions
from glovebox.box.files.path_handlers import PathActions
from glovebox.box.startup import Startup
from glovebox.box.system.stats import Stats
from glovebox.box.system.users import ensure_directory, ensure_user, give_directory
from glovebox.box.terminal.manager import Terminal
from glovebox.box.threads import Threads
from glovebox.errors import SettingsError, StartupError
from glovebox.protocol.openhands import Codec
from glovebox.settings import Settings, current_user

log = logging.getLogger(__name__)

#: Plugin names callers of the contract pass. What is not built in yet is accepted and reported.
KNOWN_PLUGINS = ("jupyter", "agent_skills", "vscode")
FILE_THREADS = 8


class Box:
    """Everything a box does, behind one executor. Use as an async context manager.

    Raises:
        SettingsError: a plugin is unknown.
    """

    def __init__(self, settings: Settings, startup: Startup) -> None:
        for name in settings.plugins:
            if name not in KNOWN_PLUGINS:
                raise SettingsError(f"Plugin {name} not found. Known plugins: {', '.join(KNOWN_PLUGINS)}.")
            log.warning("plugin %s is not part of this version; its actions answer with an error", name)
        self.settings = settings
        self.startup = startup
        self.codec = Codec()
        self.stats = Stats()
        self.threads = Threads("glovebox-files", FILE_THREADS)
        self._exit = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Box:
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.threads.close)
            with self.startup.step("workspace"):
                user_id = await self.threads.run(_prepare, self.settings)
            events = EventLog()
            terminal = self.terminal = self._terminal(events)
            stack.push_async_callback(terminal.close)
            await terminal.open()
            self._shell = asyncio.create_task(self._start_shell(terminal))
            stack.callback(self._shell.cancel)
            files = FileActions(
                shell=terminal,
                working_dir=self.settings.working_dir,
                user_id=user_id,
                threads=self.threads,
            )
            stack.push_async_callback(files.close)
            capabilities = (
                terminal,
                files,
                PathActions(shell=terminal, threads=self.threads),
            )
            handlers = [handler for capability in capabilities for handler in capability.handlers()]
            self.executor = Executor([*handlers, *absent.handlers()], events)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the shell and everything else that is open; a second call does nothing."""
        await self._exit.aclose()

    async def _start_shell(self, terminal: Terminal) -> None:
        """Start the shell while the box is made ready: a user's start-up files may take their time."""
        try:
            with self.startup.step("shell"):
                await terminal.start()
        except StartupError as error:
            log.error("the shell did not start; commands will try again: %s", error)

    def state_file(self, name: str) -> str | None:
        """Where something of that name is kept over a restart; None if nothing is."""
        return self.terminal.state_file(name)

    def _terminal(self, events: EventLog) -> Terminal:
        settings = self.settings
        return Terminal(
            working_dir=settings.working_dir,
            username=settings.account if settings.su_to_user else current_user(),
            environment=settings.command_environment,
            no_change_timeout=settings.no_change_timeout_seconds,
            events=events,
            state_dir=settings.state_dir or None,
            keep_sessions=settings.keep_sessions,
            orphan_seconds=settings.orphan_seconds,
            log_size=settings.terminal_log_size,
            kind=settings.terminal,
        )


def _prepare(settings: Settings) -> int | None:
    """Account and workspace as the contract has them; the id that new files are given to, or None.

    A user that was not asked for is the current one, whose account and files are left alone; so is one
    who starts a box under their own name.
    """
    name = settings.username
    own = name == settings.command_environment.get("USER") and name not in ("root", "openhands")
    if not name or own:
        ensure_directory(settings.working_dir)
        return None
    user_id = ensure_user(name, settings.user_id)
    ensure_directory(settings.working_dir)
    give_directory(settings.working_dir, user_id, settings.sandbox_group_id)
    if os.geteuid() == 0:
        return user_id
    if user_id != os.geteuid():
        log.warning("only root can run the shell as %s; it runs as the current user", name)
    return None
