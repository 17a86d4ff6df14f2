"""The one reader of flags and environment. Every setting is declared here, once.

A field carries its flag, its variable and its sentence; the command line, the documentation and
the check that both agree are made from it. A flag wins over a variable, a variable over the default.
"""

from __future__ import annotations

import argparse
import dataclasses
import ipaddress
import os
import pwd
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from glovebox.errors import SettingsError

MessageT = TypeVar("MessageT", bound=msgspec.Struct)

TRUTHY = frozenset({"1", "true", "t", "yes", "y", "on"})
FALSY = frozenset({"0", "false", "f", "no", "n", "off", ""})
SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: Variables that must not reach the environment of commands: keys, and the headers that collectors want.
SECRET_VARIABLES = frozenset(
    {
        "SESSION_API_KEY",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    }
)
#: Begins the variables of plugins, which do not reach commands either: `GLOVEBOX_PLUGIN_JUPYTER_KERNEL`.
PLUGIN_PREFIX = "GLOVEBOX_PLUGIN_"
#: Where something could be served and is not to be.
NO_PORT = -1


@dataclass(frozen=True, slots=True)
class Option:
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


def _setting(
    default: Any,
    *,
    flag: str,
    variable: str,
    help: str,
    parse: Any = str,
    metavar: str | None = None,
    many: bool = False,
    secret: bool = False,
) -> Any:
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


def parse_vscode_port(text: str) -> int:
    """A TCP port, 0 for a free one; anything but a number is `NO_PORT`, as the contract has it."""
    return parse_port(text) if text.isdigit() else NO_PORT


def parse_terminal(text: str) -> str:
    """What holds the shells."""
    if text not in ("pty", "tmux"):
        raise ValueError(f"{text!r} is neither pty nor tmux")
    return text


def parse_seconds(text: str) -> int:
    """A positive whole number of seconds."""
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a positive whole number of seconds")
    return int(text)


