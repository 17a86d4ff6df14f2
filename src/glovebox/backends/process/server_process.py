"""Starts the server of a box: its command line, environment and key. Everything blocks."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pwd
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import structs

import glovebox
from glovebox.backends.process import bubblewrap
from glovebox.backends.process.process_tree import MARK
from glovebox.backends.process.records import BoxDirectory, BoxRecord, Known
from glovebox.backends.startup import serve_arguments
from glovebox.errors import BoxDied, NoIsolation, NotSupported
from glovebox.linux import processes
from glovebox.secret_environment import is_secret
from glovebox.settings.host import SANDBOX_PREFIX, HostSettings
from glovebox.settings.secrets import SECRETS_DESCRIPTOR, hand_over

#: The only path at which a bundle runs.
_BUNDLE = "/opt/glovebox"
#: Modules that a server needs and a client does not; older versions of the MCP library lack the last one.
_NEEDED = ("starlette", "uvicorn", "httptools", "python_multipart", "mcp_types")
_OF_INTERPRETER = frozenset({"PYTHONPATH", "PYTHONHOME"})
#: Variables of the client that a box does not inherit.
_HOST_ONLY = frozenset({
    "SESSION_API_KEY", "GLOVEBOX_BACKEND", "GLOVEBOX_BUNDLE", "GLOVEBOX_HUB_KEY", "GLOVEBOX_IMAGE",
    "GLOVEBOX_ISOLATION", "GLOVEBOX_SESSION", "GLOVEBOX_URL", "SANDBOX_VOLUME_OVERLAYS",
})  # fmt: skip
#: Variables that an isolated box inherits besides its settings; others may be secrets.
_HARMLESS = frozenset({
    "PATH", "PYTHONPATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY",
    "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "LOG_LEVEL", "PLAYWRIGHT_BROWSERS_PATH",
})  # fmt: skip
_HARMLESS_PREFIXES = ("LC_", "GLOVEBOX_PLUGIN_", "OTEL_")
#: The directory of the VS Code server.
VSCODE_SERVER = "GLOVEBOX_VSCODE"
#: Seconds that shells wait for the restart of a killed server.
_ORPHAN_SECONDS = "30"
#: Seconds for bubblewrap to print the pid of its child.
_INFO_LIMIT = 10.0


def spawn(directory: BoxDirectory, record: BoxRecord, settings: HostSettings) -> BoxRecord:
    """Start the server of a box, which does not answer yet; the new record, written.

    Raises:
        BackendError: it cannot be started; the text says what to do.
    """
    spec = record.spec
    with _secret(spec.key) as key, open(directory.log, "ab") as log:
        key_file = ("--session-api-key-file", f"/proc/self/fd/{key}")
        if record.is_isolated:
            command, home = _isolated_command(directory, record, settings, key_file)
        else:
            command, home = _plain_command(directory, record, settings, key_file), settings.home
        environment = _environment(directory, record, settings, home)
        with without_secrets(environment) as secrets:
            child, main = _spawn_process(
                command, environment, log.fileno(), (key, *secrets), says_pid=record.is_isolated
            )
    record = structs.replace(record, child=child, main=main, url="", paused=())
    directory.write(record)
    return record


def workspace_of(directory: BoxDirectory, record: BoxRecord) -> Path:
    """The workspace, as this machine sees it."""
    return Path(record.spec.workspace) if record.spec.workspace else directory.workspace


def _plain_command(
    directory: BoxDirectory, record: BoxRecord, settings: HostSettings, key_file: tuple[str, str]
) -> list[str]:
    own = (
        *key_file,
        "--no-log-json",  # its address is read from its output
        "--state-dir",
        str(directory.shells),
        "--orphan-seconds",
        _ORPHAN_SECONDS,
        "--viewer-url-file",
        str(directory.path / "viewer-url"),
    )
    return _command(record, settings, own, str(workspace_of(directory, record)))


def _isolated_command(
    directory: BoxDirectory, record: BoxRecord, settings: HostSettings, key_file: tuple[str, str]
) -> tuple[list[str], Path]:
    bundle = None if _is_installed() else _bundle(settings)
    server = _vscode_server(record, settings)
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    command = bubblewrap.wrap_command(
        _command(record, settings, (*key_file, "--no-log-json"), record.spec.workspace_in_box),
        record.spec,
        directory=directory.path,
        workspace=workspace_of(directory, record),
        home=home,
        shown=[
            *(bubblewrap.bundle_paths(bundle) if bundle else bubblewrap.interpreter_paths()),
            *filter(None, [server]),
            *(bubblewrap.chromium_paths(settings.environment, home) if record.spec.browser else ()),
        ],
    )
    return command, home


def _vscode_server(record: BoxRecord, settings: HostSettings) -> str:
    """The directory of the VS Code server for this box; empty without one."""
    environment = {**settings.environment, **record.spec.env}
    data = environment.get("XDG_DATA_HOME") or f"{settings.home}/.local/share"
    place = environment.get(VSCODE_SERVER) or f"{data}/glovebox/vscode"
    return place if "vscode" in record.spec.plugins and os.path.isdir(place) else ""


def _command(record: BoxRecord, settings: HostSettings, own: tuple[str, ...], workspace: str) -> list[str]:
    spec = record.spec
    spec = structs.replace(spec, arguments=(*own, *spec.arguments))
    program = python_command(settings.environment)
    if not _is_installed():
        program = [f"{_bundle(settings)}/bin/glovebox"]
    return program + serve_arguments(spec, port=spec.port, host=spec.publish_address, workspace=workspace)


def python_command(environment: Mapping[str, str]) -> list[str]:
    """Python with this package, as a server is started.

    What `PYTHONPATH` and `PYTHONHOME` name is for commands and may be another Python's, so the interpreter of
    the server ignores them, unless this process itself was found by them.
    """
    place = os.path.dirname(os.path.dirname(glovebox.__file__))
    named = map(os.path.abspath, environment.get("PYTHONPATH", "").split(os.pathsep))
    is_needed = not sys.flags.ignore_environment and (place in named or bool(environment.get("PYTHONHOME")))
    return [sys.executable, *(() if is_needed else ("-EP",)), "-m", "glovebox"]


def _is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)


def _bundle(settings: HostSettings) -> str:
    """The directory of a runtime with its own interpreter."""
    for directory in filter(None, (settings.bundle, _BUNDLE)):
        if os.access(f"{directory}/bin/glovebox", os.X_OK):
            return os.path.abspath(directory)
    raise NotSupported(
        "What serves a box is not installed here. Install it (pip install 'glovebox-runtime[box]'), "
        "or into another environment that GLOVEBOX_BUNDLE names (GLOVEBOX_BUNDLE=/path/to/venv), "
        f"or unpack a bundle to {_BUNDLE}."
    )


def _environment(
    directory: BoxDirectory, record: BoxRecord, settings: HostSettings, home: Path
) -> dict[str, str]:
    """The user's environment without that of the client; less if the box is isolated."""
    inherited = {
        name: value
        for name, value in settings.environment.items()
        if name not in _HOST_ONLY and not name.startswith(SANDBOX_PREFIX)
    }
    if record.is_isolated:
        inherited = harmless_variables(inherited)
        if server := _vscode_server(record, settings):
            inherited[VSCODE_SERVER] = server
    if not _is_installed():  # they belong to the client's interpreter
        inherited = {name: value for name, value in inherited.items() if name not in _OF_INTERPRETER}
    return {**inherited, "HOME": str(home), **record.spec.env, MARK: str(directory.path)}


