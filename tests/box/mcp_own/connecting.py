"""Clients of a real `glovebox mcp` process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

LIMIT = 60


class Heard:
    """The progress that a client is told of."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.numbers: list[float] = []
        self._news = threading.Condition()

    @property
    def text(self) -> str:
        return "".join(self.messages)

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        with self._news:
            self.numbers.append(progress)
            self.messages.append(message or "")
            self._news.notify_all()

    def wait_for(self, text: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self.text, LIMIT), self.text


class Connected:
    """A client of the SDK in a loop of its own, used from any thread."""

    def __init__(self, portal: BlockingPortal, client: Client, workspace: Path) -> None:
        self.portal = portal
        self.client = client
        self.workspace = workspace

    def do(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self.portal.start_task_soon(lambda: function(*arguments, **named)).result(LIMIT)

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        result: CallToolResult = self.do(self.client.call_tool, tool, arguments)
        return result

    def text(self, tool: str, **arguments: Any) -> str:
        result = self.call(tool, **arguments)
        assert not result.is_error, result
        return text_of(result)

    def begin(self, tool: str, heard: Heard, **arguments: Any) -> Future[CallToolResult]:
        """A call that goes on by itself; cancelling it tells the server."""

        async def calling() -> CallToolResult:
            return await self.client.call_tool(tool, arguments, progress_callback=heard)

        return self.portal.start_task_soon(calling)


def text_of(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


def environment(workspace: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "SESSION_API_KEY"}
    return kept | {"HOME": str(workspace.parent)}


def command(workspace: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "glovebox", "mcp", "--working-dir", str(workspace), *flags]


@contextlib.contextmanager
def connected(workspace: Path, mode: str, *flags: str, **options: Any) -> Iterator[Connected]:
    program, *arguments = command(workspace, *flags)
    server = StdioServerParameters(command=program, args=arguments, env=environment(workspace))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server, mode=mode, **options)) as client,
    ):
        yield Connected(portal, client, workspace)


class Raw:
    """A server process, and messages as lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._id = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def tell(self, method: str, **params: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request, when nothing else is said."""
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.send(json.dumps(request).encode())
        answer = self.receive()
        assert answer.get("id") == self._id, answer
        return answer

    def greet(self) -> dict[str, Any]:
        information = {"name": "a test", "version": "1"}
        answer = self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=information)
        self.tell("notifications/initialized")
        return answer


@contextlib.contextmanager
def raw(workspace: Path, *flags: str) -> Iterator[Raw]:
    process = subprocess.Popen(
        command(workspace, *flags),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(workspace),
    )
    try:
        with process:
            yield Raw(process)
            if process.stdin is not None:
                process.stdin.close()
            process.wait(LIMIT)
    finally:
        if process.poll() is None:
            process.kill()
