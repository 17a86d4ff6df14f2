"""A kernel with a name: it runs one cell at a time, in the process that it has then."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Literal

from glovebox.box.executor import Call
from glovebox.box.notebook import messages
from glovebox.box.notebook.cells import MOST_CELLS, Cell
from glovebox.box.notebook.kernelspecs import Spec
from glovebox.box.notebook.messages import Incoming, output_of
from glovebox.box.notebook.process import KernelContext, KernelProcess, first_of
from glovebox.box.notebook.supervisor import ENDED, RESTARTED, KernelLife
from glovebox.box.supervised import spawn
from glovebox.errors import NotebookError
from glovebox.protocol.notebook import KernelInfo

#: Pauses between the interrupts of a cell that does not stop, in seconds.
_BACK_OFF = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Seconds that an interrupted cell may take to stop before its action is answered all the same.
_GRACE = 1.0
#: An interrupt between a cell and its reply swallows the reply.
_REPLY_LIMIT = 2.0
#: Characters of an exception's text in the information on a cell; all of it is in the traceback.
_LONGEST_MESSAGE = 2000
#: Seconds that a kernel may take to exit when a cell asked it to.
_EXIT_LIMIT = 5.0


class NamedKernel:
    """A kernel and its cells."""

    def __init__(self, name: str, spec: Spec, context: KernelContext) -> None:
        self.name = name
        self.life = KernelLife(name, spec, context, self._receive)
        self._context = context
        self._turn = asyncio.Lock()
        self._running: Cell | None = None
        self._requests = 0
        #: The newest cells by the id of their request, for late output.
        self._cells: OrderedDict[str, Cell] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def info(self) -> KernelInfo:
        life, process = self.life, self.life.process
        return KernelInfo(
            name=self.name,
            spec=life.spec.name,
            language=process.language if process else life.spec.language,
            state=self._state(),
            pid=process.kept.pid if process and process.alive else None,
            interpreter=process.interpreter if process else None,
            created=life.created,
            cell=self._running.id if self._running else None,
            restarts=life.restarts,
            reason=life.reason,
        )

    def _state(self) -> Literal["starting", "idle", "busy", "dead"]:
        if self.life.starting:
            return "starting"
        if not self.life.ready:
            return "dead"
        return "busy" if self._turn.locked() else "idle"

    def wait_until_free(self) -> None:
        """Let cells wait until an adopted process has finished the cell of an earlier server."""
        assert self.life.process is not None
        spawn(self._tasks, self._wait_until_free(self.life.process))

    async def answers(self) -> bool:
        """Whether its process answers while it may run a cell."""
        return self.life.process is not None and await self.life.process.answers()

    def interrupt(self) -> None:
        if self._running is not None:
            self._running.interrupted = True
        if self.life.process is not None and self.life.process.alive:
            self.life.process.interrupt()
            self.life.report("interrupted")

    async def close(self) -> None:
        await self.life.close()
        if self._tasks:  # the running cell is answered, waiting ones are refused
            await asyncio.wait(self._tasks, timeout=_GRACE)
        await self._cancel_tasks()

    async def disconnect(self) -> None:
        """Leave its process to the next server."""
        await self.life.disconnect()
        await self._cancel_tasks()

    async def run(self, cell: Cell, code: str, timeout: float | None) -> str | None:
        """Run a cell; returns the text that replaces its output if it took too long.

        It may still run then: the next cell gets its turn when it has ended.

        Raises:
            NotebookError: there is no kernel to run it in.
        """
        if self._turn.locked() or not self.life.ready:
            cell.waits()
        work = spawn(self._tasks, self._take_turn(cell, code))
        try:
            await asyncio.wait([work], timeout=timeout)
        finally:
            if not work.done() and not cell.started:  # its caller does not wait any more
                work.cancel()
                cell.ends("interrupted", "it was given up before its turn")
        if work.cancelled():
            raise NotebookError("The kernel is no longer served.")
        if work.done():
            work.result()
            return None
        assert timeout is not None
        if cell.started:
            await self._stop(cell, work)
        else:
            cell.notes.append(messages.NOT_STARTED if self.life.starting else messages.STILL_BUSY)
        return messages.timed_out(timeout)

    async def _take_turn(self, cell: Cell, code: str) -> None:
        async with self._turn:
            try:
                process = await self.life.begin()
            except NotebookError as error:
                cell.ends("error", str(error))
                raise
            if note := self.life.take_note():
                cell.notes.append(note)
            self._running = cell
            try:
                await self._execute(cell, code, process)
            finally:
                self._running = None

    async def _execute(self, cell: Cell, code: str, process: KernelProcess) -> None:
        self._follow_shell(process, cell.cwd or self._context.shell.cwd)
        self._requests += 1
        message_id = f"{cell.id}.{self._requests}"
        reply = process.execute(code, message_id)
        self._cells[message_id] = cell
        if len(self._cells) > MOST_CELLS:
            self._cells.popitem(last=False)
        cell.starts()
        await first_of(cell.idle, process.ended)
        if not reply.done():
            await first_of(reply, process.ended, limit=_REPLY_LIMIT)
        if process.ended.done() and not cell.idle.done():
            self._died(cell, process.ended.result())
            return
        answer = reply.result() if reply.done() and not reply.cancelled() else {}
        if _asks_to_end(answer):
            await self._let_end(process)
            cell.notes.append(messages.ENDED_BY_CELL)
            self.life.take_note()
        _end(cell, answer)

    def _follow_shell(self, process: KernelProcess, cwd: str) -> None:
        """Change to the directory of the shell if that has changed; a kernel may go elsewhere by itself."""
        if process.is_python and cwd != self.life.synced:
            process.run_silently(f"import os; os.chdir({cwd!r})")
            self.life.synced = cwd
            self.life.save()

    def _died(self, cell: Cell, reason: str) -> None:
        self.life.take_note()
        wanted = reason in (RESTARTED, ENDED)
        cell.notes.append(messages.stopped_in_cell(reason) if wanted else messages.died_in_cell(reason))
        cell.ends("died", f"the kernel was {reason}" if wanted else reason)

    async def _let_end(self, process: KernelProcess) -> None:
        process.leaving = True
        await asyncio.wait([process.ended], timeout=_EXIT_LIMIT)
        if not process.ended.done():
            await process.close("it was told to end and did not")

    async def _stop(self, cell: Cell, work: asyncio.Task[None]) -> None:
        """Interrupt a cell that took too long, and wait a little for its end."""
        cell.interrupted = True
        self.life.report("interrupted", "time limit")
        spawn(self._tasks, self._keep_interrupting(work))
        await asyncio.wait([work], timeout=_GRACE)
        if not work.done():
            cell.notes.append(messages.STILL_RUNNING)

    async def _keep_interrupting(self, work: asyncio.Task[None]) -> None:
        for pause in _BACK_OFF:
            if work.done() or self.life.process is None:
                return
            self.life.process.interrupt()
            await asyncio.wait([work], timeout=pause)

    async def _wait_until_free(self, process: KernelProcess) -> None:
        async with self._turn:
            await process.free()

    async def _receive(self, message: Incoming) -> None:
        cell = self._cells.get(message.parent)
        if message.idle:
            if cell is not None and not cell.idle.done():
                cell.idle.set_result(None)
            return
        output = output_of(message, late=cell is None or cell.answered)
        if output is None:
            return
        if cell is not None:
            await cell.take(output)
            return
        cell_id, _, number = message.parent.rpartition(".")
        if cell_id and number.isdigit() and output.text:  # a cell of an earlier server, or one long past
            Call(cell_id, self._context.events).output(output.text)

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _end(cell: Cell, answer: dict[str, Any]) -> None:
    """End a cell as the reply says; there may be none."""
    status, name, value = (answer.get(key) for key in ("status", "ename", "evalue"))
    if status == "ok":
        cell.ends("ok")
    elif cell.interrupted and name in ("KeyboardInterrupt", None):
        cell.ends("interrupted", name)
    else:
        message = value[:_LONGEST_MESSAGE] if isinstance(value, str) else None
        cell.ends("error", name if isinstance(name, str) else None, message)


def _asks_to_end(answer: dict[str, Any]) -> bool:
    payload = answer.get("payload")
    entries = payload if isinstance(payload, list) else []
    return any(entry.get("source") == "ask_exit" and not entry.get("keepkernel") for entry in entries)
