"""The configuration file: servers by name, and profiles, which are named sets of them.

{"mcpServers": {"fetch": {...}, "docs": {...}, "db": {...}},
 "profiles": {"research": ["fetch", "docs"], "data": ["db"]},
 "profile": "research"}
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from glovebox.box.mcp.servers import Server, parse_named
from glovebox.errors import BadMcpConfig, NoSuchMcpProfile, RequestError
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.state_files import read_document, write_document

KEYS = ("mcpServers", "profiles", "profile")


class McpConfig(Message):
    """Servers and named sets of them."""

    servers: dict[str, Server] = {}
    profiles: dict[str, list[str]] = {}
    #: The profile to begin with; empty for all servers.
    profile: str = ""

    def chosen(self, profile: str) -> list[Server]:
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


def load(path: str) -> McpConfig:
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


def parse(given: Any) -> McpConfig:
    """The configuration in such an object.

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
    return McpConfig(servers=servers, profiles=profiles, profile=begin)


log = logging.getLogger(__name__)


def write(path: str, servers: Sequence[Server]) -> None:
    """Remember servers. Blocks."""
    try:
        write_document(path, msgspec.json.encode({server.name: server for server in servers}))
    except OSError as error:
        log.warning("the list of MCP servers could not be written: %s", error)


def read(path: str) -> list[Server]:
    """The servers that were remembered, if any. Blocks."""
    return read_document(path, os.path.dirname(path), _decode) or []


def _decode(data: bytes) -> list[Server]:
    try:
        return parse_named(decode_json(data))
    except RequestError as error:
        raise ValueError(str(error)) from error