def current_user() -> str:
    """The name of the user this process runs as, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a number without an account, as containers may have
        return str(os.geteuid())


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a box can be told."""

    port: int = _setting(
        8000, flag="PORT", variable="GLOVEBOX_PORT", parse=parse_port, metavar="PORT",
        help="TCP port of the API; 0 takes a free one.",
    )  # fmt: skip
    host: str = _setting(
        "127.0.0.1", flag="--host", variable="GLOVEBOX_HOST",
        help="Address to listen on. Anything but loopback needs SESSION_API_KEY.",
    )  # fmt: skip
    insecure: bool = _setting(
        False, flag="--insecure", variable="GLOVEBOX_INSECURE", parse=parse_flag,
        help="Serve without a key although others can reach the address.",
    )  # fmt: skip
    session_api_key: str = _setting(
        "", flag="--session-api-key-file", variable="SESSION_API_KEY", metavar="FILE", secret=True,
        help="The key every request has to show. The variable holds the key, the flag names a file that holds"
        " it (a key on a command line could be read by others).",
    )  # fmt: skip
    working_dir: str = _setting(
        ".", flag="--working-dir", variable="GLOVEBOX_WORKING_DIR", metavar="DIR",
        help="The workspace: where the shell starts and relative listings begin. Made if missing.",
    )  # fmt: skip
    plugins: tuple[str, ...] = _setting(
        (), flag="--plugins", variable="GLOVEBOX_PLUGINS", metavar="NAME", many=True,
        help="Plugins to load: jupyter, agent_skills, vscode, or the name of one that was installed.",
    )  # fmt: skip
    plugin_options: tuple[str, ...] = _setting(
        (), flag="--plugin-options", variable="GLOVEBOX_PLUGIN_OPTIONS", metavar="PLUGIN.NAME=VALUE",
        many=True,
        help="Settings of plugins, for example jupyter.kernel=python3. Each is also a variable, as"
        " GLOVEBOX_PLUGIN_JUPYTER_KERNEL.",
    )  # fmt: skip
    init_plugin_timeout: int = _setting(
        120, flag="--init-plugin-timeout", variable="INIT_PLUGIN_TIMEOUT", parse=parse_seconds,
        metavar="SECONDS",
        help="How long a plugin may take to start before it counts as failed; the box serves without it.",
    )  # fmt: skip
    runtime_memory_monitor: bool = _setting(
        False, flag="--runtime-memory-monitor", variable="RUNTIME_MEMORY_MONITOR", parse=parse_flag,
        help="Log how much memory the box and all it started use, ten times a second for at most an hour.",
    )  # fmt: skip
    username: str = _setting(
        "", flag="--username", variable="GLOVEBOX_USERNAME", metavar="NAME",
        help="User that owns the shell, created if missing (as root). Default: the current user, untouched.",
    )  # fmt: skip
    user_id: int = _setting(
        1000, flag="--user-id", variable="GLOVEBOX_USER_ID", parse=int, metavar="UID",
        help="Numeric id for that user when it has to be created.",
    )  # fmt: skip
    su_to_user: bool = _setting(
        True, flag="--su-to-user", variable="SU_TO_USER", parse=parse_flag,
        help="Run the shell as that user; off runs it as the user of the server.",
    )  # fmt: skip
    sandbox_group_id: str = _setting(
        "root", flag="--sandbox-group-id", variable="SANDBOX_GROUP_ID", metavar="GROUP",
        help="Group, by name or number, that the workspace is given to.",
    )  # fmt: skip
    enable_browser: bool = _setting(
        True, flag="--enable-browser", variable="GLOVEBOX_ENABLE_BROWSER", parse=parse_flag,
        help="Offer the browser actions.",
    )  # fmt: skip
    chromium: str = _setting(
        "", flag="--chromium", variable="GLOVEBOX_CHROMIUM", metavar="FILE",
        help="The Chromium or Chrome that the browser actions use. Default: the system's, then Playwright's.",
    )  # fmt: skip
    browsergym_eval_env: str = _setting(
        "", flag="--browsergym-eval-env", variable="GLOVEBOX_BROWSERGYM_EVAL_ENV", metavar="TASK",
        help="BrowserGym task for evaluations; needs the browser.",
    )  # fmt: skip
    vscode: str = _setting(
        "", flag="--vscode", variable="GLOVEBOX_VSCODE", metavar="PATH",
        help="The VS Code server of the plugin vscode: a directory with openvscode-server or code-server, or"
        " a program of these. Default: what `glovebox vscode install` installed, then those of the system.",
    )  # fmt: skip
    vscode_port: int = _setting(
        0, flag="--vscode-port", variable="VSCODE_PORT", parse=parse_vscode_port, metavar="PORT",
        help="TCP port of VS Code, at the address of the API; 0 takes a free one, and `off` serves none.",
    )  # fmt: skip
    vscode_base_path: str = _setting(
        "", flag="--vscode-base-path", variable="OPENVSCODE_SERVER_BASE_PATH", metavar="PATH",
        help="The path below which VS Code is served, for a proxy that hands paths on as they are.",
    )  # fmt: skip
    runtime_url: str = _setting(
        "", flag="--runtime-url", variable="RUNTIME_URL", metavar="URL",
        help="Where a proxy serves this box. If its path begins with the runtime id, VS Code is served below"
        " /ID/vscode.",
    )  # fmt: skip
    runtime_id: str = _setting(
        "", flag="--runtime-id", variable="RUNTIME_ID", metavar="ID",
        help="What the proxy calls this box.",
    )  # fmt: skip
    workspace_base: str = _setting(
        "", flag="--workspace-base", variable="WORKSPACE_BASE", metavar="DIR",
        help="The directory that gets settings of VS Code (.vscode/settings.json) when it is first opened and"
        " has none. Default: the workspace.",
    )  # fmt: skip
    no_change_timeout_seconds: int = _setting(
        10, flag="--no-change-timeout-seconds", variable="NO_CHANGE_TIMEOUT_SECONDS", parse=parse_seconds,
        metavar="SECONDS",
        help="Answer when a command has printed nothing for this long; the command goes on.",
    )  # fmt: skip
    terminal: str = _setting(
        "pty", flag="--terminal", variable="GLOVEBOX_TERMINAL", parse=parse_terminal, metavar="KIND",
        help="What holds the shells: pty, or tmux, so that people can use tmux attach.",
    )  # fmt: skip
    state_dir: str = _setting(
        "", flag="--state-dir", variable="GLOVEBOX_STATE_DIR", metavar="DIR",
        help="Keep shells, their output and answers here, so that they outlive a server that is killed: start"
        " it again with the same directory. Without one, shells end with the server.",
    )  # fmt: skip
    keep_sessions: bool = _setting(
        False, flag="--keep-sessions", variable="GLOVEBOX_KEEP_SESSIONS", parse=parse_flag,
        help="Leave the shells running when the server is stopped, for the next one with the same"
        " --state-dir.",
    )  # fmt: skip
    orphan_seconds: int = _setting(
        86_400, flag="--orphan-seconds", variable="GLOVEBOX_ORPHAN_SECONDS", parse=parse_seconds,
        metavar="SECONDS",
        help="How long shells wait for another server before they are ended.",
    )  # fmt: skip
    terminal_log_size: int = _setting(
        1 << 30, flag="--terminal-log-size", variable="GLOVEBOX_TERMINAL_LOG_SIZE", parse=parse_size,
        metavar="SIZE",
        help="How much raw output is kept on disk for each session, for example 100M; the oldest goes first.",
    )  # fmt: skip
    max_upload_size: int = _setting(
        16 << 30, flag="--max-upload-size", variable="GLOVEBOX_MAX_UPLOAD_SIZE", parse=parse_size,
        metavar="SIZE",
        help="Largest upload taken, for example 500M; an archive may unpack to as much.",
    )  # fmt: skip
    allowed_hosts: tuple[str, ...] = _setting(
        (), flag="--allowed-hosts", variable="GLOVEBOX_ALLOWED_HOSTS", metavar="NAME", many=True,
        help="More host names this box is called by when it has no key, for example box.example.org or"
        " *.example.org. Loopback, IP addresses and container names are always allowed.",
    )  # fmt: skip
    cors_origins: tuple[str, ...] = _setting(
        (), flag="--cors-origins", variable="GLOVEBOX_CORS_ORIGINS", metavar="ORIGIN", many=True,
        help="Origins of web pages that may call this box, for example https://app.example.org.",
    )  # fmt: skip
    viewer_url_file: str = _setting(
        "/tmp/oh-server-url", flag="--viewer-url-file", variable="GLOVEBOX_VIEWER_URL_FILE",  # noqa: S108
        metavar="FILE",
        help="Where the address of the file viewer is written for programs in the box.",
    )  # fmt: skip
    log_level: str = _setting(
        "INFO", flag="--log-level", variable="LOG_LEVEL", metavar="LEVEL",
        help="DEBUG, INFO, WARNING or ERROR.",
    )  # fmt: skip
    log_json: bool = _setting(
        False, flag="--log-json", variable="LOG_JSON", parse=parse_flag,
        help="Log one JSON object per line.",
    )  # fmt: skip

    #: What commands inherit: the environment of the server without its secrets.
    command_environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    #: The variables of plugins, without their prefix.
    plugin_variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    #: The standard variables of OpenTelemetry, `OTEL_*`.
    telemetry_variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def account(self) -> str:
        """The user the box works for."""
        return self.username or current_user()


