"""The list of MCP stdio servers a client posts, checked by the contract's rules."""

from __future__ import annotations

import re
import shlex
from typing import Any

from glovebox.errors import RequestError
from glovebox.protocol.base import Message

NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
KEYS = frozenset({"name", "command", "args", "env"})


class StdioServer(Message):
    """An MCP server that is started as a program and spoken to over its standard streams."""

    name: str
    command: str
    args: list[str]
    env: dict[str, str]


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
