"""The one reader of flags and environment. Every setting is declared here, once.

A field carries its flag, its variable and its sentence; the command line, the documentation and
the check that both agree are made from it. A flag wins over a variable, a variable over the default.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pwd
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from glovebox.errors import SettingsError
from glovebox.json_codec import convert
from glovebox.secret_environment import PLUGIN_PREFIX, is_secret
from glovebox.settings.declaration import (
    Option,
    add_options,
    check_key_length,
    check_log_level,
    given,
    is_loopback,
    options_of,
    parse_columns,
    parse_count,
    parse_port,
    parse_seconds,
    parse_size,
    read_secret,
    setting,
)

MessageT = TypeVar("MessageT", bound=msgspec.Struct)

#: Stands for a port that is not served.
NO_PORT = -1


def parse_vscode_port(text: str) -> int:
    """A TCP port, 0 for a free one; anything but a number is `NO_PORT`, as the contract has it."""
    return parse_port(text) if text.isdigit() else NO_PORT


def parse_terminal(text: str) -> str:
    """The kind of terminal that holds the shells: `pty` or `tmux`."""
    if text not in ("pty", "tmux"):
        raise ValueError(f"{text!r} is neither pty nor tmux")
    return text


def current_user() -> str:
    """The name of the user this process runs as, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a number without an account, as containers may have
        return str(os.geteuid())


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a box."""

    port: int = setting(8000, "TCP port of the API; 0 takes a free one.", flag="PORT", parse=parse_port)
    host: str = setting("127.0.0.1", "Address to listen on. Anything but loopback needs SESSION_API_KEY.")
    insecure: bool = setting(False, "Serve without a key although others can reach the address.")
    session_api_key: str = setting(
        "", flag="--session-api-key-file", variable="SESSION_API_KEY", metavar="FILE", secret=True,
        help="The key every request has to show. The variable holds the key, the flag names a file that"
        " holds it (a key on a command line could be read by others), or is - for a line of standard input.",
    )  # fmt: skip
    working_dir: str = setting(
        ".", metavar="DIR",
        help="The workspace: where the shell starts and relative listings begin. Made if missing.",
    )  # fmt: skip
    plugins: tuple[str, ...] = setting(
        (), metavar="NAME", many=True,
        help="Plugins to load: jupyter, agent_skills, vscode, or the name of one that was installed.",
    )  # fmt: skip
    plugin_options: tuple[str, ...] = setting(
        (), metavar="PLUGIN.NAME=VALUE", many=True,
        help="Settings of plugins, for example jupyter.kernel=python3. Each is also a variable, as"
        " GLOVEBOX_PLUGIN_JUPYTER_KERNEL.",
    )  # fmt: skip
    init_plugin_timeout: int = setting(
        120, variable="INIT_PLUGIN_TIMEOUT", parse=parse_seconds,
        help="How long a plugin may take to start before it counts as failed; the box serves without it.",
    )  # fmt: skip
    runtime_memory_monitor: bool = setting(
        False, variable="RUNTIME_MEMORY_MONITOR",
        help="Log how much memory the box and all it started use, ten times a second for at most an hour.",
    )  # fmt: skip
    username: str = setting(
        "", metavar="NAME",
        help="User that owns the shell, created if missing (as root). Default: the current user, untouched.",
    )  # fmt: skip
    user_id: int = setting(
        1000, "Numeric id for that user when it has to be created.", parse=int, metavar="UID"
    )
    sudo: bool = setting(
        False, "Let that user become root with sudo, without a password. In a container only."
    )
    su_to_user: bool = setting(
        True, "Run the shell as that user; off runs it as the user of the server.", variable="SU_TO_USER"
    )
    sandbox_group_id: str = setting(
        "root", variable="SANDBOX_GROUP_ID", metavar="GROUP",
        help="Group, by name or number, that the workspace is given to.",
    )  # fmt: skip
    enable_browser: bool = setting(True, "Offer the browser actions.")
    chromium: str = setting(
        "", metavar="FILE",
        help="The Chromium or Chrome that the browser actions use. Default: the system's, then Playwright's.",
    )  # fmt: skip
    browsergym_eval_env: str = setting(
        "", "BrowserGym task for evaluations; needs the browser.", metavar="TASK"
    )
    vscode: str = setting(
        "", metavar="PATH",
        help="The VS Code server of the plugin vscode: a directory with openvscode-server or code-server,"
        " or a program of these. Default: what `glovebox vscode install` installed, then those of the"
        " system.",
    )  # fmt: skip
    vscode_port: int = setting(
        0, variable="VSCODE_PORT", parse=parse_vscode_port, metavar="PORT",
        help="TCP port of VS Code, at the address of the API; 0 takes a free one, and `off` serves none.",
    )  # fmt: skip
    vscode_base_path: str = setting(
        "", variable="OPENVSCODE_SERVER_BASE_PATH", metavar="PATH",
        help="The path below which VS Code is served, for a proxy that hands paths on as they are.",
    )  # fmt: skip
    runtime_url: str = setting(
        "", variable="RUNTIME_URL", metavar="URL",
        help="Where a proxy serves this box. If its path begins with the runtime id, VS Code is served"
        " below /ID/vscode.",
    )  # fmt: skip
    runtime_id: str = setting("", "What the proxy calls this box.", variable="RUNTIME_ID", metavar="ID")
    workspace_base: str = setting(
        "", variable="WORKSPACE_BASE", metavar="DIR",
        help="The directory that gets settings of VS Code (.vscode/settings.json) when it is first opened"
        " and has none. Default: the workspace.",
    )  # fmt: skip
    no_change_timeout_seconds: int = setting(
        10, variable="NO_CHANGE_TIMEOUT_SECONDS", parse=parse_seconds,
        help="Answer when a command has printed nothing for this long; the command goes on.",
    )  # fmt: skip
    terminal: str = setting(
        "pty", parse=parse_terminal, metavar="KIND",
        help="What holds the shells: pty, or tmux, so that people can use tmux attach.",
    )  # fmt: skip
    terminal_columns: int = setting(
        120, parse=parse_columns,
        help="How wide the terminal of a command is; that of the contract's run is 1000 wide.",
    )  # fmt: skip
    state_dir: str = setting(
        "", metavar="DIR",
        help="Keep shells, their output and answers here, so that they outlive a server that is killed:"
        " start it again with the same directory. Without one, shells end with the server.",
    )  # fmt: skip
    keep_sessions: bool = setting(
        False,
        help="Leave the shells running when the server is stopped, for the next one with the same"
        " --state-dir.",
    )  # fmt: skip
    orphan_seconds: int = setting(
        86_400, "How long shells wait for another server before they are ended.", parse=parse_seconds
    )
    terminal_log_size: int = setting(
        1 << 30, parse=parse_size,
        help="How much raw output is kept on disk for each session, for example 100M; the oldest goes first.",
    )  # fmt: skip
    process_log_size: int = setting(
        1 << 30, parse=parse_size,
        help="How much of each stream of a process is kept on disk, for example 100M; the oldest goes first.",
    )  # fmt: skip
    process_history: int = setting(
        1_000, parse=parse_count, metavar="NUMBER",
        help="How many processes are remembered after their end, with their output.",
    )  # fmt: skip
    process_history_size: int = setting(
        4 << 30, parse=parse_size,
        help="How much output of processes that have ended is kept in all; the first that ended goes first.",
    )  # fmt: skip
    max_upload_size: int = setting(
        16 << 30, parse=parse_size,
        help="Largest upload taken, for example 500M; an archive may unpack to as much.",
    )  # fmt: skip
    max_read_size: int = setting(
        32 << 20, parse=parse_size,
        help="Largest part of a file that one read answers with, for example 100M; the file may be larger.",
    )  # fmt: skip
    max_body_size: int = setting(
        64 << 20, "Largest body of a request that is no upload, for example 64M.", parse=parse_size
    )
    max_header_size: int = setting(64 << 10, "Largest headers of a request, all together.", parse=parse_size)
    max_url_size: int = setting(16 << 10, "Longest address of a request.", parse=parse_size)
    request_head_seconds: int = setting(
        10, parse=parse_seconds,
        help="How long a caller may take until the address and the headers of a request are there.",
    )  # fmt: skip
    connections_per_peer: int = setting(
        256, parse=parse_count, metavar="NUMBER",
        help="How many connections one address may have on which no request was let in. When there are"
        " more, the oldest are closed.",
    )  # fmt: skip
    allowed_hosts: tuple[str, ...] = setting(
        (), metavar="NAME", many=True,
        help="More host names this box is called by when it has no key, for example box.example.org or"
        " *.example.org. Loopback, IP addresses and container names are always allowed.",
    )  # fmt: skip
    cors_origins: tuple[str, ...] = setting(
        (), metavar="ORIGIN", many=True,
        help="Origins of web pages that may call this box, for example https://app.example.org.",
    )  # fmt: skip
    viewer_url_file: str = setting(
        "/tmp/oh-server-url", metavar="FILE",  # noqa: S108
        help="Where the address of the file viewer is written for programs in the box, readable by their"
        " user alone. If another box on this machine has it, the file is viewer-url in the state"
        " directory, or a private one that the log names.",
    )  # fmt: skip
    log_level: str = setting("INFO", "DEBUG, INFO, WARNING or ERROR.", variable="LOG_LEVEL", metavar="LEVEL")
    log_json: bool = setting(False, "Log one JSON object per line.", variable="LOG_JSON")

    #: What commands inherit: the environment of the server without its secrets.
    command_environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    #: The variables of plugins, without their prefix.
    plugin_variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    #: The standard variables of OpenTelemetry, `OTEL_*`.
    telemetry_variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.host)

    @property
    def account(self) -> str:
        return self.username or current_user()


def options() -> list[Option]:
    """Every setting's spelling, in order."""
    return options_of(Settings)


