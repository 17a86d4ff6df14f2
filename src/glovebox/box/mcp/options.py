"""What can be set about MCP servers."""

from __future__ import annotations

from glovebox.protocol.base import Message


class McpOptions(Message):
    """Settings of the plugin."""

    #: A file with servers and profiles, as JSON or TOML.
    config: str = ""
    #: The profile of that file to begin with; empty for the one it names, or all of its servers.
    profile: str = ""
    #: How long a server may take until it has told its tools, in seconds. Lists of tools wait so long for it.
    start_limit: float = 20.0
    #: How often an idle server is asked whether it is there, in seconds.
    health_interval: float = 30.0
    #: The longest wait before a server that fails again and again is started anew, in seconds.
    longest_pause: float = 60.0
