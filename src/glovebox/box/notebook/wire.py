"""The connection to a kernel: messages signed by jupyter_client's session, over ZeroMQ on our event loop."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from glovebox.box.notebook.messages import Incoming
from glovebox.box.threads import Threads
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message

if TYPE_CHECKING:  # both take so long to import that it is done when a kernel is first needed
    import zmq.asyncio
    from jupyter_client.session import Session

log = logging.getLogger(__name__)

#: Larger messages are checked and decoded in a thread.
_LARGE = 1 << 20
#: Messages that are read in a row before other tasks run.
_IN_A_ROW = 32
#: Milliseconds between attempts to reach a kernel that is starting.
_RETRY = 10
#: Separates the addressees of a message from its parts.
_DELIMITER = b"<IDS|MSG>"

Asking = Literal["shell", "control"]


class _Header(msgspec.Struct):
    msg_type: str = ""
    msg_id: str = ""


_header = json_decoder(_Header).decode
_decode_content = json_decoder(dict[str, Any]).decode


class ConnectionInfo(Message):
    """Where a kernel listens: what its connection file says."""

    transport: Literal["ipc", "tcp"]
    #: An address, or what the paths of the sockets begin with.
    ip: str
    shell_port: int
    iopub_port: int
    stdin_port: int
    control_port: int
    hb_port: int
    key: str
    signature_scheme: str = "hmac-sha256"
    kernel_name: str = ""

    def path(self, port: int) -> str:
        """Where a socket is, if it is a file."""
        return f"{self.ip}-{port}"

    def url(self, port: int) -> str:
        """Where ZeroMQ finds a socket."""
        return f"ipc://{self.path(port)}" if self.transport == "ipc" else f"tcp://{self.ip}:{port}"


class Wire:
    """The connection to one process of a kernel."""

    def __init__(
        self, connection: ConnectionInfo, listener: Callable[[Incoming], Awaitable[None]], threads: Threads
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._threads = threads
        self._sockets: _Sockets | None = None
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        #: Done with the first published message: from then on, none is missed.
        self.heard: asyncio.Future[None] = loop.create_future()
        #: Done when the kernel has hung up and all its messages were handled.
        self.lost: asyncio.Future[None] = loop.create_future()

    @property
    def connected(self) -> bool:
        """Whether the kernel was ever reached."""
        return bool(self._tasks)

    async def connect(self) -> None:
        """Connect, as soon as the kernel listens."""
        await self._threads.run(_load)
        sockets = self._sockets = _Sockets(self._connection)
        await sockets.next_event()
        self._tasks = [
            asyncio.create_task(self._listen(sockets)),
            asyncio.create_task(self._read(sockets.shell, self._reply)),
            asyncio.create_task(self._read(sockets.control, self._reply)),
        ]

    def ask(
        self, channel: Asking, kind: str, content: dict[str, Any], message_id: str = ""
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a request. The future gets the content of the reply, or is cancelled at the end.

        Raises:
            UnicodeEncodeError: it holds text that is not valid Unicode.
        """
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if self._sockets is None:
            reply.cancel()
            return reply
        message_id = message_id or uuid.uuid4().hex
        self._sockets.send(channel, kind, message_id, content)
        self._asked[message_id] = reply
        reply.add_done_callback(lambda _: self._asked.pop(message_id, None))
        return reply

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for reply in list(self._asked.values()):
            reply.cancel()
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

    async def _listen(self, sockets: _Sockets) -> None:
        """Handle published messages until the kernel has hung up, and then those that are left."""
        reading = asyncio.create_task(self._read(sockets.published, self._publish))
        gone = asyncio.create_task(sockets.next_event())
        try:
            await asyncio.wait([gone, reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, reading):
                task.cancel()
            await asyncio.gather(gone, reading, return_exceptions=True)
        while (frames := await sockets.waiting()) is not None:
            await self._take(frames, self._publish)
        if not self.lost.done():
            self.lost.set_result(None)

    async def _read(self, socket: zmq.asyncio.Socket, take: Callable[[Incoming], Awaitable[None]]) -> None:
        number = 0
        while True:
            await self._take(await socket.recv_multipart(), take)
            number += 1
            if number % _IN_A_ROW == 0:
                await asyncio.sleep(0)

    async def _take(self, frames: list[bytes], take: Callable[[Incoming], Awaitable[None]]) -> None:
        assert self._sockets is not None
        session = self._sockets.session
        if sum(map(len, frames)) > _LARGE:
            message = await self._threads.run(read_message, session, frames)
        else:
            message = read_message(session, frames)
        if message is None:
            log.warning("a message on the sockets of a kernel is not from it, and is ignored")
        else:
            await take(message)

    async def _publish(self, message: Incoming) -> None:
        if not self.heard.done():
            self.heard.set_result(None)
        await self._listener(message)

    async def _reply(self, message: Incoming) -> None:
        reply = self._asked.get(message.parent)
        if reply is not None and not reply.done():
            reply.set_result(message.content)


class _Sockets:
    """The sockets to one kernel, which connect by themselves."""

    def __init__(self, connection: ConnectionInfo) -> None:
        import zmq
        import zmq.asyncio

        self.session = new_session(connection.key)
        self._context = context = zmq.asyncio.Context()
        # However much a kernel prints, nothing is dropped on our side.
        context.setsockopt(zmq.RCVHWM, 0)
        context.setsockopt(zmq.RECONNECT_IVL, _RETRY)
        context.setsockopt(zmq.LINGER, 0)
        self.published = context.socket(zmq.SUB)
        self.published.subscribe(b"")
        self._monitor = self.published.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        # Published messages first: those sent before the connection are missed.
        self.published.connect(connection.url(connection.iopub_port))
        self.shell = context.socket(zmq.DEALER)
        self.shell.connect(connection.url(connection.shell_port))
        self.control = context.socket(zmq.DEALER)
        self.control.connect(connection.url(connection.control_port))

    async def next_event(self) -> None:
        """Wait until the kernel is reached; at the second call, until it has hung up."""
        await self._monitor.recv_multipart()

    async def waiting(self) -> list[bytes] | None:
        """A published message that was not read yet."""
        import zmq

        try:
            return await self.published.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def send(self, channel: Asking, kind: str, message_id: str, content: dict[str, Any]) -> None:
        """Send a request.

        Raises:
            UnicodeEncodeError: it holds text that is not valid Unicode.
        """
        message = self.session.msg(kind, content)
        message["header"]["msg_id"] = message["msg_id"] = message_id
        socket = self.shell if channel == "shell" else self.control
        # Not with the session's own `send`: it goes past asyncio, which then may not see the reply come.
        socket.send_multipart(self.session.serialize(message))

    def close(self) -> None:
        self.published.disable_monitor()
        self._context.destroy(linger=0)


def _load() -> None:
    """Import ZeroMQ. Blocks for a tenth of a second."""
    import zmq.asyncio  # noqa: F401


def new_session(key: str) -> Session:
    """A session that makes and signs messages."""
    from jupyter_client.session import Session

    return Session(key=key.encode(), username="", pack=msgspec.json.encode)


def read_message(session: Session, frames: list[bytes]) -> Incoming | None:
    """The message in some frames; None if they are not from the kernel.

    The session could decode it, but looks for dates in every text, which takes ten times as long.
    """
    try:
        begin = frames.index(_DELIMITER)
        signature, header, parent, metadata, content = frames[begin + 1 : begin + 6]
        if not hmac.compare_digest(signature, session.sign([header, parent, metadata, content])):
            return None
        return Incoming(_header(header).msg_type, _header(parent).msg_id, _content(content))
    except (ValueError, msgspec.DecodeError):
        return None


def _content(data: bytes) -> dict[str, Any]:
    try:
        return _decode_content(data)
    except (UnicodeDecodeError, msgspec.DecodeError):  # half characters, NaN: read as far as possible
        value = json.loads(data.decode("utf-8", "replace"))
        return value if isinstance(value, dict) else {}
