"""The VS Code server, as a process with a home directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from tests.support.running import wait_until

TOKEN = "a-token-for-tests"
BOUND = re.compile(r"Server bound to [^\s:]+:(\d+)")
#: Settings of the machine that keep windows free of notifications and their text readable.
SETTINGS: Mapping[str, Any] = {
    "glovebox.approval": "allow",  # nobody is there to be asked
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "files.autoSave": "off",
    "glovebox.command": str(Path(sys.executable).with_name("glovebox")),
    "git.openRepositoryInParentFolders": "never",
    "security.workspace.trust.untrustedFiles": "open",
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.gpuAcceleration": "off",  # drawn as text, not as a picture
    "terminal.integrated.defaultProfile.linux": "bash",
    "window.autoDetectColorScheme": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "workbench.welcomePage.walkthroughs.openOnInstall": False,
}


ROOT = Path(__file__).parents[3]


class ServerProgram:
    """The paths of an installed VS Code server."""

    def __init__(self, place: Path) -> None:
        self.node = place / "node"
        self.script = place / "out/server-main.js"


def package_extension(target: Path, limit: float) -> Path:
    """Build the extension as `make extension` does."""
    command = ["scripts/extension.sh", "package", str(target)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    assert build.returncode == 0, build.stdout + build.stderr
    assert "WARNING" not in build.stdout + build.stderr
    return target


class VsCodeServer:
    """A VS Code server with all its files below one directory."""

    def __init__(self, program: ServerProgram, home: Path, state: Path) -> None:
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
        self.write_settings({})

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write the settings of the machine: these and those of all tests."""
        file = self.home / "data/data/Machine/settings.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({**SETTINGS, **settings}, indent=1))
        fresh.replace(file)

    def install(self, package: Path) -> str:
        """Install an extension as a user does; return the output."""
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
        """Start the server, and wait until it listens."""
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
        output = self._log.read_text("utf-8", "replace")
        assert self._process.poll() is None, output
        if found := BOUND.search(output):
            self.url = f"http://127.0.0.1:{found[1]}"
        return bool(found)

    def address(self, place: Path | None) -> str:
        """The address of a window for a folder, for a `.code-workspace` file, or for nothing."""
        if place is None:
            return f"{self.url}/?tkn={TOKEN}&ew=true"
        kind = "workspace" if place.suffix == ".code-workspace" else "folder"
        return f"{self.url}/?tkn={TOKEN}&{kind}={quote(str(place))}"

    def stop(self) -> None:
        """Stop the server and its child processes."""
        if self._process is None:
            return
        started = psutil.Process(self._process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        _, left = psutil.wait_procs([psutil.Process(self._process.pid), *started], 10)
        # Now and then a shell does not end with its terminal.
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
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**inherited, "HOME": str(self.home), "XDG_STATE_HOME": str(self._state), "SHELL": "/bin/bash"}


@contextlib.contextmanager
def running_server(
    program: ServerProgram, home: Path, state: Path, package: Path, *flags: str
) -> Iterator[VsCodeServer]:
    """Start a server with the extension; windows find the hub whose address file is below `state`."""
    server = VsCodeServer(program, home, state)
    server.install(package)
    try:
        server.start(*flags)
        yield server
    finally:
        server.stop()
