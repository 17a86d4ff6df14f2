"""The server of VS Code, as a process with a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from tests.support.running import wait_until

TOKEN = "a-token-for-tests"
BOUND = re.compile(r"Server bound to [^\s:]+:(\d+)")
#: What a user may set for the machine; beside what keeps the windows quiet and their text readable.
SETTINGS: Mapping[str, Any] = {
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "files.autoSave": "off",
    "git.openRepositoryInParentFolders": "never",
    "security.workspace.trust.untrustedFiles": "open",
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.gpuAcceleration": "off",  # drawn as text, not as a picture
    "terminal.integrated.defaultProfile.linux": "bash",
    "window.autoDetectColorScheme": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}


ROOT = Path(__file__).parents[3]


class Program:
    """VS Code as `glovebox vscode install` has installed it: a node, and the server's script."""

    def __init__(self, place: Path) -> None:
        self.node = place / "node"
        self.script = place / "out/server-main.js"


def packaged(target: Path, limit: float) -> Path:
    """The extension as `make extension` makes it."""
    command = ["scripts/extension.sh", "package", str(target)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    assert made.returncode == 0, made.stdout + made.stderr
    return target


class Editor:
    """A server that runs: everything of it lies below one directory."""

    def __init__(self, program: Program, home: Path, state: Path) -> None:
        self.home = home
        self._program = program
        self._state = state
        self._process: subprocess.Popen[bytes] | None = None
        self._log = home / "server.log"
        self._token_file = home / "token"
        self.url = ""
        (home / "bin").mkdir(parents=True)
        self._token_file.write_text(TOKEN)
        self._token_file.chmod(0o600)
        (home / ".bashrc").write_text("PS1='\\W \\$ '\n")
        self.set({})

    def set(self, settings: Mapping[str, Any]) -> None:
        """Have these settings of the machine, beside those of all tests."""
        file = self.home / "data/data/Machine/settings.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({**SETTINGS, **settings}, indent=1))
        fresh.replace(file)

    def install(self, package: Path) -> str:
        """Install an extension as a user does; what is said."""
        done = subprocess.run(
            [*self._command(), "--install-extension", str(package)],
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *flags: str) -> None:
        """Start it, and wait until it listens."""
        listening = ["--host", "127.0.0.1", "--port", "0", "--connection-token-file", str(self._token_file)]
        quiet = ["--disable-telemetry", "--reconnection-grace-time", "10"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command(), *listening, *quiet, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,
            )
        wait_until(self._is_bound, 60, "a VS Code server that listens")

    def _is_bound(self) -> bool:
        assert self._process is not None
        said = self._log.read_text("utf-8", "replace")
        assert self._process.poll() is None, said
        if found := BOUND.search(said):
            self.url = f"http://127.0.0.1:{found[1]}"
        return bool(found)

    def address(self, place: Path | None) -> str:
        """Where a browser finds a window for a folder, or for a file that names several, or for nothing."""
        if place is None:
            return f"{self.url}/?tkn={TOKEN}&ew=true"
        kind = "workspace" if place.suffix == ".code-workspace" else "folder"
        return f"{self.url}/?tkn={TOKEN}&{kind}={quote(str(place))}"

    def stop(self) -> None:
        """End it, with all that it started."""
        if self._process is None:
            return
        started = psutil.Process(self._process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        _, left = psutil.wait_procs([psutil.Process(self._process.pid), *started], 10)
        # Now and then a shell does not notice that its terminal is gone.
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def _command(self) -> list[str]:
        return [
            str(self._program.node),
            str(self._program.script),
            "--accept-server-license-terms",
            "--server-data-dir",
            str(self.home / "data"),
            "--extensions-dir",
            str(self.home / "extensions"),
        ]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.home), "XDG_STATE_HOME": str(self._state), "SHELL": "/bin/bash"}


@contextlib.contextmanager
def running_editor(program: Program, home: Path, state: Path, package: Path, *flags: str) -> Iterator[Editor]:
    """A server with the extension in it; windows find the hub that has left its address below `state`."""
    editor = Editor(program, home, state)
    editor.install(package)
    try:
        editor.start(*flags)
        yield editor
    finally:
        editor.stop()
