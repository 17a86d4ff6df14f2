"""The processes of a kernel: started, restarted, adopted, and saved for the next server."""

from __future__ import annotations

import asyncio
import logging
import os
import time

import msgspec

from glovebox.box.notebook.kernelspecs import PROCESS_PREFIX, Spec
from glovebox.box.notebook.messages import describe_status, ended_before_cell
from glovebox.box.notebook.process import KernelContext, KernelProcess, Listener
from glovebox.box.notebook.wire import ConnectionInfo
from glovebox.box.supervised import Supervised
from glovebox.box.threads import Threads
from glovebox.errors import NotebookError, PluginFailed
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.protocol.events import KernelChanged
from glovebox.state_files import read_document, write_document

log = logging.getLogger(__name__)

#: Seconds to wait for the reason why a process has exited.
_REASON_LIMIT = 10.0
#: Why a process ended that a caller restarted or ended; the running cell gets another note then.
RESTARTED = "restarted"
ENDED = "ended"


class Saved(Message):
    """A kernel as the next server needs to know it."""

    name: str
    spec: str
    language: str
    #: The name of the process with its keeper.
    process: str
    connection: ConnectionInfo
    interpreter: str | None = None
    created: float
    #: How many processes it has had.
    processes: int
    restarts: int
    #: The directory of the shell that the kernel last changed to.
    synced: str


_decode = json_decoder(dict[str, Saved]).decode


class KernelState:
    """What was saved last, also in a file if processes outlive the server."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._path: str | None = None
        self._saved: dict[str, Saved] = {}
        self._changed = False
        self._writing: asyncio.Task[None] | None = None

    async def open(self, path: str | None) -> list[Saved]:
        """What this server or the one before has saved."""
        if path is not None and path != self._path:
            self._path = path
            found = await self._threads.run(read_document, path, os.path.dirname(path), _decode)
            self._saved = found or {}
        return list(self._saved.values())

    def save(self, saved: Saved) -> None:
        self._saved[saved.name] = saved
        self._write_soon()

    def forget(self, name: str) -> None:
        if self._saved.pop(name, None):
            self._write_soon()

    async def settle(self) -> None:
        """Wait until everything is in the file."""
        if self._writing is not None:
            await self._writing

    def _write_soon(self) -> None:
        self._changed = True
        if self._path is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(self._path))

    async def _write(self, path: str) -> None:
        while self._changed:
            self._changed = False
            data = msgspec.json.encode(self._saved)
            try:
                await self._threads.run(write_document, path, data)
            except OSError as error:
                log.warning("kernels will not be found after a restart of the server: %s", error)


class KernelLife:
    """Starts a process for a kernel when it needs one."""

    def __init__(self, name: str, spec: Spec, context: KernelContext, listener: Listener) -> None:
        self.name = name
        self.spec = spec
        self.created = time.time()
        self.restarts = 0
        #: Why the last process ended.
        self.reason: str | None = None
        #: The directory of the shell that the kernel last changed to.
        self.synced = ""
        self._context = context
        self._listener = listener
        self._supervised = Supervised(self._start, lambda process: process.alive)
        #: Where the next process starts, if not where the shell is.
        self._cwd: str | None = None
        #: How many processes were tried; each has a name of its own.
        self._processes = 0
        self._had_one = False
        #: What the agent does not know yet of how the last process ended.
        self._note: str | None = None
        self._closed = False

    @property
    def process(self) -> KernelProcess | None:
        return self._supervised.current

    @property
    def starting(self) -> bool:
        return self._supervised.starting

    @property
    def ready(self) -> bool:
        return self._supervised.alive is not None

    def take_note(self) -> str | None:
        """A note for the agent about how earlier processes ended; returned once."""
        note, self._note = self._note, None
        return note

    async def begin(self, cwd: str | None = None) -> KernelProcess:
        """A process that can take cells. Its start continues when the caller is cancelled.

        Raises:
            NotebookError: it could not be started.
        """
        if not self.starting:
            self._cwd = cwd
        try:
            return await self._supervised.get()
        except PluginFailed as error:
            raise NotebookError(f"Kernel {self.name!r} was ended.") from error

    async def adopt(self, saved: Saved) -> bool:
        """Take over the process of an earlier server; False if it has ended, or cannot be used any more."""
        self.created, self.restarts = saved.created, saved.restarts
        self._processes, self.synced = saved.processes, saved.synced
        self._had_one = True
        kept = self._context.keeper.kept(saved.process)
        if kept is None or kept.exited.done():
            status = kept.exited.result() if kept else None
            self._note_end(f"{describe_status(status)}, while nobody served it")
            return False
        process = KernelProcess(self._context, self.spec, kept, saved.connection, self._listener)
        process.language, process.interpreter = saved.language, saved.interpreter
        try:
            await process.rejoin()
        except NotebookError as error:
            await process.close(ENDED)
            self._note_end(f"it could not be reached any more ({error})")
            return False
        self._watch(process)
        self._supervised.current = process
        return True

    async def restart(self) -> None:
        """Start a new process.

        Raises:
            NotebookError: it could not be started.
        """
        if not self.starting and self.process is not None:
            await self.process.close(RESTARTED)
        await self.begin()

    async def close(self) -> None:
        self._closed = True
        await self._supervised.stop()
        self._context.state.forget(self.name)
        if self.process is not None:
            await self.process.close(ENDED)
        self.report("ended")

    async def disconnect(self) -> None:
        """Leave the process to the next server."""
        self.save()
        self._closed = True
        await self._supervised.stop()
        if self.process is not None:
            await self.process.disconnect()

    def save(self) -> None:
        """Save what the next server needs to know."""
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
            self._context.state.save(saved)

    def report(self, what: str, reason: str = "") -> None:
        """Add an event of this kernel to the log."""
        self._context.events.append(KernelChanged, kernel=self.name, what=what, reason=reason)

    async def _start(self) -> KernelProcess:
        if self._closed:
            raise NotebookError(f"Kernel {self.name!r} was ended.")
        if (previous := self.process) is not None:
            if previous.kept.exited.done():  # the reason is about to be known
                await asyncio.wait([previous.ended], timeout=_REASON_LIMIT)
            await previous.close(ENDED)
            self._supervised.current = None
        self._processes += 1
        synced = self._context.shell.cwd
        # Names with a keeper have no _.
        name = f"{PROCESS_PREFIX}{self.name.replace('_', '.')}-{self._processes}"
        process = await KernelProcess.start(
            self._context, self.spec, name, self._cwd or synced, self._listener
        )
        self.synced, self._cwd = synced, None
        self._watch(process)
        self._supervised.current = process
        if self._had_one:
            self.restarts += 1
        self.report("restarted" if self._had_one else "started", self.reason or "")
        self._had_one = True
        self.save()
        return process

    def _watch(self, process: KernelProcess) -> None:
        # Added before all others: the note about the end exists when they run.
        process.ended.add_done_callback(lambda ended: self._process_ended(process, ended.result()))

    def _process_ended(self, process: KernelProcess, reason: str) -> None:
        if reason == RESTARTED:
            self._note_end("it was restarted")
        elif reason != ENDED:
            self._note_end(reason)
            log.warning("kernel %s %s: %s", self.name, "ended" if process.leaving else "died", reason)
            self.report("ended" if process.leaving else "died", reason)

    def _note_end(self, reason: str) -> None:
        self.reason = reason
        self._note = ended_before_cell(reason)