def harmless_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What an isolated box inherits of an environment."""
    return {
        name: value
        for name, value in environment.items()
        if name.upper() in _HARMLESS or name.startswith(_HARMLESS_PREFIXES)
    }


@contextlib.contextmanager
def without_secrets(environment: dict[str, str]) -> Iterator[tuple[int, ...]]:
    """Move secrets to a descriptor: bubblewrap exposes its environment as long as the box lives."""
    secrets = {name: environment.pop(name) for name in list(environment) if is_secret(name)}
    if not secrets:
        yield ()
        return
    descriptor = hand_over(secrets)
    try:
        environment[SECRETS_DESCRIPTOR] = str(descriptor)
        yield (descriptor,)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _secret(key: str) -> Iterator[int]:
    """A descriptor to read the key from once: it is in no command line, environment or file."""
    reads, writes = os.pipe()
    try:
        os.write(writes, key.encode())
        os.close(writes)
        yield reads
    finally:
        os.close(reads)


def _spawn_process(
    command: list[str], environment: dict[str, str], log: int, inherited: tuple[int, ...], *, says_pid: bool
) -> tuple[Known, Known]:
    """The child process, and the one with which the box ends."""
    reads, writes = os.pipe()
    try:
        if says_pid:
            command = [command[0], "--info-fd", str(writes), *command[1:]]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment,
                start_new_session=True,
                pass_fds=(*inherited, writes) if says_pid else inherited,
            )
        except OSError as error:
            raise NotSupported(f"{command[0]} cannot be run: {error}") from error
        process.returncode = 0  # it is managed by its pid, as any client can; only reaping is left to us
        threading.Thread(target=_reap, args=(process.pid,), name="glovebox-box", daemon=True).start()
        os.close(writes)
        writes = -1
        child = _known(process.pid)
        return child, first_process(reads) or child if says_pid else child
    finally:
        os.close(reads)
        if writes >= 0:
            os.close(writes)


def _reap(pid: int) -> None:
    """Wait for the end of a child, so that it does not become a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _known(pid: int) -> Known:
    process = processes.read(pid)
    return Known(pid=pid, start=str(process.started) if process else "")


def first_process(descriptor: int) -> Known | None:
    """The first process of bubblewrap's namespace; None if there is none."""
    said = b""
    wait = select.poll()  # `select` is limited to 1024 descriptors
    wait.register(descriptor, select.POLLIN)
    while wait.poll(_INFO_LIMIT * 1000):
        piece = os.read(descriptor, 4096)
        said += piece
        if not piece or b"}" in said:
            break
    try:
        return _known(json.loads(said)["child-pid"])
    except (ValueError, KeyError):
        return None


def last_words(log: Path, offset: int, count: int = 20) -> str:
    """The last lines of a log after an offset."""
    lines = read_log(log, offset).decode(errors="replace").splitlines()
    return "\n".join(lines[-count:])


def read_log(log: Path, offset: int) -> bytes:
    """A log from an offset on."""
    with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:
        file.seek(offset)
        return file.read()
    return b""


def death(words: str, isolated: bool) -> NoIsolation | BoxDied:
    """The error for a box that ended before it answered."""
    if isolated and words.startswith("bwrap: "):
        return NoIsolation(
            f"bubblewrap cannot isolate a box here ({words.removeprefix('bwrap: ')}). Allow user namespaces "
            "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone), or start Docker or Podman. "
            f"{bubblewrap.WITHOUT}"
        )
    return BoxDied(f"The box ended before it answered. Its last words:\n{words or '(none)'}")
