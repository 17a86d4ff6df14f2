"""A terminal of a VS Code window as the shell of a session."""

from __future__ import annotations

import asyncio
import threading

from glovebox.box.machine import ShellRefused, TerminalInfo
from glovebox.box.terminal.commands import RunningCommand, ShellEnd
from glovebox.box.terminal.output.log import PIECE, LogFiles
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.errors import BadSession, CommandEnded, OutputGone, StartupError, WindowError
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.terminal import Bill, Limits
from glovebox.protocol.window import Done, EndSession, Input, Run, RunApart, RunEnded

#: How long a terminal may take to open before its first command can print anything.
_OPENING = 15.0
_END_LIMIT = 10.0
_END_OF_INPUT = b"\x04"
#: Ctrl-C, Ctrl-D and Ctrl-\, with which a command that has not started is given up.
_GIVING_UP = (b"\x03", b"\x04", b"\x1c")
_NOT_STARTED = (
    "The command has not started: the user has not decided yet whether to allow it. Send C-c to withdraw it."
)
_WITHDRAWN = "The command was withdrawn before the user decided, and did not run."
_INTERRUPTED_STATUS = 130
#: The signals that keys send.
_KEYS = {"SIGINT": "\x03", "SIGQUIT": "\x1c", "SIGTSTP": "\x1a"}
_NUMBERS = {"2": "SIGINT", "3": "SIGQUIT", "20": "SIGTSTP"}
_UNKNOWN = "VS Code did not tell the exit code, and -1 stands for it."
#: How much raw output is kept for each session, and how much more before the oldest is dropped.
KEEP = 16 << 20
_SLACK = 1 << 20
NO_SIZE = "A terminal in VS Code has the size that its user gives it."
_GONE = "This part of the output is not kept any more; ask for a later offset."


class MemoryLog(LogFiles):
    """The newest output in memory, by absolute offset. Any thread may read."""

    def __init__(self, keep: int = KEEP) -> None:
        super().__init__("")
        self._keep = keep
        self._data = bytearray()
        self._begin = 0
        self._guard = threading.Lock()

    @property
    def begin(self) -> int:
        return self._begin

    def append(self, data: bytes) -> int:
        """Add output, and return its offset."""
        with self._guard:
            offset = self.end
            self._data += data
            self.end += len(data)
            if len(self._data) > self._keep + _SLACK:
                del self._data[: -self._keep]
                self._begin = self.end - self._keep
        return offset

    def fetch(self, offset: int, limit: int = PIECE) -> bytes:
        with self._guard:
            at = offset - self._begin
            if at < 0:
                raise OutputGone(_GONE)
            return bytes(self._data[at : at + limit])


