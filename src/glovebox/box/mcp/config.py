"""MCP servers as clients and configuration files name them, checked by the contract's rules.

The contract posts a list of programs. A configuration file names programs and addresses, in the form that
desktop clients have made common, and profiles, which are named sets of them:

{"mcpServers": {"fetch": {"command": "uvx", "args": ["mcp-server-fetch"]}, "docs": {...}, "db": {...}},
 "profiles": {"research": ["fetch", "docs"], "data": ["db"]},
 "profile": "research"}
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from glovebox.errors import BadMcpConfig, NoSuchMcpProfile, RequestError
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.state_files import read_document, write_document

log = logging.getLogger(__name__)

NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
PROGRAM_KEYS = frozenset({"name", "command", "args", "env"})
REMOTE_KEYS = frozenset({"name", "url", "type", "transport", "api_key", "headers", "timeout"})
SCHEMES = ("http", "https", "ws", "wss")
#: Names that other clients have for the two transports.
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
    """An MCP server that is started as a program and used over its standard streams."""

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
    """The servers of an object, by name.

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
    if unknown := set(entry) - PROGRAM_KEYS:
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


#: Shorter values are too common to be replaced.
_SHORTEST = 4
_HIDDEN = "***"


def target(server: Server) -> str:
    """The program or the address, without possible secrets: arguments, and names and keys in addresses."""
    if isinstance(server, StdioServer):
        return server.command
    parts = urlsplit(server.url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))


def redact(server: Server, text: str) -> str:
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


class McpOptions(Message):
    """Settings of the plugin."""

    #: A file with servers and profiles, as JSON or TOML.
    config: str = ""
    #: The profile of that file to begin with; empty for the one it names, or all of its servers.
    profile: str = ""
    #: How long a server may take to start and list its tools, in seconds. Lists of tools wait so long for it.
    start_limit: float = 20.0
    #: How often an idle server is pinged, in seconds.
    health_interval: float = 30.0
    #: The longest pause before a failed server is restarted, in seconds.
    longest_pause: float = 60.0


KEYS = ("mcpServers", "profiles", "profile")


class ConfigFile(Message):
    """Servers and named sets of them."""

    servers: dict[str, Server] = {}
    profiles: dict[str, list[str]] = {}
    #: The profile to begin with; empty for all servers.
    profile: str = ""

    def select(self, profile: str) -> list[Server]:
        """The servers of a profile; of no profile, all.

        Raises:
            NoSuchMcpProfile: there is no such profile.
        """
        if not profile:
            return list(self.servers.values())
        if profile not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise NoSuchMcpProfile(f"There is no profile {profile!r}. Profiles: {known}.")
        return [self.servers[name] for name in self.profiles[profile]]


def load(path: str) -> ConfigFile:
    """The configuration in a file; one that ends with `.toml` is TOML. Blocks.

    Raises:
        BadMcpConfig: it cannot be read, or breaks a rule.
    """
    toml = path.endswith(".toml")
    try:
        with open(path, "rb") as file:
            given = (msgspec.toml if toml else msgspec.json).decode(file.read())
    except OSError as error:
        raise BadMcpConfig(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BadMcpConfig(f"{path} is not {'TOML' if toml else 'JSON'}: {error}") from error
    try:
        return parse(given)
    except BadMcpConfig as error:
        raise BadMcpConfig(f"{path}: {error}") from error


def parse(given: Any) -> ConfigFile:
    """The configuration in an object.

    Raises:
        BadMcpConfig: it breaks a rule.
    """
    if not isinstance(given, dict):
        raise BadMcpConfig("the configuration must be an object with mcpServers")
    if unknown := set(given) - set(KEYS):
        raise BadMcpConfig(f"unknown: {', '.join(sorted(unknown))}. Known are {', '.join(KEYS)}")
    try:
        servers = {server.name: server for server in parse_named(given.get("mcpServers", {}))}
    except RequestError as error:
        raise BadMcpConfig(str(error)) from error
    profiles = given.get("profiles", {})
    if not isinstance(profiles, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in profiles.values()
    ):
        raise BadMcpConfig("profiles must be an object of lists of names")
    for profile, names in profiles.items():
        if missing := [name for name in names if name not in servers]:
            raise BadMcpConfig(f"profile {profile!r} names servers that are not there: {', '.join(missing)}")
    begin = given.get("profile", "")
    if begin and begin not in profiles:
        raise BadMcpConfig(f"profile: there is no profile {begin!r}")
    return ConfigFile(servers=servers, profiles=profiles, profile=begin)


def write(path: str, servers: Sequence[Server]) -> None:
    """Save posted servers for the next server of the box. Blocks."""
    try:
        write_document(path, msgspec.json.encode({server.name: server for server in servers}))
    except OSError as error:
        log.warning("the list of MCP servers could not be written: %s", error)


def read(path: str) -> list[Server]:
    """The saved servers, if any. Blocks."""
    return read_document(path, os.path.dirname(path), _decode) or []


def _decode(data: bytes) -> list[Server]:
    try:
        return parse_named(decode_json(data))
    except RequestError as error:
        raise ValueError(str(error)) from error
