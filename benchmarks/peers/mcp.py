"""An MCP client over raw sockets, the same for every server, and the MCP servers that are posted to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.connection import Connection, Site, exchange, parsed
from benchmarks.processes import Failed

TOOL = "echo"
_VERSION = "2025-06-18"
_CLIENT = {"capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
Message = Mapping[str, object]


class EventSession:
    """A session with an MCP server over server-sent events: one connection for answers, one for requests."""

    def __init__(self, site: Site, limit: float = 60.0) -> None:
        self.site, self.limit, self.number = site, limit, 0
        self._post: Connection | None = None
        self._stream = Connection(site.address, limit)
        try:
            self._events = self._stream.stream(site.head("GET", "/mcp/sse", more=_lines(site)))
            name, path = next(self._events, ("nothing", b""))
            if name != "endpoint":
                raise Failed(f"{name} {path[:200]!r} instead of where to post")
        except Failed:
            self.close()
            raise
        self._path = path.decode()

    def send(self, method: str, params: Message | None = None) -> int:
        """Send a request, or without parameters a notification; the number of the request."""
        self.number += 1
        message = {"jsonrpc": "2.0", "method": method}
        more = {} if params is None else {"params": params, "id": self.number}
        self._post = self._post or Connection(self.site.address, self.limit)
        raw = self.site.post(self._path, {**message, **more}, _lines(self.site))
        status, body = self._post.ask(raw)
        if status != 202:
            raise Failed(f"a message was not accepted: HTTP {status} {body[:200]!r}")
        return self.number

    def request(self, method: str, params: Message) -> Any:
        number = self.send(method, params)
        for _, data in self._events:
            answer = parsed(data)
            if isinstance(answer, dict) and answer.get("id") == number:
                if "result" not in answer:
                    raise Failed(f"an error instead of a result: {answer.get('error')!r:.200}")
                return answer["result"]
        raise Failed("the stream of events ended")

    def tool_names(self) -> list[str]:
        result = self.request("tools/list", {})
        try:
            return [str(tool["name"]) for tool in result["tools"]]
        except (KeyError, TypeError):
            raise Failed(f"no tools: {result!r:.200}") from None

    def call(self, tool: str, text: str) -> str:
        return result_text(self.request("tools/call", {"name": tool, "arguments": {"text": text}}))

    def close(self) -> None:
        self._stream.close()
        if self._post:
            self._post.close()


def _lines(site: Site) -> str:
    """Header lines with the key in the other way that MCP asks for."""
    return f"Authorization: Bearer {site.key}\r\nAccept: application/json, text/event-stream\r\n"


@contextmanager
def opened(session: EventSession) -> Iterator[EventSession]:
    """Initialize a session, and close it at the end."""
    try:
        session.request("initialize", {"protocolVersion": _VERSION, **_CLIENT})
        session.send("notifications/initialized")
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
    status, body = exchange(site.address, site.post("/update_mcp_server", entries, _lines(site)))
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
