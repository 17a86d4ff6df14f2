"""Typed requests to a box that is started, or attached to, when it is first used."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from glovebox.client.connection.answers import MessageT, decode, decode_list
from glovebox.client.connection.events import ServerSentEvent, server_sent_events
from glovebox.client.connection.http import Connection
from glovebox.client.connection.retry import Lost, Patience

if TYPE_CHECKING:
    from glovebox.client.runtime import Runtime


class Link:
    """The connection that all parts of a box share."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        #: Called before the box is opened.
        self.before_open: Callable[[], None] = _nothing

    async def connection(self) -> Connection:
        """The connection.

        Raises:
            GloveboxError: the box could not be started.
        """
        if not self.runtime.runtime_initialized:
            self.before_open()
            await self.runtime.connect()
        return self.runtime.connection

    async def ask(
        self,
        kind: type[MessageT],
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        limit: float | None = 60.0,
        repeatable: bool | None = None,
    ) -> MessageT:
        """The answer of an endpoint.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
        return decode(await self.send(method, path, query, body, limit=limit, repeatable=repeatable), kind)

    async def ask_list(
        self, kind: type[MessageT], path: str, query: Mapping[str, str] | None = None
    ) -> list[MessageT]:
        """The answer of an endpoint that lists something.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
        return decode_list(await self.send("GET", path, query), kind)

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        limit: float | None = 60.0,
        repeatable: bool | None = None,
    ) -> bytes:
        """The body of an answer.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        connection = await self.connection()
        return await connection.request(
            method, path, query=query, body=encoded, limit=limit, repeatable=repeatable
        )

    async def follow(
        self, path: str, query: Callable[[], Mapping[str, str]], *, last: str
    ) -> AsyncGenerator[ServerSentEvent, None]:
        """The events of an endpoint up to the one named `last`, across broken connections.

        `query` says where to go on after a break.

        Raises:
            GloveboxError: the box refused, or does not come back; its class says why.
        """
        connection = await self.connection()
        patience = Patience(connection.patience)
        while True:
            lost = Lost("The box has ended the stream.", sent=True)
            try:
                async with contextlib.aclosing(server_sent_events(connection, path, query=query())) as events:
                    async for event in events:
                        patience.reset()
                        yield event
                        if event.event == last:
                            return
            except Lost as error:
                lost = error
            await patience.wait(lost)


def new_key() -> str:
    """An idempotency key: a request that is sent again with it is carried out once."""
    return uuid.uuid4().hex


def _nothing() -> None: ...
