"""What a hub can be told, by flags and by the environment."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glovebox.errors import SettingsError
from glovebox.settings import Option, _from_flag, _parsed, _setting, host, parse_flag, parse_port

#: What the boxes that windows are can be told by the environment of the hub.
BOX_VARIABLES = ("NO_CHANGE_TIMEOUT_SECONDS", "GLOVEBOX_MAX_UPLOAD_SIZE", "INIT_PLUGIN_TIMEOUT")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def parse_duration(text: str) -> float:
    """A positive number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"{text!r} is not a positive number of seconds")
    return seconds


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Everything a hub can be told."""

    port: int = _setting(
        8790, flag="PORT", variable="GLOVEBOX_HUB_PORT", parse=parse_port, metavar="PORT",
        help="TCP port of the hub; 0 takes a free one.",
    )  # fmt: skip
    host: str = _setting(
        "127.0.0.1", flag="--host", variable="GLOVEBOX_HUB_HOST", metavar="ADDRESS",
        help="Address to listen on.",
    )  # fmt: skip
    key: str = _setting(
        "", flag="--key-file", variable="GLOVEBOX_HUB_KEY", metavar="FILE", secret=True,
        help="The key that windows and programs have to show. The variable holds the key, the flag names a"
        " file that holds it. Without either, one is made up and kept in the state directory.",
    )  # fmt: skip
    heartbeat: float = _setting(
        10.0, flag="--heartbeat", variable="GLOVEBOX_HUB_HEARTBEAT", parse=parse_duration, metavar="SECONDS",
        help="How often a window has to prove that it answers; without a sign for two and a half times as"
        " long, it is unresponsive.",
    )  # fmt: skip
    grace: float = _setting(
        30.0, flag="--grace", variable="GLOVEBOX_HUB_GRACE", parse=parse_duration, metavar="SECONDS",
        help="How long a window whose connection broke is waited for.",
    )  # fmt: skip
    state_dir: str = _setting(
        "", flag="--state-dir", variable="GLOVEBOX_HUB_STATE_DIR", metavar="DIR",
        help="Where the hub keeps its key, its address and the windows it knows. Default: glovebox/hub in"
        " XDG_STATE_HOME, where programs of this user look for it.",
    )  # fmt: skip
    log_level: str = _setting(
        "INFO", flag="--log-level", variable="LOG_LEVEL", metavar="LEVEL",
        help="DEBUG, INFO, WARNING or ERROR.",
    )  # fmt: skip
    log_json: bool = _setting(
        False, flag="--log-json", variable="LOG_JSON", parse=parse_flag,
        help="Log one JSON object per line.",
    )  # fmt: skip

    #: What the windows' boxes are told.
    box_environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


def options() -> list[Option]:
    """Every setting's spelling, in order."""
    return [
        Option(name=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(HubSettings)
        if field.metadata
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a command line all settings; what is not given stays out of the result."""
    for option in options():
        shown = "" if option.default == "" else f" Default: {option.default}."
        said: dict[str, Any] = {
            "default": argparse.SUPPRESS,
            "help": f"{option.help}{shown} [{option.variable}]",
        }
        if not option.flag.startswith("--"):
            parser.add_argument(option.name, nargs="?", metavar=option.metavar, **said)
        elif option.parse is parse_flag:
            parser.add_argument(option.flag, dest=option.name, action=argparse.BooleanOptionalAction, **said)
        else:
            parser.add_argument(option.flag, dest=option.name, metavar=option.metavar, **said)


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> HubSettings:
    """The settings that these flags and this environment amount to.

    Raises:
        SettingsError: a value cannot be used; the text says which and what to do.
    """
    flags = flags or {}
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    for option in options():
        if option.name in flags:
            values[option.name] = _from_flag(option, flags[option.name])
        elif environ.get(option.variable):
            values[option.name] = _parsed(option, option.variable, environ[option.variable])
    values["state_dir"] = os.path.abspath(values.get("state_dir") or host.load(environ).hub_file.parent)
    values["box_environment"] = {name: environ[name] for name in BOX_VARIABLES if name in environ}
    settings = HubSettings(**values)
    if settings.log_level.upper() not in LOG_LEVELS:
        raise SettingsError(f"log level {settings.log_level!r} is not DEBUG, INFO, WARNING or ERROR")
    if settings.key and not (
        settings.key.isascii() and settings.key.isprintable() and " " not in settings.key
    ):
        raise SettingsError(
            "The key of the hub has to be of ASCII letters, digits and signs, without blanks."
        )
    return settings
