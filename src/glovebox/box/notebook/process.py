"""One process of a kernel: started or found again, connected, and watched until it ends."""

from __future__ import annotations

import ast
import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from glovebox.box.events import EventLog
from glovebox.box.machine import MainShell
from glovebox.box.notebook import kernelspecs
from glovebox.box.notebook.kernelspecs import Spec
from glovebox.box.notebook.messages import Incoming, describe_status
from glovebox.box.notebook.wire import ConnectionInfo, Wire
from glovebox.box.services import Keeper, ServiceProcess
from glovebox.box.supervised import keep_process, until_ready
from glovebox.box.threads import Threads
from glovebox.errors import NotebookError
from glovebox.linux.oom import OomWatch

if TYPE_CHECKING:
    from glovebox.box.notebook.supervisor import KernelState

log = logging.getLogger(__name__)

#: Seconds that a kernel may take to answer after its start; machines can be very busy.
START_LIMIT = 60.0
#: Seconds that a kernel of an earlier server may take to be reached.
_REJOIN_LIMIT = 10.0
#: Seconds to wait for the last messages after an exit, and for the exit after the connection has closed.
_LAST_MESSAGES = 1.0
_EXIT_LIMIT = 5.0
_SIGKILLED = 128 + signal.SIGKILL
#: Seconds to wait for a first published message before the kernel is asked once more.
_DEAF = 0.1

Listener = Callable[[Incoming], Awaitable[None]]


async def first_of(*futures: asyncio.Future[Any], limit: float | None = None) -> None:
    """Wait until one of them is done, at most `limit` seconds."""
    await asyncio.wait(futures, timeout=limit, return_when=asyncio.FIRST_COMPLETED)


@dataclass(frozen=True, slots=True)
class KernelContext:
    """What all kernels of a box share."""

    keeper: Keeper
    shell: MainShell
    events: EventLog
    threads: Threads
    #: With the rights of the sandbox user.
    user_threads: Threads
    oom: OomWatch
    state: KernelState
    transport: Literal["ipc", "tcp"]
    #: The code that Python kernels run first; blocks.
    start_code: Callable[[], list[str]]


