"""Keeps what is secret out of what people are shown."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from glovebox.box.mcp.servers import RemoteServer, Server, StdioServer

#: Shorter values are too common to be replaced: the text would be unreadable, and little would be hidden.
_SHORTEST = 4
_HIDDEN = "***"


def target(server: Server) -> str:
    """The program or the address, without what may be secret: arguments, names and keys in addresses."""
    if isinstance(server, StdioServer):
        return server.command
    parts = urlsplit(server.url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))


def redacted(server: Server, text: str) -> str:
    """Text with the secrets of a server hidden."""
    for secret in _secrets(server):
        text = text.replace(secret, _HIDDEN)
    return text


def _secrets(server: Server) -> list[str]:
    if isinstance(server, RemoteServer):
        parts = urlsplit(server.url)
        found = [server.api_key or "", *server.headers.values(), parts.query, parts.password or ""]
        found += [value.partition(" ")[2] for value in server.headers.values()]  # Bearer ...
    else:
        found = list(server.env.values())
    return sorted({value for value in found if len(value) >= _SHORTEST}, key=len, reverse=True)
