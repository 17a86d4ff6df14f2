"""Commands with their ids: where their output is, what they do, and what they cost."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.terminal.output.log import PIECE, LogFiles
from glovebox.box.terminal.output.rendering import LiveText
from glovebox.box.terminal.shell.integration import EndReport
from glovebox.box.terminal.shell.run import ShellEnd
from glovebox.box.threads import Threads
from glovebox.errors import CommandEnded, NoSuchCommand
from glovebox.protocol import events
from glovebox.protocol.terminal import Bill, CommandInfo

#: How many commands that ended are remembered.
KEEP = 1_000
_TAIL = 4_096
#: Longer commands are told in part; whoever sent one has it.
_LONGEST_TEXT = 10_000
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")


class Command:
    """One command, while it runs and after.

    Its output is a sequence of bytes of its own, counted from 0, whatever else is in the session's log.
    """

    def __init__(
        self,
        *,
        command_id: str,
        session: str,
        text: str,
        files: LogFiles,
        log: EventLog,
        threads: Threads,
        by: Literal["agent", "person"] = "agent",
        started: float | None = None,
    ) -> None:
        self.id = command_id
        self.session = session
        self.size = 0
        #: The action that waits for it now.
        self.follower: str | None = None
        #: The last of what it printed.
        self.tail = b""
        #: Whether a program has the screen for itself.
        self.alternate_screen = False
        self.extents: list[tuple[int, int]] = []
        self.result: EndReport | ShellEnd | None = None
        self.deliver_signal: Callable[[str], None] | None = None
        self._info = CommandInfo(
            id=command_id,
            session=session,
            command=text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…",
            by=by,
            state="running",
            started=time.time() if started is None else started,
        )
        self._files = files
        self._log = log
        self._threads = threads
        self._live = LiveText()
        self._told = 0
        self._news: asyncio.Event | None = None

    @property
    def finished(self) -> bool:
        return self._info.ended is not None

    @property
    def text(self) -> str:
        return self._info.command

    @property
    def by(self) -> str:
        """Who entered it: an agent or a person."""
        return self._info.by

    def info(self) -> CommandInfo:
        """Everything that is known of it."""
        return msgspec.structs.replace(self._info, output_bytes=self.size)

    # Its output.

    def printed(self, data: bytes, offset: int) -> None:
        """It printed something, at this place of the session's log."""
        if self.extents and self.extents[-1][0] + self.extents[-1][1] == offset:
            start, length = self.extents[-1]
            self.extents[-1] = (start, length + len(data))
        else:
            self.extents.append((offset, len(data)))
        self.size += len(data)
        self.tail = data[-_TAIL:] if len(data) >= _TAIL else (self.tail + data)[-_TAIL:]
        if b"\x1b[?" in data and (switches := _ALTERNATE.findall(data)):
            self.alternate_screen = switches[-1] == b"h"
        self._tell(*self._live.feed(data))
        self._wake()

    async def read(self, offset: int, limit: int = PIECE) -> bytes:
        """Raw output from `offset` on; empty if there is no more so far.

        Raises:
            OutputGone: it is not kept any more.
        """
        return await self._threads.run(self._fetch, offset, limit)

    def pieces(self, offset: int = 0) -> Iterator[bytes]:
        """All raw output from `offset` on, as far as it is there. Blocks.

        Raises:
            OutputGone: it is not kept any more.
        """
        while data := self._fetch(offset, PIECE):
            yield data
            offset += len(data)

    async def changed(self, offset: int) -> None:
        """Wait until there is output beyond `offset`, or it has ended."""
        while self.size <= offset and not self.finished:
            if self._news is None:
                self._news = asyncio.Event()
            await self._news.wait()

    def replay(self, offset: int) -> None:
        """Tell the action that waits now what was printed since `offset`, as far as it is in memory."""
        known = self.size - len(self.tail)
        if self.size > offset:
            begin = max(offset, known)
            text, settled = LiveText().feed(self.tail[begin - known :])
            if text:
                self._emit(begin, begin + settled, text)

    def _fetch(self, offset: int, limit: int) -> bytes:
        before = 0
        for start, length in self.extents:
            if offset < before + length:
                within = max(0, offset - before)
                return self._files.fetch(start + within, min(limit, length - within))
            before += length
        return b""

    def _tell(self, text: str, settled: int) -> None:
        begin, self._told = self._told, settled
        if text:
            self._emit(begin, settled, text)

    def _emit(self, offset: int, end: int, text: str) -> None:
        self._log.append(
            events.ActionOutput,
            action_id=self.follower or self.id,
            command_id=self.id,
            offset=offset,
            end=end,
            text=text,
        )

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    # What becomes of it.

    def update(self, **fields: object) -> None:
        """It does something else now."""
        changed = msgspec.structs.replace(self._info, **fields)
        if changed != self._info and not self.finished:
            self._info = changed
            self._log.append(events.ActionState, action_id=self.follower or self.id, command=self.info())

    def end(
        self,
        result: EndReport | ShellEnd,
        bill: Bill,
        *,
        limit: str | None = None,
        oom: str | None = None,
        ended: float | None = None,
    ) -> None:
        self.result = result
        status = result.status if isinstance(result, ShellEnd) else result.exit_code
        self._tell(*self._live.flush())
        self._info = msgspec.structs.replace(
            self._info,
            state="ended",
            prompt="",
            echo_off=False,
            ended=time.time() if ended is None else ended,
            exit_code=-1 if status is None else status,
            bill=bill,
            limit=limit,
            oom=oom,
        )
        self._log.append(events.CommandFinished, action_id=self.follower or self.id, command=self.info())
        self._wake()

    def use(self, files: LogFiles) -> None:
        """Its output is in this log."""
        self._files = files

    def restore_output(self, extents: list[tuple[int, int]]) -> None:
        """Where its output is, as an earlier server knew."""
        self.extents = extents
        self.size = sum(length for _, length in extents)

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground.

        Raises:
            BadSession: there is no such signal.
            CommandEnded: there is nothing to signal.
        """
        if self.finished or self.deliver_signal is None:
            raise CommandEnded(f"The command {self.id} has ended.")
        await self._threads.run(self.deliver_signal, name)


class Commands:
    """All commands of a box, the oldest of those that ended forgotten."""

    def __init__(self, forgotten: Callable[[Command], None], keep: int = KEEP) -> None:
        """`forgotten` hears of each that is not remembered any more."""
        self._keep = keep
        self._forgotten = forgotten
        self._all: OrderedDict[str, Command] = OrderedDict()

    def add(self, command: Command) -> None:
        self._all[command.id] = command
        while len(self._all) > self._keep:
            oldest = next((one for one in self._all.values() if one.finished), None)
            if oldest is None:
                return
            del self._all[oldest.id]
            self._forgotten(oldest)

    def get(self, command_id: str) -> Command:
        """The command of that id.

        Raises:
            NoSuchCommand: there is none, or none any more.
        """
        try:
            return self._all[command_id]
        except KeyError:
            raise NoSuchCommand(
                f"There is no command {command_id!r}. The newest {self._keep:,} are remembered."
            ) from None

    def of_session(self, session: str) -> list[Command]:
        """The commands of a session, in order."""
        return [command for command in self._all.values() if command.session == session]

    def forget(self, session: str) -> None:
        """Forget the commands of a session."""
        for command in self.of_session(session):
            del self._all[command.id]