def add_arguments(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Give a command line all settings but some; what is not given stays out of the result."""
    add_options(parser, [option for option in options() if option.name not in without])


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings that these flags and this environment amount to.

    Raises:
        SettingsError: a value cannot be used; the text says which and what to do.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251
    values = given(options(), flags or {}, environ)
    values["command_environment"] = {name: value for name, value in environ.items() if not is_secret(name)}
    values["plugin_variables"] = {
        name.removeprefix(PLUGIN_PREFIX): value
        for name, value in environ.items()
        if name.startswith(PLUGIN_PREFIX) and name != "GLOVEBOX_PLUGIN_OPTIONS"
    }
    values["telemetry_variables"] = {
        name: value for name, value in environ.items() if name.startswith("OTEL_")
    }
    settings = Settings(**values)
    _check(settings)
    return dataclasses.replace(settings, working_dir=os.path.abspath(settings.working_dir))


def as_flags(settings: Settings, without: Collection[str] = ()) -> list[str]:
    """The flags of all settings but some that are not as they are by default."""
    flags: list[str] = []
    for option in options():
        value = getattr(settings, option.name)
        if option.name in without or value == option.default:
            continue
        if isinstance(value, bool):
            flags.append(option.flag if value else option.flag.replace("--", "--no-", 1))
        elif option.many:
            flags += [option.flag, *value]
        else:
            flags += [option.flag, "off" if value == NO_PORT else str(value)]
    return flags


def plugin_options(settings: Settings, plugin: str, kind: type[MessageT]) -> MessageT:
    """The settings of one plugin: `--plugin-options` wins over variables, these over the defaults.

    Raises:
        SettingsError: one of them is unknown or has a value that cannot be used.
    """
    names = kind.__struct_fields__
    chosen: dict[str, str] = {}
    for name in names:
        variable = f"{plugin}_{name}".upper()
        if variable in settings.plugin_variables:
            chosen[name] = settings.plugin_variables[variable]
    for option in settings.plugin_options:
        owner, dot, rest = option.partition(".")
        name, equals, value = rest.partition("=")
        if not (dot and equals):
            raise SettingsError(f"--plugin-options: {option!r} is not of the form PLUGIN.NAME=VALUE")
        if owner != plugin:
            continue
        if name not in names:
            known = ", ".join(names) or "none"
            raise SettingsError(f"--plugin-options: plugin {plugin} has no setting {name!r}; it has: {known}")
        chosen[name] = value
    try:
        return convert(chosen, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"The settings of plugin {plugin} cannot be used: {error}") from error


def kernel_packages() -> str:
    """The virtual environment whose packages kernels begin with, if it lies beside that of this process."""
    beside = f"{sys.prefix}-kernel"
    return beside if os.path.isdir(beside) else ""


def client(
    url: str | None, key_file: str | None, environ: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """The address and the key with which a box is called; the key is empty if there is none.

    Raises:
        SettingsError: the file of the key cannot be read.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251
    address = url or environ.get("GLOVEBOX_URL") or "http://127.0.0.1:8000"
    secret = next(option for option in options() if option.secret)
    return address, read_secret(secret, key_file) if key_file else environ.get(secret.variable, "")


def _check(settings: Settings) -> None:
    if not (settings.is_loopback or settings.session_api_key or settings.insecure):
        raise SettingsError(
            f"Listening on {settings.host} lets other machines run commands here, and no key is set. "
            "Set SESSION_API_KEY to a long random value (for example: "
            "export SESSION_API_KEY=$(openssl rand -hex 32)), or listen on 127.0.0.1, "
            "or give --insecure if the network itself is the protection."
        )
    if settings.session_api_key and not settings.insecure:
        check_key_length(settings.session_api_key, settings.host)
    check_log_level(settings.log_level)
    if settings.keep_sessions and not settings.state_dir:
        raise SettingsError("--keep-sessions needs a --state-dir to find the sessions again.")
    if settings.sudo and not settings.username:
        raise SettingsError("--sudo needs a --username: it is for the user whose shell it is.")
    if settings.browsergym_eval_env and not settings.enable_browser:
        raise SettingsError(
            "Browser environment is not enabled in config, but browsergym_eval_env is set. "
            "Leave out --no-enable-browser, or the evaluation task."
        )
