"""The terminal of a box: one main shell, and short-lived ones for static commands."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping

from glovebox.box.executor import Call, Handler
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.channel import Receiver
from glovebox.box.terminal.pty import Pty
from glovebox.box.terminal.retention import COLUMNS, ROWS
from glovebox.box.terminal.session import Session
from glovebox.box.threads import Threads
from glovebox.errors import StartupError
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation

#: Variables that describe the terminal the server was started from.
_NOT_INHERITED = ("COLUMNS", "LINES", "PROMPT_COMMAND", "PS1", "PS2", "TMUX", "TMUX_PANE")


class Terminal:
    """Runs commands in persistent shells of one user.

    `environment` is all that commands see of the server's. It must not hold the API key.
    """

    def __init__(
        self,
        *,
        working_dir: str,
        username: str,
        environment: Mapping[str, str],
        no_change_timeout: float,
        rows: int = ROWS,
        columns: int = COLUMNS,
        term: str = "tmux-256color",
    ) -> None:
        self._working_dir = working_dir
        self._username = username
        self._environment = {
            **{name: value for name, value in environment.items() if name not in _NOT_INHERITED},
            "TERM": term,
        }
        self._no_change_timeout = no_change_timeout
        self._size = (rows, columns)
        self._threads = Threads("terminal", workers=4)
        self._account: Account | None = None
        self._main: Session | None = None
        self._static: set[Session] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def cwd(self) -> str:
        """The main shell's directory."""
        return self._main.cwd if self._main else self._working_dir

    async def open(self) -> None:
        """Take commands from now on; the first of them waits for the shell to start.

        Raises:
            StartupError: there is no such user, or no bash.
        """
        self._account = await self._threads.run(Account.named, self._username)
        if await self._threads.run(shutil.which, "bash", path=self._environment.get("PATH")) is None:
            raise StartupError("There is no bash on the PATH. Install it (apt-get install bash).")
        self._main = self._session(self._working_dir)

    async def start(self) -> None:
        """Start the main shell and wait for its prompt.

        Raises:
            StartupError: there is no such user, or no shell.
        """
        if self._main is None:
            await self.open()
        assert self._main is not None
        await self._main.start()

    async def close(self) -> None:
        """End all shells and everything they started."""
        sessions = [*self._static, *([self._main] if self._main else [])]
        await asyncio.gather(*(session.close() for session in sessions), *self._closing)
        self._threads.close()

    async def settled(self) -> None:
        """Wait until every command that the main shell accepted before now has been answered."""
        if self._main is not None:
            await self._main.settled()

    def handlers(self) -> list[Handler]:
        """What this capability carries out."""
        return [self.run]

    async def run(self, action: CmdRunAction, call: Call) -> CmdOutputObservation | ErrorObservation:
        """Run a command, poll the one that runs, or talk to it."""
        if self._main is None:
            return ErrorObservation(content="Bash session is not initialized")
        if not action.is_static:
            return await self._main.run(action, call)
        session = self._session(action.cwd or self._working_dir)
        self._static.add(session)
        try:
            return await session.run(action, call)
        finally:
            self._static.discard(session)
            # The answer does not wait for the shell to go away.
            closing = asyncio.get_running_loop().create_task(session.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _session(self, cwd: str) -> Session:
        assert self._account is not None
        return Session(
            connect=self._connect,
            account=self._account,
            cwd=cwd,
            no_change_timeout=self._no_change_timeout,
            threads=self._threads,
        )

    async def _connect(self, rcfile: str, cwd: str, receiver: Receiver) -> Pty:
        assert self._account is not None
        return await Pty.open(
            rcfile=rcfile,
            cwd=cwd,
            environment=self._environment,
            account=self._account,
            size=self._size,
            receiver=receiver,
            threads=self._threads,
        )
