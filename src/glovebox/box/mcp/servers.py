"""MCP servers as they are named to a box, checked by the contract's rules.

The contract posts a list of programs. A configuration names programs and addresses in the form that desktop
clients have made common: `{"mcpServers": {"fetch": {"command": "uvx", "args": ["mcp-server-fetch"]}}}`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from glovebox.errors import RequestError
from glovebox.protocol.base import Message

NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
KEYS = frozenset({"name", "command", "args", "env"})
REMOTE_KEYS = frozenset({"name", "url", "type", "transport", "api_key", "headers", "timeout"})
SCHEMES = ("http", "https", "ws", "wss")
#: How others call the two ways to speak to an address.
TRANSPORTS: dict[str, Literal["sse", "http"]] = {
    "sse": "sse",
    "http": "http",
    "shttp": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
}
LONGEST_TIMEOUT = 3600


class StdioServer(Message):
    """An MCP server that is started as a program and spoken to over its standard streams."""

    name: str
    command: str
    args: list[str]
    env: dict[str, str]


class RemoteServer(Message):
    """An MCP server at an address."""

    name: str
    url: str
    transport: Literal["sse", "http"]
    api_key: str | None = None
    headers: dict[str, str] = {}
    #: Seconds that a call may take.
    timeout: float | None = 60


Server = StdioServer | RemoteServer


def parse_named(given: Any) -> list[Server]:
    """The servers of an object that names each.

    Raises:
        RequestError: an entry breaks a rule; the text says which.
    """
    if not isinstance(given, dict):
        raise RequestError("mcpServers must be an object of servers by name")
    servers: list[Server] = []
    for name, entry in given.items():
        if not isinstance(entry, dict):
            raise RequestError(f"{name}: an MCP server must be an object, not {type(entry).__name__}")
        try:
            servers.append(_remote(name, entry) if "url" in entry else _named(name, entry))
        except RequestError as error:
            raise RequestError(f"{name}: {error}") from error
    return servers


def parse_servers(posted: list[Any]) -> list[StdioServer]:
    """The servers of a posted list.

    Raises:
        RequestError: an entry breaks a rule; the text says which.
    """
    return [_parse(entry) for entry in posted]


def _parse(entry: Any) -> StdioServer:
    if not isinstance(entry, dict):
        raise RequestError(f"An MCP server must be an object, not {type(entry).__name__}")
    if unknown := set(entry) - KEYS:
        raise RequestError(f"An MCP server has no {', '.join(sorted(map(str, unknown)))}")
    return StdioServer(
        name=_name(entry.get("name")),
        command=_command(entry.get("command")),
        args=_args(entry.get("args", [])),
        env=_env(entry.get("env", {})),
    )


def _named(name: Any, entry: Mapping[str, Any]) -> StdioServer:
    others = {key: value for key, value in entry.items() if key != "type"}
    if entry.get("type", "stdio") != "stdio":
        raise RequestError("a server that is not of type stdio needs a url")
    return _parse({**others, "name": name})


def _remote(name: Any, entry: Mapping[str, Any]) -> RemoteServer:
    if unknown := set(entry) - REMOTE_KEYS:
        raise RequestError(f"An MCP server at an address has no {', '.join(sorted(map(str, unknown)))}")
    url = _url(entry["url"])
    likely = "sse" if urlsplit(url).path.rstrip("/").endswith("/sse") else "http"
    kind = entry.get("transport", entry.get("type", likely))
    if not isinstance(kind, str) or kind not in TRANSPORTS:
        raise RequestError(f"type must be one of {', '.join(TRANSPORTS)}")
    key = entry.get("api_key")
    if not (key is None or isinstance(key, str)):
        raise RequestError("api_key must be a string")
    headers = entry.get("headers", {})
    if not (isinstance(headers, dict) and all(isinstance(value, str) for value in headers.values())):
        raise RequestError("headers must be an object of strings")
    return RemoteServer(
        name=_name(name), url=url, transport=TRANSPORTS[kind], api_key=key, headers=headers,
        timeout=_timeout(entry.get("timeout", 60)),
    )  # fmt: skip


def _url(value: Any) -> str:
    url = _text(value, "URL")
    try:
        parts: SplitResult = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise RequestError(f"Invalid URL format: {error}") from error
    if not parts.scheme:
        raise RequestError("URL must include a scheme (http:// or https://)")
    if not host:
        raise RequestError("URL must include a valid domain/host")
    if parts.scheme not in SCHEMES:
        raise RequestError("URL scheme must be http, https, ws, or wss")
    return url


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError("Timeout must be a number of seconds")
    if not value > 0:
        raise RequestError("Timeout must be positive")
    if value > LONGEST_TIMEOUT:
        raise RequestError(f"Timeout cannot exceed {LONGEST_TIMEOUT} seconds")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{what} must be a string")
    text = value.strip()
    if not text:
        raise RequestError(f"{what} cannot be empty")
    return text


def _name(value: Any) -> str:
    name = _text(value, "Server name")
    if not NAME.match(name):
        raise RequestError("Server name can only contain letters, numbers, hyphens, and underscores")
    return name


def _command(value: Any) -> str:
    command = _text(value, "Command")
    if " " in command:
        raise RequestError(
            "Command should be a single executable without spaces (use arguments field for parameters)"
        )
    return command


def _args(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise RequestError(
                f"Invalid argument format: {error}. Use shell-like format, "
                'e.g., "arg1 arg2" or \'--config "value with spaces"\''
            ) from error
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise RequestError("Arguments must be a list of strings or one string")


def _env(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return dict(_variable(pair) for part in value.split(",") if (pair := part.strip()))
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return value
    raise RequestError("Environment must be an object of strings or KEY=VALUE text")


def _variable(pair: str) -> tuple[str, str]:
    key, found, text = pair.partition("=")
    key = key.strip()
    if not found:
        raise RequestError(f"Environment variable '{pair}' must be in KEY=VALUE format")
    if not key:
        raise RequestError("Environment variable key cannot be empty")
    if not VARIABLE.match(key):
        raise RequestError(
            f"Invalid environment variable name '{key}'. Must start with letter or underscore, "
            "contain only alphanumeric characters and underscores"
        )
    return key, text


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