class WindowShell:
    """Sends commands and keys to a terminal of the window.

    With `apart` each command is a process of its own, and there is no terminal.
    """

    #: The window does not say what its terminal is like.
    terminal = TerminalInfo()

    def __init__(self, name: str, hands: Hands, log: MemoryLog, *, apart: bool = False) -> None:
        self.log = log
        self.report: EndReport | None = None
        #: A command whose connection was lost may still run in the terminal.
        self.unattended = False
        self.closed = False
        self._name = name
        self._hands = hands
        self._apart = apart
        self._cwd = ""
        #: Whether a terminal is open, as far as is known.
        self._open = False
        self._command: RunningCommand | None = None
        self._running: asyncio.Task[None] | None = None
        #: The agent does not want the command any more, which waits for the user's approval.
        self._withdrawn = False

    async def ready(self, cwd: str) -> ShellEnd | None:
        """Remember where a terminal is opened, which the window does with the first command."""
        if self.closed:
            raise StartupError("Bash session was likely interrupted...")
        self._cwd = cwd
        return None

    async def run(self, command: RunningCommand, text: str, limits: Limits | None) -> None:
        command.begin()
        if not self._open and not self._apart:
            command.last_output += _OPENING
        self._command, self._withdrawn = command, False
        self._running = asyncio.get_running_loop().create_task(self._run(command, text))

    async def press(self, command: RunningCommand, key: bytes) -> None:
        command.begin()
        result: EndReport | ShellEnd = self.report or self._end_report(0)
        try:
            if self._open or self.unattended:
                await self.send(key, command.id)
                if key == _END_OF_INPUT:
                    self._open = False
                    result = ShellEnd(None)
                else:
                    result = self.report = self._end_report(_INTERRUPTED_STATUS)
        finally:
            command.end(result, Bill(wall_seconds=0.0))

    async def send(self, data: bytes, action_id: str) -> None:
        if self._command is not None and self._command.awaits_approval:
            await self._withdraw(data)
            return
        try:
            await self._hands.do(Input(session=self._name, text=data.decode()), Done)
        except OrderRefused as refused:
            if refused.code != "no_session":  # it ended just now, which its own end reports
                raise ShellRefused(refused.code, str(refused)) from refused

    async def _withdraw(self, data: bytes) -> None:
        """Give up a command that waits for approval, if that is what a key is for."""
        if data not in _GIVING_UP or self._running is None:
            raise ShellRefused("undecided", _NOT_STARTED)
        self._withdrawn = True
        self._running.cancel()
        await asyncio.wait([self._running])

    async def signal(self, name: str) -> None:
        """Send a signal by the key for it.

        Raises:
            BadSession: no key sends it.
            CommandEnded: nothing runs.
            WindowError: the window refuses, or cannot be reached.
        """
        text = name.strip().upper()
        known = _NUMBERS.get(text, text if text.startswith("SIG") else f"SIG{text}")
        if known not in _KEYS:
            raise BadSession(
                f"A command in a VS Code window is reached by keys, which send {', '.join(_KEYS)}, "
                f"not {name!r}."
            )
        if self._running is None or self._running.done() or self._apart:
            raise CommandEnded(f"Nothing runs in the session {self._name!r}.")
        try:
            await self.send(_KEYS[known].encode(), "")
        except ShellRefused as refused:
            raise WindowError(str(refused)) from refused

    def resize(self, rows: int, columns: int) -> None:
        raise BadSession(NO_SIZE)

    async def end(self) -> None:
        """Close the terminal and end what runs in it.

        Raises:
            WindowError: the window refuses, or cannot be reached.
        """
        self.closed = True
        try:
            await self._hands.do(EndSession(session=self._name), Done, limit=_END_LIMIT)
        except OrderRefused as refused:
            raise WindowError(str(refused)) from refused

    async def close(self) -> None:
        """Stop waiting. What runs in a terminal goes on there; what runs apart is ended."""
        self.closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._command is not None and not self._command.finished:  # it had not even begun
            self._command.end(ShellEnd(None), Bill(wall_seconds=0.0))

    async def _run(self, command: RunningCommand, text: str) -> None:
        """Have the window run a command to its end."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        result: EndReport | ShellEnd = ShellEnd(None)
        try:
            end = await self._order(command, text)
            self.unattended = False
            self._open = not end.shell_ended
            if end.shell_ended and not self._apart:
                result = ShellEnd(end.exit_code)
            else:
                self._cwd = end.cwd or self._cwd
                result = self.report = self._end_report(-1 if end.exit_code is None else end.exit_code)
            if end.exit_code is None and not end.shell_ended:
                command.note = _UNKNOWN
        except WindowError as error:
            self._open = False  # a window that was reloaded has no terminals
            self.unattended = True  # and one that was paused goes on with what it has begun
            command.error = error
        except OrderRefused as refused:
            self.unattended = refused.code == "busy"
            command.error = ShellRefused(refused.code, str(refused))
        except asyncio.CancelledError:
            if not self._withdrawn:
                raise
            command.error = ShellRefused("withdrawn", _WITHDRAWN)
        finally:
            command.end(result, Bill(wall_seconds=loop.time() - began, output_bytes=command.size))

    async def _order(self, command: RunningCommand, text: str) -> RunEnded:
        def printed(output: str) -> None:
            data = output.encode("utf-8", "replace")
            command.print(data, self.log.append(data))

        def waiting(question: str) -> None:
            state = "waiting_for_approval" if question else "running"
            command.update(state=state, prompt=question)
            command.last_output = asyncio.get_running_loop().time() + (0.0 if self._open else _OPENING)

        async def run_in(cwd: str) -> RunEnded:
            order: Run | RunApart = Run(session=self._name, command=text, cwd=cwd)
            if self._apart:
                order = RunApart(command=text, cwd=cwd)
            return await self._hands.do(order, RunEnded, limit=None, printed=printed, waiting=waiting)

        # Without a folder the window says what is missing.
        cwd = self._cwd if self._hands.window.folders else ""
        try:
            return await run_in(cwd)
        except OrderRefused as refused:
            if not cwd or refused.code not in ("not_found", "not_directory"):
                raise
            return await run_in("")  # the directory is gone, and a terminal has to be opened somewhere

    def _end_report(self, exit_code: int) -> EndReport:
        return EndReport(exit_code=exit_code, working_dir=self._cwd)
