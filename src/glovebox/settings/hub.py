"""The settings of a hub."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glovebox.errors import SettingsError
from glovebox.settings import host
from glovebox.settings.declaration import (
    Option,
    add_options,
    check_key_length,
    check_log_level,
    given,
    options_of,
    parse_port,
    setting,
)

#: Settings of a box that also apply to the hub and to windows as boxes; read from the hub's environment.
BOX_VARIABLES = (
    "NO_CHANGE_TIMEOUT_SECONDS",
    "GLOVEBOX_MAX_UPLOAD_SIZE",
    "INIT_PLUGIN_TIMEOUT",
    "GLOVEBOX_MAX_HEADER_SIZE",
    "GLOVEBOX_MAX_URL_SIZE",
    "GLOVEBOX_MAX_BODY_SIZE",
    "GLOVEBOX_REQUEST_HEAD_SECONDS",
    "GLOVEBOX_CONNECTIONS_PER_PEER",
)


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
    """All settings of a hub."""

    port: int = setting(8790, "TCP port of the hub; 0 takes a free one.", flag="PORT", parse=parse_port)
    host: str = setting("127.0.0.1", "Address to listen on.", metavar="ADDRESS")
    key: str = setting(
        "", flag="--key-file", metavar="FILE", secret=True,
        help="The key that windows and programs have to show. The variable holds the key, the flag names a"
        " file that holds it. Without either, one is made up and kept in the state directory.",
    )  # fmt: skip
    heartbeat: float = setting(
        10.0, parse=parse_duration, metavar="SECONDS",
        help="How often a window has to prove that it answers; without a sign for two and a half times as"
        " long, it is unresponsive.",
    )  # fmt: skip
    grace: float = setting(
        30.0,
        "How long a window whose connection broke is waited for.",
        parse=parse_duration,
        metavar="SECONDS",
    )
    reload: float = setting(
        120.0,
        "How long a window that said that it reloads is waited for.",
        parse=parse_duration,
        metavar="SECONDS",
    )
    state_dir: str = setting(
        "", metavar="DIR",
        help="Where the hub keeps its key, its address and the windows it knows. Default: glovebox/hub in"
        " XDG_STATE_HOME, where programs of this user look for it.",
    )  # fmt: skip
    log_level: str = setting("INFO", "DEBUG, INFO, WARNING or ERROR.", variable="LOG_LEVEL", metavar="LEVEL")
    log_json: bool = setting(False, "Log one JSON object per line.", variable="LOG_JSON")

    #: The environment of windows' boxes.
    box_environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


def options() -> list[Option]:
    """Every setting's spelling, in order."""
    return options_of(HubSettings, "GLOVEBOX_HUB_")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a command line all settings; what is not given stays out of the result."""
    add_options(parser, options())


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> HubSettings:
    """The settings that these flags and this environment amount to.

    Raises:
        SettingsError: a value cannot be used; the text says which and what to do.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251
    values = given(options(), flags or {}, environ)
    values["state_dir"] = os.path.abspath(values.get("state_dir") or host.load(environ).hub_file.parent)
    values["box_environment"] = {name: environ[name] for name in BOX_VARIABLES if name in environ}
    settings = HubSettings(**values)
    check_log_level(settings.log_level)
    if settings.key:
        check_key_length(settings.key, settings.host)
    if settings.key and not (
        settings.key.isascii() and settings.key.isprintable() and " " not in settings.key
    ):
        raise SettingsError(
            "The key of the hub has to be of ASCII letters, digits and signs, without blanks."
        )
    return settings
