"""`WS /sessions/{name}/attach`: a live terminal for a person, to watch or to take over.

Binary frames carry what the terminal prints, and the keys a person presses. Text frames are JSON: requests
and notices.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from glovebox.box.events import EventLog
from glovebox.box.terminal.manager import BoxSession, Terminal
from glovebox.box.terminal.shell.integration import without_typed_line
from glovebox.errors import (
    GloveboxError,
    NoSuchSession,
    OutputGone,
    RequestError,
    SessionTaken,
    StartupError,
    TerminalError,
)
from glovebox.http.requests import boolean, too_deep
from glovebox.http.responses import to_json
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.protocol.events import ActionState, CommandFinished, Event, SessionChanged
from glovebox.protocol.terminal import SessionInfo

#: How much of what was printed before is shown, so that the screen makes sense.
REPLAY = 65_536
#: A reader that is further behind is skipped forward.
MOST_BEHIND = 1 << 20
#: Codes a WebSocket is closed with.
ENDED, UNKNOWN = 1000, 4404
_PIECE = 65_536


class AttachRequest(Message):
    """A request of an attached person."""

    type: Literal["input", "resize", "take", "release"]
    data: str = ""
    rows: int = 0
    columns: int = 0


class SessionState(Message):
    """How the session is now."""

    type: str = "state"
    session: SessionInfo


class AttachNotice(Message):
    """The result of a request: `taken`, `released` or `refused`; or why the connection ends: `closed`."""

    type: Literal["taken", "released", "refused", "closed"]
    code: str = ""
    reason: str = ""


class Skipped(Message):
    """Output that this reader was too slow for."""

    type: str = "skipped"
    bytes: int


class Attach:
    """The endpoint."""

    def __init__(self, terminal: Terminal, events: EventLog) -> None:
        self._terminal = terminal
        self._events = events

    async def __call__(self, socket: WebSocket) -> None:
        """Serve one person until they go away or the session ends."""
        await socket.accept()
        try:
            session = self._terminal.session(socket.path_params["name"])
        except NoSuchSession as error:
            await _close(socket, AttachNotice(type="closed", code=error.code, reason=str(error)), UNKNOWN)
            return
        person = _Person(socket, session)
        watching = asyncio.create_task(person.watch())
        tasks = [
            watching,
            asyncio.create_task(person.listen(take=boolean(socket.query_params.get("take", "")) or False)),
            asyncio.create_task(self._send_changes(socket, session)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            person.leave()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        if not failures and not watching.cancelled():
            reason = f"The session {session.name} has ended."
            await _close(socket, AttachNotice(type="closed", code="session_ended", reason=reason), ENDED)
        for failure in failures:
            if not isinstance(failure, WebSocketDisconnect):
                raise failure

    async def _send_changes(self, socket: WebSocket, session: BoxSession) -> None:
        events = self._events
        seq, sent = events.last, None
        while True:
            info = session.info()
            if info != sent:
                sent = info
                await _send_message(socket, SessionState(session=info))
            await events.more(seq)
            while not any(_concerns(event, session.name) for event in events.since(seq)):
                seq = events.last
                await events.more(seq)
            seq = events.last


class _Person:
    """A person at the other end of a socket."""

    def __init__(self, socket: WebSocket, session: BoxSession) -> None:
        self._socket = socket
        self._session = session
        self._shell = session.shell

    async def watch(self) -> None:
        """Show what the terminal prints, until the session ends."""
        position = await self._line_start(max(0, self._shell.position - REPLAY))
        while True:
            await self._shell.changed(position)
            if self._shell.position - position > MOST_BEHIND:
                position = await self._skip(position)
            try:
                data = await self._shell.read(position, _PIECE)
            except OutputGone:
                if self._shell.closed:
                    return
                position = await self._skip(position)
                continue
            if not data and self._shell.closed:
                return
            position += len(data)
            if data:
                await _send(self._socket, without_typed_line(data))

    async def listen(self, *, take: bool) -> None:
        """Do what the person wants, until they go away."""
        if take:
            await self._take()
        while True:
            received = await self._socket.receive()
            if received["type"] == "websocket.disconnect":
                return
            keys = received.get("bytes")
            try:
                if keys is not None:
                    self._type(keys)
                else:
                    await self._do(decode_json(received.get("text") or "", AttachRequest))
            except (msgspec.DecodeError, UnicodeEncodeError) as error:
                await self._refuse(RequestError(str(error)))
            except RecursionError:
                await self._refuse(too_deep())
            except TerminalError as error:
                await self._refuse(error)

    def leave(self) -> None:
        if self._session.taken_by(self):
            self._session.release(self)

    async def _do(self, wanted: AttachRequest) -> None:
        if wanted.type == "input":
            self._type(wanted.data.encode("utf-8", "surrogateescape"))
        elif wanted.type == "resize":
            self._need_to_have_it()
            self._shell.resize(wanted.rows, wanted.columns)
        elif wanted.type == "take":
            await self._take()
        else:
            self.leave()
            await _send_message(self._socket, AttachNotice(type="released"))

    async def _take(self) -> None:
        try:
            self._session.take(self)
            await self._shell.ready(
                self._session.cwd
            )  # keys that are pressed before there is a shell would be lost
        except (SessionTaken, StartupError) as error:
            self.leave()
            await self._refuse(error)
        else:
            await _send_message(self._socket, AttachNotice(type="taken"))

    def _type(self, keys: bytes) -> None:
        self._need_to_have_it()
        self._shell.type(keys)

    def _need_to_have_it(self) -> None:
        if not self._session.taken_by(self):
            raise SessionTaken('You are watching. Send {"type":"take"} to take the session over first.')

    async def _refuse(self, error: GloveboxError) -> None:
        await _send_message(self._socket, AttachNotice(type="refused", code=error.code, reason=str(error)))

    async def _skip(self, position: int) -> int:
        """Leave out what a slow reader has no time for."""
        forward = await self._line_start(max(position, self._shell.position - REPLAY))
        if forward > position:
            await _send_message(self._socket, Skipped(bytes=forward - position))
        return forward

    async def _line_start(self, position: int) -> int:
        """The beginning of the first whole line from here on."""
        if position == 0:
            return 0
        try:
            data = await self._shell.read(position, REPLAY)
        except OutputGone:
            return self._shell.position
        return position + data.find(b"\n") + 1


def _concerns(event: Event, session: str) -> bool:
    if isinstance(event, SessionChanged):
        return event.session == session
    return isinstance(event, ActionState | CommandFinished) and event.command.session == session


async def _send_message(socket: WebSocket, message: Message) -> None:
    await _send(socket, to_json(message).decode())


async def _send(socket: WebSocket, data: str | bytes) -> None:
    try:
        if isinstance(data, bytes):
            await socket.send_bytes(data)
        else:
            await socket.send_text(data)
    except RuntimeError as error:  # the server has closed the connection: its pings got no answer
        raise WebSocketDisconnect(1006) from error


async def _close(socket: WebSocket, notice: AttachNotice, code: int) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        await _send_message(socket, notice)
        await socket.close(code, notice.code)