def options() -> list[Option]:
    """Every setting's spelling, in order."""
    return [
        Option(name=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(Settings)
        if field.metadata
    ]


def add_arguments(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Give a command line all settings but some; what is not given stays out of the result."""
    for option in options():
        if option.name in without:
            continue
        shown = "" if option.default in ("", (), None) else f" Default: {option.default}."
        help_text = f"{option.help}{shown} [{option.variable}]".replace("%", "%%")
        common: dict[str, Any] = {"dest": option.name, "default": argparse.SUPPRESS, "help": help_text}
        if not option.flag.startswith("--"):
            parser.add_argument(option.name, nargs="?", metavar=option.metavar,
                                default=argparse.SUPPRESS, help=help_text)  # fmt: skip
        elif option.parse is parse_flag:
            parser.add_argument(option.flag, action=argparse.BooleanOptionalAction, **common)
        elif option.many:
            parser.add_argument(option.flag, nargs="+", metavar=option.metavar, **common)
        else:
            parser.add_argument(option.flag, metavar=option.metavar, **common)


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
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
    values["command_environment"] = {
        name: value
        for name, value in environ.items()
        if name not in SECRET_VARIABLES and not name.startswith(PLUGIN_PREFIX)
    }
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


def plugin_options(settings: Settings, plugin: str, kind: type[MessageT]) -> MessageT:
    """The settings of one plugin: `--plugin-options` wins over variables, these over the defaults.

    Raises:
        SettingsError: one of them is unknown or has a value that cannot be used.
    """
    names = kind.__struct_fields__
    given: dict[str, str] = {}
    for name in names:
        variable = f"{plugin}_{name}".upper()
        if variable in settings.plugin_variables:
            given[name] = settings.plugin_variables[variable]
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
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"The settings of plugin {plugin} cannot be used: {error}") from error


def client(
    url: str | None, key_file: str | None, environ: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """The address and the key with which a box is called; the key is empty if there is none.

    Raises:
        SettingsError: the file of the key cannot be read.
    """
    environ = os.environ if environ is None else environ
    address = url or environ.get("GLOVEBOX_URL") or "http://127.0.0.1:8000"
    secret = next(option for option in options() if option.secret)
    return address, _read_secret(secret, key_file) if key_file else environ.get(secret.variable, "")


def _from_flag(option: Option, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if option.secret:
        return _read_secret(option, value)
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


def _read_secret(option: Option, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{option.flag}: cannot read {path}: {error}") from error
    if not secret:
        raise SettingsError(f"{option.flag}: {path} is empty")
    return secret


def _check(settings: Settings) -> None:
    if not (settings.is_loopback or settings.session_api_key or settings.insecure):
        raise SettingsError(
            f"Listening on {settings.host} lets other machines run commands here, and no key is set. "
            "Set SESSION_API_KEY to a long random value (for example: "
            "export SESSION_API_KEY=$(openssl rand -hex 32)), or listen on 127.0.0.1, "
            "or give --insecure if the network itself is the protection."
        )
    if settings.log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        raise SettingsError(f"log level {settings.log_level!r} is not DEBUG, INFO, WARNING or ERROR")
    if settings.keep_sessions and not settings.state_dir:
        raise SettingsError("--keep-sessions needs a --state-dir to find the sessions again.")
    if settings.browsergym_eval_env and not settings.enable_browser:
        raise SettingsError(
            "Browser environment is not enabled in config, but browsergym_eval_env is set. "
            "Leave out --no-enable-browser, or the evaluation task."
        )
