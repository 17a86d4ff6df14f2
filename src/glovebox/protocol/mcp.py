"""MCP servers of a box, as its own endpoints tell of them. Nothing secret is among it."""

from __future__ import annotations

from typing import Literal

from glovebox.protocol.base import Message

#: `waiting`: it failed, and is started again after a pause.
McpState = Literal["starting", "ready", "waiting", "stopped"]


class McpServerInfo(Message):
    """An MCP server and how it is."""

    name: str
    transport: Literal["stdio", "sse", "http"]
    #: The program, or the address without what may be secret.
    target: str
    #: The names of the variables that it was given; their values are told to nobody.
    env: list[str]
    #: `posted` by a client, or of the configuration `file`.
    source: Literal["posted", "file"]
    state: McpState
    #: What it calls itself, once it is ready.
    server: str | None = None
    protocol_version: str | None = None
    #: Its process, if it is one.
    pid: int | None = None
    #: The names of its tools, as it has them.
    tools: list[str] = []
    #: Calls under way, and all that were made.
    running: int = 0
    calls: int = 0
    failures: int = 0
    #: How often it was started again.
    restarts: int = 0
    #: Seconds since 1970.
    since: float
    #: When it is started again, in seconds since 1970.
    retry: float | None = None
    #: Why it is not ready.
    error: str | None = None
    #: Milliseconds that it took to answer when it was last asked whether it is there.
    ping: float | None = None


class McpServers(Message):
    """All MCP servers of a box."""

    servers: list[McpServerInfo]
    #: The profile of the configuration file that is in use; empty for all of its servers.
    profile: str
    profiles: dict[str, list[str]]


class McpLog(Message):
    """The end of what a server printed besides messages, with secrets removed."""

    name: str
    text: str
