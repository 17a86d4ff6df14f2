"""OpenHands itself, in an interpreter of its own."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTED = ROOT / "tests/box/mcp/scripted.py"
#: Made by `make test` where there is a Python 3.12.
INSTALLED = ROOT / ".venv-openhands/bin/python"
HOW = "`scripts/setup.sh dev` installs it where there is a Python 3.12, or set GLOVEBOX_OPENHANDS_PYTHON"
SECONDS = 300
#: Kinds that OpenHands has no name of its own for: the class of this project, with processes and containers.
RUNTIMES = dict.fromkeys(("class", "container"), "glovebox.openhands.GloveboxRuntime")
CONFIG = """
[core]
runtime = "{runtime}"
enable_browser = false
run_as_openhands = {as_openhands}
file_store = "local"
file_store_path = "{folder}/store"

[sandbox]
timeout = 60
{sandbox}

[sandbox.runtime_startup_env_vars]
STARTED_WITH = "the box"
"""

Drive = Callable[..., dict[str, Any]]
#: What a check of that name returned.
Seen = Callable[[str], Any]


@pytest.fixture(scope="session")
def openhands_python() -> Path:
    """The interpreter that has OpenHands."""
    python = Path(os.environ.get("GLOVEBOX_OPENHANDS_PYTHON") or INSTALLED)
    if not python.exists():
        pytest.skip(f"There is no OpenHands at {python}: {HOW}.")
    return python


@pytest.fixture(scope="session")
def beside(openhands_python: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What this project needs and OpenHands has not, laid beside it; the environment stays as it is."""
    probe = subprocess.run([openhands_python, "-c", "import msgspec"], capture_output=True)
    if probe.returncode == 0:
        return []
    folder = str(tmp_path_factory.mktemp("beside"))
    pip = [str(openhands_python), "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    installed = subprocess.run([*pip, "msgspec"], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"msgspec cannot be installed beside OpenHands: {HOW}.\n{installed.stderr[-500:]}")
    return [folder]


@pytest.fixture(scope="session")
def drive(openhands_python: Path, beside: list[str], tmp_path_factory: pytest.TempPathFactory) -> Drive:
    """Runs the driver once and hands back what it saw."""

    def run(
        *kinds: str,
        life: tuple[str, ...] = (),
        sid: str = "test",
        environment: dict[str, str] | None = None,
        python: str = sys.executable,
        sandbox: str = "",
        as_openhands: bool = False,
    ) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("openhands")
        # A file where OpenHands looks for a bundle: its own libraries are too old to serve a box.
        program = folder / "bundle/bin/glovebox"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m glovebox "$@"\n')
        program.chmod(0o755)
        configs = {}
        for kind in kinds:
            configs[kind] = folder / f"{kind}.toml"
            configs[kind].write_text(
                CONFIG.format(
                    runtime=RUNTIMES.get(kind, kind),
                    folder=folder,
                    sandbox=sandbox,
                    as_openhands=str(as_openhands).lower(),
                )
            )
        plan = {
            "kinds": kinds,
            "paths": [str(ROOT / "src"), *beside],
            "folder": str(folder),
            "config": {kind: str(path) for kind, path in configs.items()},
            "environment": {
                "container": {"GLOVEBOX_BACKEND": "docker"},
                "local": {"SESSION_API_KEY": "a-key-of-the-local-runtime"},
            },
            # Until the runtime is connected: no proxy can reach a loopback address, so none may be asked.
            "connecting": {"class": {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}},
            # What boxes of the first kind go through.
            "life": life,
            "sid": sid,
            "mcp_server": str(SCRIPTED),
            "python": python,
            # The local runtime starts it amid OpenHands' own libraries (current directory, PYTHONPATH).
            "serve": [sys.executable, "-u", "-m", "glovebox", "serve"],
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        home = folder / "home"
        home.mkdir()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SANDBOX_", "GLOVEBOX_", "XDG_", "PYTHON", "GIT_"))
            and name.lower() not in ("session_api_key", "runtime", "http_proxy", "https_proxy", "all_proxy")
        }
        # Short, as sockets are made there; OpenHands and its boxes leave files in it.
        with tempfile.TemporaryDirectory(prefix="oh-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
            process = subprocess.run(
                [
                    openhands_python,
                    "-m",
                    "tests.openhands.driver",
                    folder / "plan.json",
                    folder / "result.json",
                ],
                cwd=ROOT,
                env={
                    **inherited,
                    "HOME": str(home),
                    "TMPDIR": scratch,
                    "XDG_STATE_HOME": str(folder / "state"),
                    "XDG_CACHE_HOME": str(folder / "cache"),
                    "USER": getpass.getuser(),
                    "SANDBOX_ENV_FOOBAR": "BAZ",
                    "GLOVEBOX_BACKEND": "process",
                    "GLOVEBOX_ISOLATION": "none",
                    "GLOVEBOX_BUNDLE": str(folder / "bundle"),
                    **(environment or {}),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
            )
        (folder / "log").write_text(process.stdout)
        assert process.returncode == 0, process.stdout[-4000:]
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        return {**result, "folder": folder, "sid": sid, "log": process.stdout}

    return run


@pytest.fixture(scope="session")
def driven(drive: Drive) -> dict[str, Any]:
    """What happened to the runtime of this project, and to the stock local one with a box for its server."""
    return drive(
        "class",
        "local",
        life=("one", "reopened", "kept", "gone", "died", "wishes", "window_wishes", "left_open"),
    )


@pytest.fixture(params=["class", "local"])
def stock(request: pytest.FixtureRequest, driven: dict[str, Any]) -> Seen:
    """What the checks saw that every runtime has to pass."""
    return seen(driven[request.param])


@pytest.fixture
def life(driven: dict[str, Any]) -> Seen:
    """What the checks saw that are about the runtime of this project alone."""
    return seen(driven["life"])


def seen(results: dict[str, Any]) -> Seen:
    """The results of checks, none of which may have broken off."""

    def look(check: str) -> Any:
        assert "broke" not in results[check], results[check]["broke"]
        return results[check]["saw"]

    return look
