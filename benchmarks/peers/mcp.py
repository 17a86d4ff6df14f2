"""MCP clients over raw sockets, the same for every server, and the MCP servers that are posted to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.connection import Connection, Site, exchange, parsed
from benchmarks.processes import Failed

TOOL = "echo"
_VERSION = "2025-06-18"
_CLIENT = {"capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
Message = Mapping[str, object]


class Session:
    """A client's session with an MCP server."""

    def __init__(self, site: Site, limit: float = 60.0) -> None:
        self.site, self.limit, self.number = site, limit, 0
        #: Header lines with the key in the other way that MCP asks for, and of the session.
        self.lines = f"Authorization: Bearer {site.key}\r\nAccept: application/json, text/event-stream\r\n"

    def exchange(self, messages: Sequence[Message]) -> list[Any]:
        """Send requests at once and wait for all answers: results or errors, in the same order."""
        raise NotImplementedError

    def notify(self, method: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def numbered(self, requests: Sequence[tuple[str, Message]]) -> list[dict[str, object]]:
        first, self.number = self.number + 1, self.number + len(requests)
        return [
            {"jsonrpc": "2.0", "method": method, "params": params, "id": first + place}
            for place, (method, params) in enumerate(requests)
        ]

    def request(self, method: str, params: Message) -> Any:
        answer = self.exchange(self.numbered([(method, params)]))[0]
        if "result" not in answer:
            raise Failed(f"an error instead of a result: {answer.get('error')!r:.200}")
        return answer["result"]

    def tool_names(self) -> list[str]:
        result = self.request("tools/list", {})
        try:
            return [str(tool["name"]) for tool in result["tools"]]
        except (KeyError, TypeError):
            raise Failed(f"no tools: {result!r:.200}") from None

    def call(self, tool: str, text: str) -> str:
        return result_text(self.request("tools/call", {"name": tool, "arguments": {"text": text}}))


class EventSession(Session):
    """Over server-sent events: one connection for answers, others for requests."""

    def __init__(self, site: Site, limit: float = 60.0) -> None:
        super().__init__(site, limit)
        self._posts: list[Connection] = []
        self._stream = Connection(site.address, limit)
        try:
            self._events = self._stream.stream(site.head("GET", "/mcp/sse", more=self.lines))
            name, path = next(self._events, ("nothing", b""))
            if name != "endpoint":
                raise Failed(f"{name} {path[:200]!r} instead of where to post")
        except Failed:
            self.close()
            raise
        self._path = path.decode()

    def connect(self, count: int) -> None:
        while len(self._posts) < count:
            self._posts.append(Connection(self.site.address, self.limit))

    def send(self, messages: Sequence[Message]) -> None:
        self.connect(len(messages))
        for post, message in zip(self._posts, messages, strict=False):
            post.send(self.site.post(self._path, message, self.lines))
        for post in self._posts[: len(messages)]:
            head = post.head()
            body = post.body(head)
            if head.status != 202:
                raise Failed(f"a message was not accepted: HTTP {head.status} {body[:200]!r}")

    def exchange(self, messages: Sequence[Message]) -> list[Any]:
        self.send(messages)
        numbers = [message["id"] for message in messages]
        answers: dict[object, Any] = {}
        while len(answers) < len(numbers):
            name, data = next(self._events, ("", b""))
            if not name:
                raise Failed("the stream of events ended")
            answer = parsed(data)
            if isinstance(answer, dict) and answer.get("id") in numbers:
                answers[answer["id"]] = answer
        return [answers[number] for number in numbers]

    def notify(self, method: str) -> None:
        self.send([{"jsonrpc": "2.0", "method": method}])

    def close(self) -> None:
        for connection in (self._stream, *self._posts):
            connection.close()


class HttpSession(Session):
    """Over streamable HTTP: one connection, every answer on its own request."""

    def __init__(self, site: Site, limit: float = 60.0) -> None:
        super().__init__(site, limit)
        self._connection = Connection(site.address, limit)
        self._has_id = False

    def exchange(self, messages: Sequence[Message]) -> list[Any]:
        return [self._post(message)[0] for message in messages]

    def notify(self, method: str) -> None:
        self._post({"jsonrpc": "2.0", "method": method})

    def close(self) -> None:
        """End the session, if the server has given it an id."""
        try:
            if self._has_id:
                self._connection.send(self.site.head("DELETE", "/mcp", more=self.lines))
                self._connection.body(self._connection.head())
        finally:
            self._connection.close()

    def _post(self, message: Message) -> list[Any]:
        self._connection.send(self.site.post("/mcp", message, self.lines))
        head = self._connection.head()
        if head.is_stream:
            bodies = [data for _, data in self._connection.events()]
        else:
            bodies = [body] if (body := self._connection.body(head)) else []
            if head.status not in (200, 202):
                raise Failed(f"HTTP {head.status} {body[:200]!r}")
        if (session := head.fields.get("mcp-session-id")) and not self._has_id:
            self._has_id = True
            self.lines += f"Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: {_VERSION}\r\n"
        found = [answer for answer in map(parsed, bodies) if answer.get("id") == message.get("id")]
        if "id" in message and not found:
            raise Failed(f"{message['method']} was not answered")
        return found


SessionT = TypeVar("SessionT", bound=Session)


@contextmanager
def opened(session: SessionT) -> Iterator[SessionT]:
    """Initialize a session, and close it at the end."""
    try:
        session.request("initialize", {"protocolVersion": _VERSION, **_CLIENT})
        session.notify("notifications/initialized")
        yield session
    finally:
        session.close()


def result_text(result: Any) -> str:
    """The text of the result of a call; of anything else, all of it."""
    match result:
        case {"content": [{"type": "text", "text": str(text)}]} if not result.get("isError"):
            return text
    return json.dumps(result)


def public_name(server: str, servers: Mapping[str, str]) -> str:
    """The name of the tool of an MCP server; alone in a list, its tool keeps its name."""
    return TOOL if len(servers) == 1 else f"{server}_{TOOL}"


def post_servers(site: Site, servers: Mapping[str, str]) -> None:
    """Post a list of MCP servers over standard streams, by name and by what they do (see `mcp_stdio`)."""
    program = str(Path(__file__).with_name("mcp_stdio.py"))
    entries = [
        {"name": name, "command": sys.executable, "args": ["-I", "-S", program, kind], "env": {}}
        for name, kind in servers.items()
    ]
    status, body = exchange(site.address, site.post("/update_mcp_server", entries, Session(site).lines))
    if status != 200:
        raise Failed(f"a list of MCP servers was not taken: HTTP {status} {body[:200]!r}")


def time_to_tools(site: Site, servers: Mapping[str, str]) -> float:
    """Post a list, connect and list the tools: the seconds until exactly those of the list are there."""
    expected = sorted(public_name(name, servers) for name in servers)
    began = perf_counter()
    post_servers(site, servers)
    with opened(EventSession(site)) as session:
        names = sorted(session.tool_names())
    took = perf_counter() - began
    if names != expected:
        raise Failed(f"tools/list: {', '.join(names) or 'none'} instead of {', '.join(expected)}")
    return took
