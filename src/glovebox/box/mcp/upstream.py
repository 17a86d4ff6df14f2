"""One MCP server: started, called, and restarted when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from glovebox.box.mcp.config import McpOptions, Server, StdioServer, redact, target
from glovebox.box.mcp.transports import (
    first_error,
    greet,
    is_closed,
    is_forgotten,
    list_tools,
    load_sdk,
    open_transport,
    process_name,
)
from glovebox.box.services import Keeper, ServiceProcess
from glovebox.box.supervised import back_off, keep_process, race
from glovebox.box.threads import Threads
from glovebox.errors import McpError
from glovebox.protocol.status import McpServerInfo, McpState

if TYPE_CHECKING:
    import mcp_types
    from mcp.client.session import ClientSession
    from mcp.shared.dispatcher import ProgressFnT

log = logging.getLogger(__name__)

#: The first pause before a failed server is restarted, in seconds; each further one is twice as long.
_FIRST_PAUSE = 0.5
#: A server that was ready for this many seconds has recovered.
_RECOVERED = 30.0
#: Seconds that an idle server may take to answer a ping.
_PING_LIMIT = 10.0
#: Seconds to wait for the exit status of a server that closed its output.
_EXIT_LIMIT = 1.0
#: Bytes of the output of an ended server that are kept, and characters that are part of the reason.
_KEPT = 64 << 10
_SHOWN = 500
_ENDED = "It has ended."
_ANEW = "It was started anew."


class Unavailable(McpError):
    """A server cannot be called now; the text says why."""


class Upstream:
    """A server that is kept ready until it is closed, whatever it does."""

    def __init__(
        self,
        server: Server,
        source: Literal["posted", "file"],
        *,
        keeper: Keeper,
        threads: Threads,
        options: McpOptions,
        changed: Callable[[], None],
        after: Collection[asyncio.Task[None]] = (),
    ) -> None:
        """`changed` is called when its tools change; it starts when all `after` are done."""
        self.server = server
        self.source = source
        self.tools: list[mcp_types.Tool] = []
        #: Set when its tools are known: it was ready once, or has failed.
        self.known = asyncio.Event()
        #: Set while calls need not wait: it is ready, or has failed.
        self.settled = asyncio.Event()
        self._keeper = keeper
        self._threads = threads
        self._options = options
        self._changed = changed
        self._session: ClientSession | None = None
        self._kept: ServiceProcess | None = None
        self._printed = self._last_words = ""
        self._state: McpState = "starting"
        self._since = time.time()
        self._error: str | None = None
        self._retry: float | None = None
        self._ping: float | None = None
        self._running = self._calls = self._failures = self._restarts = 0
        self._limit: asyncio.Timeout | None = None
        self._lost = asyncio.Event()
        self._stale = asyncio.Event()
        self._doubted = asyncio.Event()
        self._again = asyncio.Event()
        self._task = asyncio.create_task(self._live(after))

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def ready(self) -> bool:
        return self._state == "ready"

    async def session(self) -> ClientSession:
        """The session, once it has started.

        Raises:
            Unavailable: it has failed, and waits for its restart.
        """
        await self.settled.wait()
        if self._session is None:
            raise Unavailable(self.unavailable())
        return self._session

    async def call(
        self, tool: str, arguments: Mapping[str, Any], progress: ProgressFnT | None = None
    ) -> mcp_types.CallToolResult:
        """Call a tool.

        Raises:
            Unavailable: the server cannot be called, or ended meanwhile.
            MCPError: it answered with an error.
        """
        import mcp_types
        from mcp.shared.exceptions import MCPError

        session = await self.session()
        request = mcp_types.CallToolRequest(
            params=mcp_types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        )
        self._running += 1
        self._calls += 1
        try:
            return await self._send(session, request, progress)
        except MCPError as error:
            self._failures += 1
            if error.code == mcp_types.CONNECTION_CLOSED:
                self._doubted.set()
            if not is_closed(error):
                raise
            self._lost.set()
            raise Unavailable(f"The MCP server {self.name!r} ended during the call.") from error
        except ValueError as error:  # what it answered is not of the protocol
            self._failures += 1
            raise Unavailable(f"The MCP server {self.name!r} answered with something else.") from error
        finally:
            self._running -= 1

    async def _send(
        self, session: ClientSession, request: mcp_types.CallToolRequest, progress: ProgressFnT | None
    ) -> mcp_types.CallToolResult:
        import mcp_types
        from mcp.shared.exceptions import MCPError

        try:
            return await session.send_request(request, mcp_types.CallToolResult, progress_callback=progress)
        except MCPError as error:
            if not is_forgotten(error):
                raise
        if session is self._session:
            self.restart()
        session = await self.session()
        return await session.send_request(request, mcp_types.CallToolResult, progress_callback=progress)

    def restart(self) -> None:
        """Restart it now. Calls that come meanwhile wait."""
        self._unsettle()
        self._again.set()
        self._lost.set()
        if self._state == "starting" and self._limit is not None and not self._limit.expired():
            self._limit.reschedule(0)  # cancels this start

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._session = None
        self._become("stopped")
        self._error = "It was taken off the list."
        self.settled.set()
        self.known.set()

    async def printed(self, most: int) -> str:
        """The end of its output besides messages."""
        text = await self._kept.printed(most) if self._kept else self._printed[-most:]
        return redact(self.server, text)

    def info(self) -> McpServerInfo:
        session = self._session
        about = session.server_info if session else None
        return McpServerInfo(
            name=self.name,
            transport="stdio" if isinstance(self.server, StdioServer) else self.server.transport,
            target=target(self.server),
            env=sorted(self.server.env if isinstance(self.server, StdioServer) else self.server.headers),
            source=self.source,
            state=self._state,
            server=f"{about.name} {about.version}".strip() if about else None,
            protocol_version=session.protocol_version if session else None,
            pid=self._kept.pid if self._kept and not self._kept.exited.done() else None,
            tools=[tool.name for tool in self.tools],
            running=self._running,
            calls=self._calls,
            failures=self._failures,
            restarts=self._restarts,
            since=self._since,
            retry=self._retry,
            error=self._error,
            ping=self._ping,
        )

    def _set_tools(self, tools: list[mcp_types.Tool]) -> None:
        if tools != self.tools:
            self.tools = tools
            self._changed()

    def _unsettle(self) -> None:
        self._session = None
        self.settled.clear()

    def _become(self, state: McpState) -> None:
        if state != self._state:
            self._state = state
            self._since = time.time()

    def unavailable(self) -> str:
        """Why it cannot be called."""
        text = f"The MCP server {self.name!r} is not available: {self._error or 'it is not running'}"
        if self._retry is None:
            return text
        return f"{text} It is started again in {max(0.0, self._retry - time.time()):.1f} s."

    async def _live(self, after: Collection[asyncio.Task[None]]) -> None:
        """Start it, and restart it whenever it fails."""
        if after:
            await asyncio.wait(after)
        await self._threads.run(load_sdk)
        failures = 0
        while True:
            began = time.monotonic()
            self._again.clear()
            self._error = await self._once()
            was_ready, self._session = self._state == "ready", None
            recovered = was_ready and time.monotonic() - began > _RECOVERED
            if not was_ready:  # else it may be back in a moment: till then its tools stay on the list
                self._set_tools([])
            self.known.set()
            if not self._again.is_set():
                log.warning("MCP server %s: %s", self.name, self._error)
                failures = 0 if recovered else failures + 1
                if failures > was_ready:  # one that was ready is restarted at once, the first time
                    await self._wait(failures - was_ready)
            self._restarts += 1
            self._retry = None
            self.settled.clear()
            self._become("starting")

    async def _wait(self, failures: int) -> None:
        self._become("waiting")
        pause = back_off(failures, _FIRST_PAUSE, self._options.longest_pause)
        self._retry = time.time() + pause
        self.settled.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._again.wait(), pause)

    async def _once(self) -> str:
        """Start it and watch it until it fails; returns the reason."""
        import anyio
        import httpx2
        from mcp.shared.exceptions import MCPError

        failures = (McpError, MCPError, OSError, httpx2.HTTPError, RuntimeError, ValueError)
        self._lost.clear()
        self._stale.clear()
        self._doubted.clear()
        self._last_words = ""
        try:
            async with self._connect() as session:
                self._session = session
                self._error = None
                self._become("ready")
                self.settled.set()
                self.known.set()
                try:
                    reason = await self._watch(session)
                finally:
                    self._unsettle()
        except (*failures, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            reason = self._reason(error)
        except ExceptionGroup as group:
            reason = self._reason(first_error(group))
        return redact(self.server, reason + self._last_words)

    def _reason(self, error: BaseException) -> str:
        if self._again.is_set():
            return _ANEW
        if isinstance(error, TimeoutError):
            return f"It did not tell its tools within {self._options.start_limit:g} s."
        if is_closed(error):
            return _ENDED
        text = str(error).strip() or type(error).__name__
        return text if text.endswith((".", "!", "?")) else f"{text}."

    async def _end_process(self, kept: ServiceProcess) -> None:
        """End its process once its output and exit status are known."""
        task = asyncio.current_task()
        if self._lost.is_set() and not self._again.is_set() and not (task and task.cancelling()):
            await asyncio.wait([kept.exited], timeout=_EXIT_LIMIT)
        self._printed = await kept.printed(_KEPT)
        status = kept.exited.result() if kept.exited.done() else None
        if status is not None:
            self._last_words += f" Its exit status was {status}."
        if shown := self._printed[-_SHOWN:].strip():
            self._last_words += f" It printed: {shown}"
        self._kept = None
        await kept.close()

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[ClientSession]:
        """Start it, and open a session whose tools are known."""
        import mcp_types
        from mcp.client.session import ClientSession

        from glovebox import __version__

        async with contextlib.AsyncExitStack() as stack:
            if isinstance(self.server, StdioServer):
                # In place of one of an earlier server, whose session is lost.
                command, name = [self.server.command, *self.server.args], process_name(self.name)
                self._kept = await keep_process(
                    self._keeper, name, command, environment=self.server.env, pipes=True
                )
                stack.push_async_callback(self._end_process, self._kept)
            async with asyncio.timeout(self._options.start_limit) as self._limit:
                read, write = await stack.enter_async_context(
                    open_transport(self.server, self._kept, self._lost)
                )
                about = mcp_types.Implementation(name="glovebox", version=__version__)
                session = await stack.enter_async_context(
                    ClientSession(read, write, message_handler=self._receive, client_info=about)
                )
                await greet(session)
                tools = await list_tools(session)
            self._limit = None
            self._set_tools(tools)
            yield session

    async def _watch(self, session: ClientSession) -> str:
        """Wait until it is lost; returns the reason."""
        exited = self._kept.exited if self._kept else asyncio.get_running_loop().create_future()
        interval = self._options.health_interval
        while not self._lost.is_set():
            events = (self._lost, self._stale, self._doubted)
            news = await race(*(event.wait() for event in events), asyncio.wait([exited]), limit=interval)
            if exited.done():
                break
            if self._stale.is_set():
                self._stale.clear()
                await self._list_again(session)
            elif self._doubted.is_set() or not (news or self._running):
                self._doubted.clear()
                if not await self._answers(session):
                    return "It does not answer any more."
        return _ANEW if self._again.is_set() else _ENDED

    async def _list_again(self, session: ClientSession) -> None:
        """List its tools again; those of before stay if it does not answer."""
        listing = asyncio.create_task(list_tools(session))
        await race(listing, self._lost.wait(), limit=self._options.start_limit)
        if listing.done():
            self._set_tools(listing.result())

    async def _answers(self, session: ClientSession) -> bool:
        from mcp.shared.exceptions import MCPError

        if session.initialize_result is None:  # newer servers have no ping
            return True
        began = time.monotonic()
        try:
            async with asyncio.timeout(min(_PING_LIMIT, self._options.start_limit)):
                await session.send_ping()
        except TimeoutError:
            return bool(self._running)  # it is busy with a call
        except MCPError as error:
            if is_forgotten(error):
                return False  # any other error is an answer all the same
        self._ping = (time.monotonic() - began) * 1000
        return True

    async def _receive(self, message: object) -> None:
        """A notification of the server, or an exception of the connection."""
        import mcp_types

        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._stale.set()
