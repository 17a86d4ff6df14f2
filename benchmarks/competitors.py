"""The servers that are compared: how each is installed and with which command line it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.openhands import OpenHands
from benchmarks.swerex import SweRex

HERE = Path(__file__).resolve().parent
REFERENCE_VERSION = "0.62.0"
SWEREX_VERSION = "1.4.0"

#: What a server of the OpenHands API is started with that is to run cells.
FOR_CELLS = ("--plugins", "agent_skills", "jupyter")

Say = Callable[[str], None]


class Unavailable(Exception):
    """A server cannot take part; the text says why, in a few words."""


def cache_folder() -> Path:
    """Where the other servers are installed."""
    return Path(os.environ.get("GLOVEBOX_BENCH_CACHE") or HERE / ".cache").absolute()


class Competitor:
    """One of the servers: what it is called and how it is run."""

    name: str
    dialect: type[OpenHands] | type[SweRex] = OpenHands
    #: How long a start may take, from files that are not in memory.
    start_limit = 180.0

    def install(self, say: Say) -> None:
        """Make it runnable.

        Raises:
            Unavailable: that is not possible here.
        """
        raise NotImplementedError

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        """The command line of the server."""
        raise NotImplementedError

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        """Variables it needs beyond the ones every server gets."""
        raise NotImplementedError

    def program_files(self) -> Sequence[Path]:
        """Folders with the code it runs from, for a start with a cold page cache."""
        raise NotImplementedError

    def version(self) -> str:
        """What is measured."""
        raise NotImplementedError


class Glovebox(Competitor):
    """The box of this project, from the environment the benchmark runs in."""

    name = "glovebox"

    def __init__(self, *flags: str) -> None:
        self._program = Path(sys.executable).parent / "glovebox"
        self._flags = flags

    def install(self, say: Say) -> None:
        """It is installed with the project.

        Raises:
            Unavailable: it is not.
        """
        if not self._program.exists():
            raise Unavailable("glovebox is not installed beside this Python")

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        """Without the browser, like the others."""
        plain = [str(self._program), "serve", str(port), "--working-dir", str(folder), "--no-enable-browser"]
        return [*plain, *self._flags]

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        """The key."""
        return {"SESSION_API_KEY": key}

    def program_files(self) -> Sequence[Path]:
        """The environment, the interpreter, the sources."""
        return [Path(sys.prefix), Path(sys.base_prefix), HERE.parent / "src"]

    def version(self) -> str:
        """The project's version, as the interpreter knows it."""
        return f"glovebox {_distribution_version(Path(sys.executable), 'glovebox-runtime')}"


class Reference(Competitor):
    """The action execution server of OpenHands, with or without its IPython plugin, without its browser."""

    name = "reference"

    def __init__(self, *, is_bare: bool = False) -> None:
        self._plugins = () if is_bare else FOR_CELLS
        self._folder = cache_folder() / "openhands"
        self._python = self._folder / "bin" / "python"

    def install(self, say: Say) -> None:
        """Install the package into an environment of its own, once.

        Raises:
            Unavailable: a program it needs is missing, or the installation fails.
        """
        if shutil.which("tmux") is None:
            raise Unavailable("tmux is missing")
        _install(self._folder, _python_312, f"openhands-ai=={REFERENCE_VERSION}", say)

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        """It binds all interfaces and knows no option against that."""
        user = "root" if os.getuid() == 0 else os.environ.get("USER", "openhands")
        return [
            *(str(self._python), "-u", "-m", "openhands.runtime.action_execution_server", str(port)),
            *("--working-dir", str(folder), *self._plugins),
            *("--username", user, "--user-id", str(os.getuid()), "--no-enable-browser"),
        ]

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        """Its mode for running outside a container."""
        return {
            "SESSION_API_KEY": key,
            "LOCAL_RUNTIME_MODE": "1",
            "OPENHANDS_REPO_PATH": str(home),
            "SU_TO_USER": "false",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or its start would depend on the network
            "PATH": f"{self._python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }

    def program_files(self) -> Sequence[Path]:
        """Its environment and the interpreter under it."""
        return [self._folder, self._python.resolve().parent.parent]

    def version(self) -> str:
        """The package's version."""
        version = _distribution_version(self._python, "openhands-ai")
        kind = "with agent_skills and jupyter" if self._plugins else "without plugins"
        return f"OpenHands {version}, {kind}, listening on all interfaces while it is measured"


class SweRexServer(Competitor):
    """SWE-ReX's `swerex-remote`."""

    name = "SWE-ReX"
    dialect = SweRex

    def __init__(self) -> None:
        self._folder = cache_folder() / "swerex"
        self._program = self._folder / "bin" / "swerex-remote"

    def install(self, say: Say) -> None:
        """Install the package into an environment of its own, once.

        Raises:
            Unavailable: the installation fails.
        """
        _install(self._folder, lambda: Path(sys.executable), f"swe-rex=={SWEREX_VERSION}", say)

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        """On loopback only."""
        return [str(self._program), "--host", "127.0.0.1", "--port", str(port), "--auth-token", key]

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        """Nothing: it takes its key on the command line."""
        return {}

    def program_files(self) -> Sequence[Path]:
        """Its environment and the interpreter under it."""
        return [self._folder, Path(sys.base_prefix)]

    def version(self) -> str:
        """The package's version."""
        return f"SWE-ReX {_distribution_version(self._folder / 'bin' / 'python', 'swe-rex')}"


def _install(folder: Path, find_python: Callable[[], Path], requirement: str, say: Say) -> None:
    """Make a virtual environment with one package; a second call finds it done."""
    done = folder / ".installed"
    if done.exists() and done.read_text() == requirement:
        return
    python = find_python()
    say(f"installing {requirement} into {folder} (once; this may take some minutes)")
    steps = ([str(python), "-m", "venv", str(folder)], [str(folder / "bin" / "pip"), "install", requirement])
    for step in steps:
        finished = subprocess.run(step, capture_output=True, text=True)
        if finished.returncode != 0:
            say(finished.stderr.strip()[-2000:])
            raise Unavailable(f"installing {requirement} failed")
    done.write_text(requirement)


def _python_312() -> Path:
    """A Python 3.12 that really starts: a pyenv shim may be on the path and do nothing.

    Raises:
        Unavailable: there is none.
    """
    on_path = shutil.which("python3.12")
    roots = [Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"]
    candidates = [Path(on_path)] if on_path else []
    candidates += [python for root in roots for python in sorted(root.glob("3.12*/bin/python"), reverse=True)]
    for candidate in candidates:
        check = subprocess.run([str(candidate), "-c", "import venv"], capture_output=True)
        if check.returncode == 0:
            return candidate
    raise Unavailable("Python 3.12 is missing")


def _distribution_version(python: Path, name: str) -> str:
    code = (
        "import importlib.metadata as metadata, platform; "
        f"print(metadata.version({name!r}), 'on Python', platform.python_version())"
    )
    shown = subprocess.run([str(python), "-c", code], capture_output=True, text=True)
    return shown.stdout.strip() or "of unknown version"
