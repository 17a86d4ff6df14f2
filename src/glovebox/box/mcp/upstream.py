"""One MCP server: started, spoken to, and started again when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from glovebox.box.keeping import Keeper, Kept
from glovebox.box.mcp.options import McpOptions
from glovebox.box.mcp.reaching import load_sdk, process_name, reached
from glovebox.box.mcp.secrets import redacted, target
from glovebox.box.mcp.servers import Server, StdioServer
from glovebox.box.threads import Threads
from glovebox.errors import McpError
from glovebox.protocol.mcp import McpServerInfo, McpState

if TYPE_CHECKING:
    import mcp_types
    from mcp.client.session import ClientSession
    from mcp.shared.dispatcher import ProgressFnT

log = logging.getLogger(__name__)

#: The first pause before a server that failed is started again; each further one is twice as long.
_FIRST_PAUSE = 0.5
#: A server that was ready for so long has recovered.
_RECOVERED = 30.0
#: How long an idle server may take to say that it is there.
_PING_LIMIT = 10.0
_SHOWN = 500
#: Pages of a list of tools; more, and it has no end.
_MOST_PAGES = 100


class Unavailable(McpError):
    """A server cannot be asked now; the text says why."""


class Upstream:
    """A server that is kept ready until it is closed. Nothing it does raises anything here."""

    def __init__(
        self,
        server: Server,
        source: Literal["posted", "file"],
        *,
        keeper: Keeper,
        threads: Threads,
        options: McpOptions,
        changed: Callable[[], None],
    ) -> None:
        """`changed` hears when it has other tools."""
        self.server = server
        self.source = source
        self.tools: list[mcp_types.Tool] = []
        #: Set while there is something to be said about its tools: it is ready, or has failed.
        self.settled = asyncio.Event()
        self._keeper = keeper
        self._threads = threads
        self._options = options
        self._changed = changed
        self._session: ClientSession | None = None
        self._kept: Kept | None = None
        self._state: McpState = "starting"
        self._since = time.time()
        self._error: str | None = None
        self._retry: float | None = None
        self._ping: float | None = None
        self._running = self._calls = self._failures = self._restarts = 0
        self._lost = asyncio.Event()
        self._stale = asyncio.Event()
        self._again = asyncio.Event()
        self._task = asyncio.create_task(self._live())

    @property
    def name(self) -> str:
        """What it is called here."""
        return self.server.name

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return self._state == "ready"

    async def session(self) -> ClientSession:
        """The session with it, once it has started.

        Raises:
            Unavailable: it has failed, and waits to be started again.
        """
        await self.settled.wait()
        if self._session is None:
            raise Unavailable(self.unavailable())
        return self._session

    async def call(
        self, tool: str, arguments: Mapping[str, Any], progress: ProgressFnT | None = None
    ) -> mcp_types.CallToolResult:
        """Have a tool called.

        Raises:
            Unavailable: the server cannot be asked, or ended meanwhile.
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
            return await session.send_request(request, mcp_types.CallToolResult, progress_callback=progress)
        except MCPError as error:
            self._failures += 1
            if error.code != mcp_types.CONNECTION_CLOSED:
                raise
            self._lost.set()
            raise Unavailable(f"The MCP server {self.name!r} ended during the call.") from error
        except ValueError as error:  # what it answered is not of the protocol
            self._failures += 1
            raise Unavailable(f"The MCP server {self.name!r} answered with something else.") from error
        finally:
            self._running -= 1

    def restart(self) -> None:
        """Start it anew now, whatever it does."""
        self._again.set()
        self._lost.set()

    async def close(self) -> None:
        """End it."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._session = None
        self._become("stopped")
        self._error = "It was taken off the list."
        self.settled.set()

    async def printed(self, most: int) -> str:
        """The end of what it printed besides messages."""
        said = await self._kept.printed(most) if self._kept else ""
        return redacted(self.server, said)

    def info(self) -> McpServerInfo:
        """How it is."""
        session = self._session
        about = session.server_info if session else None
        stdio = isinstance(self.server, StdioServer)
        return McpServerInfo(
            name=self.name,
            transport="stdio" if isinstance(self.server, StdioServer) else self.server.transport,
            target=target(self.server),
            env=sorted(self.server.env if isinstance(self.server, StdioServer) else self.server.headers),
            source=self.source,
            state=self._state,
            server=f"{about.name} {about.version}".strip() if about else None,
            protocol_version=session.protocol_version if session else None,
            pid=self._kept.pid if stdio and self._kept and not self._kept.exited.done() else None,
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

    def _become(self, state: McpState) -> None:
        if state != self._state:
            self._state = state
            self._since = time.time()

    def unavailable(self) -> str:
        """Why it cannot be asked."""
        text = f"The MCP server {self.name!r} is not available: {self._error or 'it is not running'}"
        if self._retry is None:
            return text
        return f"{text} It is started again in {max(0.0, self._retry - time.time()):.1f} s."

    async def _live(self) -> None:
        """Start it again and again."""
        await self._threads.run(load_sdk)
        pause = 0.0
        while True:
            began = time.monotonic()
            self._again.clear()
            self._error = await self._once()
            recovered = self._state == "ready" and time.monotonic() - began > _RECOVERED
            had_tools, self.tools, self._session = bool(self.tools), [], None
            if had_tools:
                self._changed()
            if not self._again.is_set():
                log.warning("MCP server %s: %s", self.name, self._error)
                pause = 0.0 if recovered else min(max(pause * 2, _FIRST_PAUSE), self._options.longest_pause)
                await self._wait(pause * random.uniform(0.8, 1.2))  # noqa: S311
            self._restarts += 1
            self._retry = None
            self.settled.clear()
            self._become("starting")

    async def _wait(self, pause: float) -> None:
        self._become("waiting")
        self._retry = time.time() + pause
        self.settled.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._again.wait(), pause)

    async def _once(self) -> str:
        """Start it and stay with it until it fails: why it did."""
        import httpx2
        from mcp.shared.exceptions import MCPError

        self._lost.clear()
        try:
            async with self._connected() as session:
                self._session = session
                self._error = None
                self._become("ready")
                self.settled.set()
                self._changed()
                return await self._hold(session)
        except TimeoutError:
            reason = f"It did not tell its tools within {self._options.start_limit:g} s."
        except (McpError, MCPError, OSError, httpx2.HTTPError, RuntimeError, ValueError) as error:
            reason = _words(error)
        except ExceptionGroup as group:
            reason = _words(_first(group))
        return redacted(self.server, reason + await self._last_words())

    async def _last_words(self) -> str:
        if self._kept is None:
            return ""
        said = (await self._kept.printed(_SHOWN)).strip()
        status = self._kept.exited.result() if self._kept.exited.done() else None
        how = f" Its exit status was {status}." if status is not None else ""
        return f"{how} It printed: {said}" if said else how

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[ClientSession]:
        """A session with it whose tools are known."""
        import mcp_types
        from mcp.client.session import ClientSession

        from glovebox import __version__

        async with contextlib.AsyncExitStack() as stack:
            if isinstance(self.server, StdioServer):
                self._kept = await self._started(self.server)
                stack.push_async_callback(self._kept.close)
            limit = asyncio.timeout(self._options.start_limit)
            async with limit:
                read, write = await stack.enter_async_context(reached(self.server, self._kept, self._lost))
                about = mcp_types.Implementation(name="glovebox", version=__version__)
                session = await stack.enter_async_context(
                    ClientSession(read, write, message_handler=self._heard, client_info=about)
                )
                await _greet(session)
                self.tools = await _listed(session)
            yield session

    async def _started(self, server: StdioServer) -> Kept:
        name = process_name(server.name)
        if left := self._keeper.kept(name):  # by an earlier server, whose conversation with it is lost
            await left.close()
        return await self._keeper.keep(
            name, [server.command, *server.args], environment=server.env, pipes=True
        )

    async def _hold(self, session: ClientSession) -> str:
        """Watch over it until it is lost: why it is."""
        exited = self._kept.exited if self._kept else None
        while not self._lost.is_set():
            waits = [asyncio.create_task(self._lost.wait()), asyncio.create_task(self._stale.wait())]
            ends: list[asyncio.Future[Any]] = [*waits, *([exited] if exited else [])]
            try:
                done, _ = await asyncio.wait(
                    ends, timeout=self._options.health_interval, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                for wait in waits:
                    wait.cancel()
            if exited is not None and exited.done():
                break
            if self._stale.is_set():
                self._stale.clear()
                self.tools = await _listed(session)
                self._changed()
            elif not done and not self._running and not await self._is_there(session):
                return "It does not answer any more."
        return "It was started anew." if self._again.is_set() else "It has ended."

    async def _is_there(self, session: ClientSession) -> bool:
        from mcp.shared.exceptions import MCPError

        if session.initialize_result is None:  # newer servers know no such question
            return True
        began = time.monotonic()
        try:
            async with asyncio.timeout(_PING_LIMIT):
                await session.send_ping()
        except TimeoutError:
            return bool(self._running)  # busy with a call that came meanwhile
        except MCPError:  # an answer all the same
            pass
        self._ping = (time.monotonic() - began) * 1000
        return True

    async def _heard(self, message: object) -> None:
        """A notification of the server, or an exception of the connection."""
        import mcp_types

        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._stale.set()


async def _greet(session: ClientSession) -> None:
    """Agree on a version: the older way is understood by all but servers that know only newer ones."""
    import mcp_types
    from mcp.shared.exceptions import MCPError

    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in (mcp_types.UNSUPPORTED_PROTOCOL_VERSION, mcp_types.METHOD_NOT_FOUND):
            raise
        await session.discover()


async def _listed(session: ClientSession) -> list[mcp_types.Tool]:
    """All its tools."""
    import mcp_types

    capabilities = session.server_capabilities
    if capabilities is not None and capabilities.tools is None:
        return []
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=mcp_types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _words(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."
