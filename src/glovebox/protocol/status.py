"""What the endpoints of a box report of its browser, plugins and MCP servers; nothing in it is secret."""

from __future__ import annotations

from typing import Any, Literal

from glovebox.protocol.base import Message

BrowserState = Literal["stopped", "running", "busy"]


class PageInfo(Message):
    """An open page."""

    url: str
    title: str
    active: bool


class BrowserInfo(Message):
    """The browser: `stopped` until the first page is opened."""

    state: BrowserState
    #: Of Chromium.
    version: str = ""
    pid: int = 0
    pages: list[PageInfo] = []


class ScreencastFrame(Message):
    """How the active page looks: a JPEG as base64."""

    url: str
    width: int
    height: int
    image: str


#: `waiting` for its first use, or for its turn.
PluginState = Literal["waiting", "starting", "running", "failed", "stopped"]


class PluginInfo(Message):
    """A plugin that was loaded."""

    name: str
    state: PluginState
    #: False if it runs and says that it does not work as it should.
    healthy: bool = True
    #: Why it failed, what it was restarted for, or what is wrong with it.
    error: str | None = None
    #: How often it was started again after a crash.
    restarts: int = 0
    #: What its last start took.
    start_ms: float | None = None
    #: Plugins it needs.
    needs: list[str] = []
    #: What it says of itself.
    health: dict[str, Any] = {}


#: `waiting`: it failed, and is started again after a pause.
McpState = Literal["starting", "ready", "waiting", "stopped"]


class McpServerInfo(Message):
    """An MCP server and how it is."""

    name: str
    transport: Literal["stdio", "sse", "http"]
    #: The program, or the address without what may be secret.
    target: str
    #: The names of the variables that it was given; their values stay secret.
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
