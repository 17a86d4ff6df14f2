"""A VS Code window as a hub knows it: registers, holds a socket, carries out orders on a real directory.

`FakeWindow` lives on an event loop; `opened_window` gives one its own thread, for tests that block.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
import socketio  # type: ignore[import-untyped]

from glovebox.protocol import window as say
from tests.hub.window_hands import No, WindowHands
from tests.support.waiting import LIMIT

T = TypeVar("T")

KINDS = [
    "run", "run_apart", "input", "end_session", "stat", "read", "write", "put", "land", "drop", "list",
    "glob", "grep", "make_directory", "move", "delete", "forward", "fetch_body", "arrive", "depart",
]  # fmt: skip


class Work:
    """An order, and what was told of it and not acknowledged yet."""

    def __init__(self, order: say.Order) -> None:
        self.order = order
        self.number = 0
        self.unheard: dict[int, dict[str, Any]] = {}
        self.ended = False


class FakeWindow:
    """A window. What it does can be bent by its attributes, for tests of what goes wrong."""

    def __init__(
        self, hub: str, key: str, *folders: Path, name: str = "", instance: str = "", trusted: bool = True
    ) -> None:
        self.hub = hub
        self.key = key
        self.instance = instance or uuid.uuid4().hex
        self.name = name or (folders[0].name if folders else "")
        self.hands = WindowHands(list(folders))
        self.hands.trusted = trusted
        self.paused = False
        #: Whether its main thread answers.
        self.beating = True
        #: It takes orders, and never says anything about them.
        self.silent = False
        #: Gives raw messages to tell of an order in place of carrying it out, if it gives any.
        self.says: Callable[[str, say.Order], list[dict[str, Any]] | None] = lambda order_id, order: None
        #: Orders that were begun, and those that nobody waits for any more.
        self.begun: list[say.Order] = []
        self.cancelled: list[str] = []
        #: The reports of the agent's actions.
        self.actions: list[say.ActionReport] = []
        #: Why the hub refused the last connection.
        self.refused = ""
        self.id = self.secret = ""
        self.heartbeat_seconds = 10.0
        self._work: dict[str, Work] = {}
        self._known: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._beating: asyncio.Task[None] | None = None
        self._greeted = asyncio.Event()
        self._socket: Any = None
        self._http: aiohttp.ClientSession | None = None

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection."""
        return self._socket is not None and bool(self._socket.connected)

    @property
    def doing(self) -> list[str]:
        """Orders that it carries out, or has results of that were not acknowledged."""
        return [order_id for order_id, work in self._work.items() if not work.ended]

    async def emit(self, event: str, data: Any) -> None:
        """Say anything."""
        await self._socket.emit(event, data)

    # Its life.

    async def open(self) -> FakeWindow:
        """Register, connect, and say hello."""
        await self.register()
        await self.connect()
        self._beating = asyncio.create_task(self._beat())
        return self

    async def register(self, *, same: bool = False) -> None:
        """Register; `same`: as the window that it was before."""
        known = {"X-Window-Id": self.id, "X-Window-Secret": self.secret} if same else {}
        status, answer = await self.ask("POST", "/api/vscode/register", self.registration(), known)
        assert status == 200, answer
        registered = msgspec.convert(answer, say.Registered)
        self.id, self.secret = registered.id, registered.secret
        self.heartbeat_seconds = registered.heartbeat_seconds

    def registration(self) -> say.Registration:
        """What it says of itself."""
        return say.Registration(
            instance=self.instance, name=self.name, folders=self.folders(), vscode_version="1.100.0",
            extension_version="0.1.0", capabilities=KINDS, trusted=self.hands.trusted, app="tests",
        )  # fmt: skip

    def folders(self) -> list[say.Folder]:
        """Its folders."""
        return [say.Folder(name=folder.name, path=str(folder)) for folder in self.hands.folders]

    async def connect(self) -> None:
        """Connect, and wait until the hub has heard the first words."""
        self._http = aiohttp.ClientSession()
        self._socket = self._new_socket(self._http)
        await self._socket.connect(
            self.hub,
            headers={"X-Session-API-Key": self.key},
            auth=lambda: {"id": self.id, "secret": self.secret},
            transports=["websocket"],
            wait_timeout=LIMIT,
        )
        await self.greeted()

    async def greeted(self) -> None:
        """Wait until the hub has heard the first words on the connection there is."""
        await asyncio.wait_for(self._greeted.wait(), LIMIT)

    async def break_off(self, *, forget: bool = False) -> None:
        """Let the connection go without a word; `forget`: with all that it was doing, as a reload does."""
        if forget:
            for task in list(self._tasks):
                task.cancel()
            self._work.clear()
        if self._socket is not None and self._http is not None:
            await self._socket.shutdown()
            await self._http.close()
        self._socket = self._http = None
        self._greeted.clear()

    async def change(self) -> None:
        """Tell the hub how it is now."""
        changed = say.Changed(paused=self.paused, trusted=self.hands.trusted, folders=self.folders())
        await self._socket.call("changed", msgspec.to_builtins(changed), timeout=LIMIT)

    async def leave(self, reason: str = "The user has disconnected it.") -> None:
        """End the connection, as its user wants."""
        for order_id, work in list(self._work.items()):
            if not work.ended:
                await self._tell(order_id, "failed", code="disconnected", message=reason)
        await self._socket.call("leaving", {"reason": reason}, timeout=LIMIT)
        await self.break_off()

    async def begin_reload(self) -> None:
        """Say that the window closes, and end with all that it was doing."""
        await self._socket.call("leaving", {"reason": "", "returns": True}, timeout=LIMIT)
        await self.break_off(forget=True)

    async def close(self) -> None:
        """End it, whatever it does."""
        if self._beating is not None:
            self._beating.cancel()
        await self.break_off(forget=True)
        await self.hands.terminals.close()

    async def heartbeat(self) -> int:
        """Say that the main thread answers; the status of the answer."""
        beat = say.Heartbeat(secret=self.secret, main_thread_ms=1.5)
        return (await self.ask("POST", f"/api/vscode/heartbeat/{self.id}", beat))[0]

    async def ask(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Ask the hub over HTTP."""
        data = None if body is None else msgspec.json.encode(body)
        sent = {"X-Session-API-Key": self.key, **(headers or {})}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(LIMIT)) as session,
            session.request(method, self.hub + path, data=data, headers=sent) as answer,
        ):
            return answer.status, await answer.json()

    async def _beat(self) -> None:
        while True:
            if self.beating:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await self.heartbeat()
            await asyncio.sleep(self.heartbeat_seconds / 2)

    # On the socket.

    def _new_socket(self, http: aiohttp.ClientSession) -> Any:
        socket = socketio.AsyncClient(reconnection_delay=0.05, reconnection_delay_max=0.2, http_session=http)
        socket.on("connect", self._connected)
        socket.on("connect_error", self._not_connected)
        socket.on("disconnect", lambda reason=None: self._greeted.clear())
        socket.on("order", self._ordered)
        socket.on("action", lambda data: self.actions.append(msgspec.convert(data, say.ActionReport)))
        socket.on("cancel", lambda data: self.cancelled.append(data["id"]))
        return socket

    async def _not_connected(self, data: Any) -> None:
        self.refused = data["message"] if isinstance(data, dict) else str(data)

    async def _connected(self) -> None:
        self._spawn(self._greet())

    async def _greet(self) -> None:
        hello = say.Hello(
            orders=list(self._work), paused=self.paused, trusted=self.hands.trusted, folders=self.folders()
        )
        await self._socket.call("hello", msgspec.to_builtins(hello), timeout=LIMIT)
        for order_id, work in list(self._work.items()):
            for number in list(work.unheard):
                await self._send(order_id, number)
        self._greeted.set()

    async def _ordered(self, data: dict[str, Any]) -> bool:
        ordered = msgspec.convert(data, say.Ordered, builtin_types=(bytes,))
        if ordered.id not in self._known:
            self._known.add(ordered.id)
            self._work[ordered.id] = Work(ordered.order)
            self._spawn(self._carry_out(ordered.id, ordered.order))
        return True

    async def _carry_out(self, order_id: str, order: say.Order) -> None:
        self.begun.append(order)
        if self.silent:
            return
        said = self.says(order_id, order)
        if said is not None:
            for message in said:
                await self._socket.emit("told", message)
            self._work.pop(order_id, None)
            return
        if self.paused:
            await self._tell(order_id, "failed", code="paused", message="The user has paused this window.")
            return
        printed: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        telling = asyncio.create_task(self._tell_printed(order_id, printed))

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(printed.put_nowait, text)

        try:
            answer = await self.hands.do(order, tell)
        except No as no:
            loop.call_soon(printed.put_nowait, None)
            await telling
            await self._tell(order_id, "failed", code=no.code, message=str(no))
        else:
            loop.call_soon(printed.put_nowait, None)
            await telling
            told = msgspec.to_builtins(answer, builtin_types=(bytes,))
            await self._tell(order_id, "succeeded", answer=told)
        finally:
            telling.cancel()

    async def _tell_printed(self, order_id: str, printed: asyncio.Queue[str | None]) -> None:
        while (text := await printed.get()) is not None:
            await self._tell(order_id, "printed", text=text)

    async def _tell(self, order_id: str, kind: str, **fields: Any) -> None:
        work = self._work.get(order_id)
        if work is None or work.ended:
            return
        work.number += 1
        work.ended = kind != "printed"
        work.unheard[work.number] = {"kind": kind, "id": order_id, "number": work.number, **fields}
        if self._greeted.is_set():
            await self._send(order_id, work.number)

    async def _send(self, order_id: str, number: int) -> None:
        """Tell; what is not acknowledged is told again on the next connection."""
        work = self._work.get(order_id)
        if work is None or number not in work.unheard:
            return

        def heard(taken: bool = False) -> None:
            if taken:
                work.unheard.pop(number, None)
                if work.ended and not work.unheard:
                    self._work.pop(order_id, None)

        with contextlib.suppress(socketio.exceptions.SocketIOError):
            await self._socket.emit("told", work.unheard[number], callback=heard)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class OpenedWindow:
    """A window with an event loop in a thread of its own."""

    def __init__(self, hub: str, key: str, *folders: Path, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.window = self._make(hub, key, *folders, **options)

    def _make(self, *arguments: Any, **options: Any) -> FakeWindow:
        async def make() -> FakeWindow:
            return FakeWindow(*arguments, **options)

        return self.call(make())

    @property
    def id(self) -> str:
        """What the hub calls it."""
        return self.window.id

    def call(self, work: Coroutine[Any, Any, T], limit: float = 2 * LIMIT) -> T:
        """Do something on the window's loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit)

    def close(self) -> None:
        """End the window and its thread."""
        self.call(self.window.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


@contextlib.contextmanager
def opened_window(hub: str, key: str, *folders: Path, **options: Any) -> Iterator[OpenedWindow]:
    """A window that is connected to a hub, in a thread of its own."""
    opened = OpenedWindow(hub, key, *folders, **options)
    try:
        opened.call(opened.window.open())
        yield opened
    finally:
        opened.close()


async def _stay(hub: str, key: str, folder: str) -> None:
    window = FakeWindow(hub, key, Path(folder))
    await window.open()
    print(window.id, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_stay(*sys.argv[1:4]))
