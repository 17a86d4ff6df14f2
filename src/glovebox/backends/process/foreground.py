"""Serves a box in bubblewrap for a person at a terminal, until they stop it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from glovebox.backends.process import bubblewrap
from glovebox.backends.process.server_process import (
    first_process,
    harmless_variables,
    python_command,
    without_secrets,
)
from glovebox.client.spec import BoxSpec, Mount, same_place
from glovebox.errors import StartupError
from glovebox.settings import Settings, as_flags

#: Signals that are passed on to the server.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KEY = "SESSION_API_KEY"


def serve(settings: Settings, environment: Mapping[str, str], folders: Sequence[str] = ()) -> int:
    """Run `glovebox serve` with these settings in bubblewrap; its exit status.

    It sees the `folders` too, at their own paths.

    Raises:
        StartupError: a directory cannot be made.
        NoIsolation: bubblewrap is missing.
    """
    directory = Path(tempfile.mkdtemp(prefix="glovebox-serve-"))
    try:
        command = _command(settings, environment, directory, folders)
        inherited = {**harmless_variables(environment), "HOME": _home()}
        if settings.session_api_key:
            inherited[_KEY] = settings.session_api_key
        with without_secrets(inherited) as secrets:
            return _run(command, inherited, secrets)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _command(
    settings: Settings, environment: Mapping[str, str], directory: Path, folders: Sequence[str]
) -> list[str]:
    state = os.path.abspath(settings.state_dir) if settings.state_dir else ""
    try:
        for path in filter(None, (settings.working_dir, state)):
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise StartupError(f"{path} cannot be made: {error}") from error
    workspace, home = same_place(settings.working_dir), Path(_home())
    browsers = bubblewrap.chromium_paths(environment, home) if settings.enable_browser else []
    flags = as_flags(settings, without={"port", "session_api_key", "working_dir", "state_dir"})
    flags += ["--working-dir", workspace, *(("--state-dir", state) if state else ())]
    return bubblewrap.wrap_command(
        [*python_command(environment), "serve", str(settings.port), *flags],
        BoxSpec(
            workspace_in_box=workspace,
            volumes=tuple(Mount(source=path, target=path) for path in (*filter(None, [state]), *folders)),
        ),
        directory=directory,
        workspace=Path(settings.working_dir),
        home=home,
        shown=bubblewrap.interpreter_paths() + browsers,
    )


def _home() -> str:
    return pwd.getpwuid(os.geteuid()).pw_dir


def _run(command: list[str], environment: Mapping[str, str], inherited: tuple[int, ...]) -> int:
    """Run it in a session of its own: Ctrl-C is for the server, and would kill bubblewrap."""
    reads, writes = os.pipe()
    program, *arguments = command
    try:
        process = subprocess.Popen(
            [program, "--info-fd", str(writes), "--die-with-parent", *arguments],
            env=environment,
            start_new_session=True,
            pass_fds=(*inherited, writes),
        )
        os.close(writes)
        main = first_process(reads)
    finally:
        os.close(reads)

    def pass_on(number: int, _: object) -> None:
        os.kill(main.pid if main else process.pid, number)

    for number in _SIGNALS:
        signal.signal(number, pass_on)
    return process.wait()
