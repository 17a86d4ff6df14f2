"""The life of a kernel: the processes it has one after the other, and what is said of their ends."""

from __future__ import annotations

import asyncio
import logging
import time

from glovebox.box.events import EventLog
from glovebox.box.notebook import exit_messages
from glovebox.box.notebook.kernelspecs import PROCESS_PREFIX, Spec
from glovebox.box.notebook.process import KernelProcess, Listener, Surroundings
from glovebox.box.notebook.state_file import KernelState, Saved
from glovebox.box.shell import Shell
from glovebox.errors import NotebookError
from glovebox.protocol.events import KernelChanged

log = logging.getLogger(__name__)

#: How long it may take to hear the last of a process that has ended.
_LAST_WORDS = 10.0
#: Reasons that somebody wanted; the running cell is told in other words.
RESTARTED = "restarted"
ENDED = "ended"


class KernelLife:
    """Sees to it that a kernel has a process when it needs one."""

    def __init__(
        self,
        name: str,
        spec: Spec,
        *,
        around: Surroundings,
        events: EventLog,
        memory: KernelState,
        shell: Shell,
        listener: Listener,
    ) -> None:
        self.name = name
        self.spec = spec
        self.created = time.time()
        self.restarts = 0
        #: Why the last process ended.
        self.reason: str | None = None
        self.process: KernelProcess | None = None
        #: The directory of the shell that the kernel was last put into.
        self.synced = ""
        self._around = around
        self._events = events
        self._memory = memory
        self._shell = shell
        self._listener = listener
        #: How many processes were tried; each has a name of its own.
        self._processes = 0
        self._had_one = False
        self._starting: asyncio.Task[KernelProcess] | None = None
        #: What the agent does not know yet.
        self._note: str | None = None
        self._closed = False

    @property
    def starting(self) -> bool:
        """Whether a process is on its way."""
        return self._starting is not None and not self._starting.done()

    @property
    def ready(self) -> bool:
        """Whether there is a process that runs."""
        return not self.starting and self.process is not None and self.process.alive

    def note(self) -> str | None:
        """What the agent is to be told of how earlier processes ended; once."""
        note, self._note = self._note, None
        return note

    def told(self) -> None:
        """The agent knows how the process ended."""
        self._note = None

    async def begin(self, cwd: str | None = None) -> KernelProcess:
        """A process that can take cells. It is started even if whoever waits for it goes away.

        Raises:
            NotebookError: it could not be started.
        """
        if self.ready and self.process is not None:
            return self.process
        if not self.starting:
            self._starting = asyncio.create_task(self._start(cwd))
            self._starting.add_done_callback(_seen)
        assert self._starting is not None
        await asyncio.wait([self._starting])
        if self._starting.cancelled():
            raise NotebookError(f"Kernel {self.name!r} was ended.")
        return self._starting.result()

    async def adopt(self, saved: Saved) -> bool:
        """Take over the process of an earlier server; False if it has ended, or cannot be used any more."""
        self.created, self.restarts = saved.created, saved.restarts
        self._processes, self.synced = saved.processes, saved.synced
        self._had_one = True
        kept = self._around.keeper.kept(saved.process)
        if kept is None or kept.exited.done():
            self._ended(
                f"{exit_messages.how_ended(kept.exited.result() if kept else None)}, while nobody served it"
            )
            return False
        process = KernelProcess(self._around, self.spec, kept, saved.connection, self._listener)
        process.language, process.interpreter = saved.language, saved.interpreter
        try:
            await process.rejoin()
        except NotebookError as error:
            await process.close(ENDED)
            self._ended(f"it could not be reached any more ({error})")
            return False
        self._has(process)
        return True

    async def restart(self) -> None:
        """Begin anew.

        Raises:
            NotebookError: it could not be started.
        """
        if not self.starting and self.process is not None:  # else it is about to be as new as it can be
            await self.process.close(RESTARTED)
        await self.begin()

    async def close(self) -> None:
        await self._stop()
        self._memory.forget(self.name)
        if self.process is not None:
            await self.process.close(ENDED)
        self.tell("ended")

    async def disconnect(self) -> None:
        """Leave its process to whoever serves next."""
        self.save()
        await self._stop()
        if self.process is not None:
            await self.process.disconnect()

    def save(self) -> None:
        """Have the next server know what is known."""
        process = self.process
        if process is not None and not self._closed:
            saved = Saved(
                name=self.name,
                spec=self.spec.name,
                language=process.language,
                process=process.kept.name,
                connection=process.connection,
                interpreter=process.interpreter,
                created=self.created,
                processes=self._processes,
                restarts=self.restarts,
                synced=self.synced,
            )
            self._memory.save(saved)

    def tell(self, what: str, reason: str = "") -> None:
        """Tell whoever follows the box."""
        self._events.append(KernelChanged, kernel=self.name, what=what, reason=reason)

    async def _start(self, cwd: str | None) -> KernelProcess:
        if self._closed:
            raise NotebookError(f"Kernel {self.name!r} was ended.")
        if self.process is not None:
            if self.process.kept.exited.done():  # it is about to be said how
                await asyncio.wait([self.process.ended], timeout=_LAST_WORDS)
            await self.process.close(ENDED)
            self.process = None
        self._processes += 1
        synced = self._shell.cwd
        # Names with a keeper have no _.
        name = f"{PROCESS_PREFIX}{self.name.replace('_', '.')}-{self._processes}"
        if left := self._around.keeper.kept(name):
            await left.close()
        process = await KernelProcess.start(self._around, self.spec, name, cwd or synced, self._listener)
        self.synced = synced
        self._has(process)
        if self._had_one:
            self.restarts += 1
        self.tell("restarted" if self._had_one else "started", self.reason or "")
        self._had_one = True
        self.save()
        return process

    def _has(self, process: KernelProcess) -> None:
        self.process = process
        # Before anyone else gets to know of it: whoever tells the agent says so afterwards.
        process.ended.add_done_callback(lambda ended: self._process_ended(process, ended.result()))

    def _process_ended(self, process: KernelProcess, reason: str) -> None:
        if reason == RESTARTED:
            self._ended("it was restarted")
        elif reason != ENDED:
            self._ended(reason)
            log.warning("kernel %s %s: %s", self.name, "ended" if process.leaving else "died", reason)
            self.tell("ended" if process.leaving else "died", reason)

    def _ended(self, reason: str) -> None:
        self.reason = reason
        self._note = exit_messages.ended_before_cell(reason)

    async def _stop(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)


def _seen(task: asyncio.Task[KernelProcess]) -> None:
    """A failure is told to those who wait; if nobody does, that is no fault."""
    if not task.cancelled():
        task.exception()