class KernelProcess:
    """A kernel that runs, until it ends."""

    def __init__(
        self,
        context: KernelContext,
        spec: Spec,
        kept: ServiceProcess,
        connection: ConnectionInfo,
        listener: Listener,
    ) -> None:
        self.spec = spec
        self.kept = kept
        self.connection = connection
        self.language = spec.language
        self.interpreter: str | None = None
        #: A cell asked it to exit.
        self.leaving = False
        #: Done when it has ended and all its messages were handled. The result is the reason.
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._context = context
        self._mark = context.oom.mark()
        self._wire = Wire(connection, listener, context.threads)
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(
        cls, context: KernelContext, spec: Spec, name: str, cwd: str, listener: Listener
    ) -> KernelProcess:
        """Start a kernel and wait until it can take a cell.

        Raises:
            NotebookError: it could not be started.
        """
        kept, connection = await _launch(context, spec, name, cwd, context.transport)
        process = cls(context, spec, kept, connection, listener)
        await until_ready(process._greet(), lambda: process.close("it could not be started"))
        return process

    async def rejoin(self) -> None:
        """Connect to a kernel that an earlier server started.

        Raises:
            NotebookError: it does not listen any more.
        """
        await self._connect(_REJOIN_LIMIT)

    @property
    def is_python(self) -> bool:
        return self.language == "python"

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as is known."""
        return not self.ended.done() and not self.kept.exited.done()

    def execute(self, code: str, message_id: str) -> asyncio.Future[dict[str, Any]]:
        """Run a cell; the future gets the reply.

        Raises:
            UnicodeEncodeError: the code is not valid Unicode.
        """
        reply = self._wire.ask("shell", "execute_request", _execution(code), message_id)
        self._mark = self._context.oom.mark()
        return reply

    def run_silently(
        self, code: str, expressions: dict[str, str] | None = None
    ) -> asyncio.Future[dict[str, Any]]:
        """Run code that is not a cell."""
        return self._wire.ask("shell", "execute_request", _execution(code, expressions, silent=True))

    def interrupt(self) -> None:
        if self.spec.interrupt == "message":
            self._wire.ask("control", "interrupt_request", {})
        else:
            self.kept.signal(signal.SIGINT)

    async def free(self) -> None:
        """Wait until it has carried out all requests, or has ended."""
        reply = self._wire.ask("shell", "kernel_info_request", {})
        await first_of(reply, self.ended)

    async def answers(self) -> bool:
        """Whether it answers while it may run a cell."""
        reply = self._wire.ask("control", "kernel_info_request", {})
        await first_of(reply, self.ended)
        return reply.done() and not reply.cancelled()

    async def disconnect(self) -> None:
        """Close the connection; the process may run on."""
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._wire.close()

    async def close(self, reason: str) -> None:
        """End it and everything it started."""
        self._end(reason)
        await self.disconnect()
        await self.kept.close()

    async def _watch(self) -> None:
        await first_of(self.kept.exited, self._wire.lost)
        if not self.kept.exited.done():
            await asyncio.wait([self.kept.exited], timeout=_EXIT_LIMIT)
        elif self._wire.connected:  # a child of the kernel may keep the connection open
            await asyncio.wait([self._wire.lost], timeout=_LAST_MESSAGES)
        if self.kept.exited.done():
            status = self.kept.exited.result()
            killed = (
                self._context.oom.describe_death(self._mark, self.kept.pid) if status == _SIGKILLED else None
            )
            self._end(describe_status(status, killed))
        else:
            self._end("it hung up, and was killed")
            await self.kept.close()

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    async def _greet(self) -> None:
        """Wait until it answers and its published messages arrive, and prepare it."""
        await self._connect(START_LIMIT)
        info = await self._reply(self._wire.ask("shell", "kernel_info_request", {}))
        while not self._wire.heard.done():  # the first messages may have come before the subscription
            await asyncio.wait([self._wire.heard], timeout=_DEAF)
            await self._reply(self._wire.ask("shell", "kernel_info_request", {}))
        language = info.get("language_info")
        if isinstance(language, dict) and isinstance(language.get("name"), str):
            self.language = language["name"].lower()
        if self.is_python:
            await self._prepare()

    async def _prepare(self) -> None:
        asked = {"interpreter": "sys.executable"}
        for code in await self._context.threads.run(self._context.start_code):
            reply = await self._reply(self.run_silently(code, asked))
            if reply.get("status") != "ok":
                problem = f"{reply.get('ename')}: {reply.get('evalue')}"
                log.warning("kernel %s could not be prepared as it should: %s", self.kept.name, problem)
            shown = reply.get("user_expressions", {}).get("interpreter", {}).get("data", {})
            self.interpreter = _literal(shown.get("text/plain")) or self.interpreter
        self.interpreter = self.interpreter or self.spec.arguments[0]

    async def _reply(self, reply: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        """A reply during the start.

        Raises:
            NotebookError: it ended instead, or took too long.
        """
        await first_of(reply, self.ended, limit=START_LIMIT)
        if reply.done() and not reply.cancelled():
            return reply.result()
        raise await self._problem(START_LIMIT)

    async def _connect(self, limit: float) -> None:
        connecting = asyncio.create_task(self._wire.connect())
        try:
            await first_of(connecting, self.ended, limit=limit)
            if connecting.done() and not connecting.exception():
                return
        finally:
            connecting.cancel()
        if connecting.done() and (problem := connecting.exception()):
            raise NotebookError(f"The kernel cannot be used: {problem}")
        raise await self._problem(limit)

    async def _problem(self, limit: float) -> NotebookError:
        printed = kernelspecs.why_not_started(await self.kept.printed(), self.spec)
        if self.ended.done():
            return NotebookError(f"The kernel ended at its start ({self.ended.result()}): {printed}")
        return NotebookError(f"The kernel did not answer within {limit:.0f} s. It printed: {printed}")


async def _launch(
    context: KernelContext, spec: Spec, name: str, cwd: str, transport: Literal["ipc", "tcp"]
) -> tuple[ServiceProcess, ConnectionInfo]:
    connection = await context.threads.run(kernelspecs.new_connection, transport, spec.name)
    files = {kernelspecs.CONNECTION_FILE: msgspec.json.encode(connection)}
    try:
        if spec.installed:  # it may have been removed, to begin afresh
            await context.user_threads.run(spec.installed.make)
        kept = await keep_process(
            context.keeper, name, spec.arguments, cwd=cwd, environment=spec.environment, files=files
        )
    except OSError as error:
        raise NotebookError(f"The kernel could not be started: {error}") from error
    place = msgspec.structs.replace(connection, ip=connection.ip.replace("{directory}", kept.directory))
    if transport == "ipc" and len(os.fsencode(place.path(place.hb_port))) > kernelspecs.LONGEST_PATH:
        await kept.close()
        return await _launch(context, spec, name, cwd, "tcp")
    return kept, place


def _execution(
    code: str, expressions: dict[str, str] | None = None, *, silent: bool = False
) -> dict[str, Any]:
    return {
        "code": code,
        "silent": silent,
        "store_history": False,
        "user_expressions": expressions or {},
        "allow_stdin": False,
        # Cells come one by one, and one that fails must not take the next one with it.
        "stop_on_error": False,
    }


def _literal(text: Any) -> str | None:
    """A string as Python shows it."""
    try:
        value = ast.literal_eval(text) if isinstance(text, str) else None
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None
