"""How settings are declared, and read from flags and the environment."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from glovebox.errors import SettingsError

TRUTHY = frozenset({"1", "true", "t", "yes", "y", "on"})
FALSY = frozenset({"0", "false", "f", "no", "n", "off", ""})
SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: Whether only this machine can reach some addresses that boxes mostly have.
_KNOWN_HOSTS = {"localhost": True, "127.0.0.1": True, "0.0.0.0": False}
#: A key that other machines can try has at least as many characters.
SHORTEST_KEY = 16
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Option(msgspec.Struct, frozen=True):
    """How one setting is spelled: its flag, its variable, and what it does."""

    name: str
    flag: str
    variable: str
    help: str
    default: Any
    parse: Any
    metavar: str | None
    many: bool
    secret: bool


def setting(
    default: Any,
    help: str,
    *,
    flag: str = "",
    variable: str = "",
    parse: Any = str,
    metavar: str | None = None,
    many: bool = False,
    secret: bool = False,
) -> Any:
    """A field of a class of settings. Flag and variable are named after it unless they are given."""
    parse = parse_flag if isinstance(default, bool) else parse
    metadata = {"flag": flag, "variable": variable, "help": help, "parse": parse}
    metadata |= {"metavar": metavar, "many": many, "secret": secret}
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


def parse_flag(text: str) -> bool:
    """Yes or no, in the spellings the contract knows."""
    if text.strip().lower() in TRUTHY:
        return True
    if text.strip().lower() in FALSY:
        return False
    raise ValueError(f"{text!r} is neither yes nor no; use true or false")


def parse_size(text: str) -> int:
    """A number of bytes, with an optional K, M, G or T."""
    number, unit = text.strip().lower().removesuffix("ib").removesuffix("b"), ""
    if number and number[-1] in SIZE_UNITS:
        number, unit = number[:-1], number[-1]
    if not number.isdigit():
        raise ValueError(f"{text!r} is not a size; write for example 500M or 10G")
    return int(number) * SIZE_UNITS[unit]


def parse_port(text: str) -> int:
    """A TCP port; 0 takes a free one."""
    if not text.isdigit() or int(text) > 65535:
        raise ValueError(f"{text!r} is not a port; use a number from 0 to 65535")
    return int(text)


def parse_seconds(text: str) -> int:
    """A positive whole number of seconds."""
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a positive whole number of seconds")
    return int(text)


def parse_columns(text: str) -> int:
    """The width of a terminal in characters."""
    if not text.isdigit() or not 1 <= int(text) <= 1_000:
        raise ValueError(f"{text!r} is not a number of columns from 1 to 1000")
    return int(text)


def parse_count(text: str) -> int:
    """The value of a setting that counts something, from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a positive whole number")
    return int(text)


def options_of(kind: type[Any], prefix: str = "GLOVEBOX_") -> list[Option]:
    """The spelling of every setting of a class, in order; `prefix` begins its variables."""
    return [
        Option(
            name=field.name,
            default=field.default,
            **{
                **field.metadata,
                "flag": field.metadata["flag"] or f"--{field.name.replace('_', '-')}",
                "variable": field.metadata["variable"] or prefix + field.name.upper(),
                "metavar": field.metadata["metavar"] or _METAVARS.get(field.metadata["parse"]),
            },
        )
        for field in dataclasses.fields(kind)
        if field.metadata
    ]


_METAVARS: dict[Any, str] = {parse_seconds: "SECONDS", parse_size: "SIZE", parse_port: "PORT"}


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Give a command line these settings; what is not given stays out of the result."""
    for option in options:
        shown = "" if option.default in ("", (), None) else f" (default: {option.default})"
        help_text = f"{option.help}{shown} [{option.variable}]".replace("%", "%%")
        common: dict[str, Any] = {"dest": option.name, "default": argparse.SUPPRESS, "help": help_text}
        if not option.flag.startswith("--"):
            parser.add_argument(option.name, nargs="?", metavar=option.metavar,
                                default=argparse.SUPPRESS, help=help_text)  # fmt: skip
            parser.add_argument(f"--{option.name}", metavar=option.metavar, dest=option.name,
                                default=argparse.SUPPRESS, help="The same as a flag.")  # fmt: skip
        elif option.parse is parse_flag:
            parser.add_argument(option.flag, action=argparse.BooleanOptionalAction, **common)
        elif option.many:
            parser.add_argument(option.flag, nargs="+", metavar=option.metavar, **common)
        else:
            parser.add_argument(option.flag, metavar=option.metavar, **common)


def given(options: Iterable[Option], flags: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The values that flags and environment have; a flag wins.

    Raises:
        SettingsError: a value cannot be used; the text says which and what to do.
    """
    values: dict[str, Any] = {}
    for option in options:
        if option.name in flags:
            values[option.name] = _from_flag(option, flags[option.name])
        elif environ.get(option.variable):
            values[option.name] = _parsed(option, option.variable, environ[option.variable])
    return values


def check_log_level(level: str) -> None:
    """That there is such a level.

    Raises:
        SettingsError: there is none.
    """
    if level.upper() not in LOG_LEVELS:
        raise SettingsError(f"log level {level!r} is not DEBUG, INFO, WARNING or ERROR")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host in _KNOWN_HOSTS:
        return _KNOWN_HOSTS[host]
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_key_length(key: str, host: str) -> None:
    """That a key cannot be found by trying, where other machines can try.

    Raises:
        SettingsError: it is too short.
    """
    if not is_loopback(host) and len(key) < SHORTEST_KEY:
        raise SettingsError(
            f"Other machines can try keys at {host}, and this one has fewer than {SHORTEST_KEY} characters. "
            "Take a long random one (for example: openssl rand -hex 32)."
        )


def _from_flag(option: Option, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if option.secret:
        return read_secret(option, value)
    if option.many:
        return tuple(value)
    return _parsed(option, option.flag, value)


def _parsed(option: Option, origin: str, text: str) -> Any:
    if option.many:
        return tuple(text.replace(",", " ").split())
    try:
        return option.parse(text)
    except ValueError as error:
        raise SettingsError(f"{origin}: {error}") from error


def read_secret(option: Option, path: str) -> str:
    """What a file holds that a flag names; with `-`, the first line of standard input.

    Raises:
        SettingsError: it cannot be read, or holds nothing.
    """
    try:
        if path == "-":
            secret = _first_line(0).decode().strip()
        else:
            with open(path, encoding="utf-8") as file:
                secret = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{option.flag}: cannot read {path}: {error}") from error
    if not secret:
        raise SettingsError(f"{option.flag}: {path} is empty")
    return secret


def _first_line(descriptor: int) -> bytes:
    """A line, byte by byte: what follows it stays to be read."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line
