"""MCP clients over raw sockets, the same for every server: server-sent events, and streamable HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from benchmarks.dialects import Site, parsed
from benchmarks.load import LoadError
from benchmarks.mcp.wire import LIMIT, Connection, request

_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Session(Protocol):
    """A client's conversation with an MCP server."""

    def request(self, method: str, params: Mapping[str, object]) -> Any:
        """Ask for something and wait for the result.

        Raises:
            LoadError: an error, or something else, came instead.
            OSError: nothing came.
        """

    def notify(self, method: str) -> None:
        """Say something that is not answered."""

    def close(self) -> None:
        """Leave."""


SessionT = TypeVar("SessionT", bound=Session)


def greet(session: Session) -> None:
    """Begin a conversation."""
    session.request("initialize", _HELLO)
    session.notify("notifications/initialized")


def tools(session: Session) -> list[str]:
    """The names of all tools.

    Raises:
        LoadError: what came has none.
        OSError: nothing came.
    """
    told = session.request("tools/list", {})
    try:
        return [str(tool["name"]) for tool in told["tools"]]
    except (KeyError, TypeError):
        raise LoadError(f"no tools: {told!r:.200}") from None


def call(session: Session, tool: str, text: str) -> str:
    """What a tool makes of a text."""
    return said(session.request("tools/call", {"name": tool, "arguments": {"text": text}}))


def said(result: Any) -> str:
    """The text that a call came to; of anything else, all of it."""
    match result:
        case {"content": [{"type": "text", "text": str(text)}]} if not result.get("isError"):
            return text
    return json.dumps(result)


class EventSession:
    """Over server-sent events: one connection for what is heard, others for what is said."""

    def __init__(self, site: Site, limit: float = LIMIT) -> None:
        self._site, self._limit = site, limit
        self._posts: list[Connection] = []
        self._stream = Connection(site.address, limit)
        self._number = 0
        try:
            self._stream.send(request(site, "GET", "/mcp/sse"))
            head = self._stream.head()
            if head.status != 200 or not head.is_stream:
                raise LoadError(f"no stream: HTTP {head.status} {self._stream.body(head)[:200]!r}")
            self._events = self._stream.events()
            name, place = next(self._events, ("nothing", b""))
            if name != "endpoint":
                raise LoadError(f"{name} {place[:200]!r} instead of where to post")
        except (LoadError, OSError):
            self.close()
            raise
        self._path = place.decode()

    def request(self, method: str, params: Mapping[str, object]) -> Any:
        """Ask for something and wait for the result."""
        return result_of(self.requests([(method, params)])[0])

    def requests(self, asked: Sequence[tuple[str, Mapping[str, object]]]) -> list[Any]:
        """Ask for several things at once and wait for all answers: results or errors, in the same order."""
        numbers = self.send(asked)
        answers: dict[int, Any] = {}
        while len(answers) < len(numbers):
            name, data = next(self._events, ("", b""))
            if not name:
                raise LoadError("the stream of events ended")
            message = parsed(data)
            if isinstance(message, dict) and message.get("id") in numbers:
                answers[message["id"]] = message
        return [answers[number] for number in numbers]

    def send(self, asked: Sequence[tuple[str, Mapping[str, object]]]) -> list[int]:
        """Ask for several things at once, over a connection each: the numbers their answers will have."""
        self.open(len(asked))
        numbers = []
        for post, (method, params) in zip(self._posts, asked, strict=False):
            self._number += 1
            numbers.append(self._number)
            post.send(self._message(rpc(method, params, self._number)))
        for post in self._posts[: len(asked)]:
            self._accepted(post)
        return numbers

    def open(self, count: int) -> None:
        """Have so many connections for what is said."""
        while len(self._posts) < count:
            self._posts.append(Connection(self._site.address, self._limit))

    def notify(self, method: str) -> None:
        """Say something that is not answered."""
        self.open(1)
        self._posts[0].send(self._message(rpc(method, None)))
        self._accepted(self._posts[0])

    def close(self) -> None:
        """Leave."""
        for connection in (self._stream, *self._posts):
            connection.close()

    def _message(self, body: bytes) -> bytes:
        return request(self._site, "POST", self._path, body)

    def _accepted(self, post: Connection) -> None:
        head = post.head()
        body = post.body(head)
        if head.status != 202:
            raise LoadError(f"a message was not accepted: HTTP {head.status} {body[:200]!r}")


class HttpSession:
    """Over streamable HTTP: one connection, every answer on its own request."""

    def __init__(self, site: Site, limit: float = LIMIT) -> None:
        self._site = site
        self._connection = Connection(site.address, limit)
        self._number = 0
        self._fields = ""

    def request(self, method: str, params: Mapping[str, object]) -> Any:
        """Ask for something and wait for the result."""
        self._number += 1
        for message in self._post(rpc(method, params, self._number)):
            if isinstance(message, dict) and message.get("id") == self._number:
                return result_of(message)
        raise LoadError(f"{method} was not answered")

    def notify(self, method: str) -> None:
        """Say something that is not answered."""
        self._post(rpc(method, None))

    def close(self) -> None:
        """End the session, if the server has given it a number."""
        try:
            if self._fields:
                self._connection.send(request(self._site, "DELETE", "/mcp", more=self._fields))
                self._connection.body(self._connection.head())
        finally:
            self._connection.close()

    def _post(self, message: bytes) -> list[Any]:
        self._connection.send(request(self._site, "POST", "/mcp", message, self._fields))
        head = self._connection.head()
        if head.is_stream:
            messages = [parsed(data) for _, data in self._connection.events()]
        else:
            body = self._connection.body(head)
            if head.status not in (200, 202):
                raise LoadError(f"HTTP {head.status} {body[:200]!r}")
            messages = [parsed(body)] if body else []
        if session := head.fields.get("mcp-session-id"):
            self._fields = (
                f"Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: {_HELLO['protocolVersion']}\r\n"
            )
        return messages


def rpc(method: str, params: Mapping[str, object] | None, number: int | None = None) -> bytes:
    """A message; one without a number is not answered."""
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        message["id"] = number
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode()


def result_of(answer: Any) -> Any:
    """What came of a request.

    Raises:
        LoadError: an error.
    """
    if "result" not in answer:
        raise LoadError(f"an error instead of a result: {answer.get('error')!r:.200}")
    return answer["result"]


@contextmanager
def opened(site: Site, kind: Callable[[Site], SessionT]) -> Iterator[SessionT]:
    """A conversation that has begun, until it ends."""
    session = kind(site)
    try:
        greet(session)
        yield session
    finally:
        session.close()
