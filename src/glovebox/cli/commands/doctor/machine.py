"""The machine: ports, users, namespaces, proxies, disks."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from glovebox.cli.console import size

if TYPE_CHECKING:
    from glovebox.cli.commands.doctor.result import Patient
    from glovebox.settings.host import HostSettings

_AREA = "Machine"
_SECONDS = 5.0
#: The user that commands run as in images of OpenHands.
_SANDBOX_USER = 1000
_LITTLE = 1 << 30
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def check(patient: Patient, settings: HostSettings) -> None:
    """Look at all of it."""
    _check_loopback(patient)
    _check_users(patient)
    _check_namespaces(patient)
    _check_proxies(patient, settings.environment)
    _check_directory(patient, "state", settings.state, needed_by=("process",))
    _check_directory(patient, "cache", settings.cache, needed_by=("docker",))
    for name, path in (
        ("state", settings.state),
        ("cache", settings.cache),
        ("temporary files", Path(tempfile.gettempdir())),
    ):
        check_space(patient, _AREA, name, path)


def _check_loopback(patient: Patient) -> None:
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            socket.create_connection(listening.getsockname(), _SECONDS).close()
    except OSError as error:
        patient.ill(
            _AREA,
            "loopback",
            f"nothing can listen on 127.0.0.1 and be reached ({error})",
            "Boxes are reached there. Bring up the loopback interface, or lift what forbids it.",
            needed_by=("process", "docker"),
        )
    else:
        patient.well(_AREA, "loopback", "ports of 127.0.0.1 can be listened on and reached")


def _check_users(patient: Patient) -> None:
    own = os.getuid()
    try:
        name = pwd.getpwuid(own).pw_name
    except KeyError:
        name = str(own)
    kind = "root: a process box can run commands as another user" if own == 0 else "commands run as you"
    patient.well(_AREA, "user", f"{name} ({own}), {kind}")
    try:
        holder = pwd.getpwuid(_SANDBOX_USER).pw_name
    except KeyError:
        patient.well(_AREA, "user id 1000", "free")
    else:
        patient.well(_AREA, "user id 1000", f"{holder}; files that boxes write to mounts may be that user's")
    if own != 0:
        entry = _subordinate(name, own)
        if entry:
            patient.well(_AREA, "subordinate ids", entry)
        else:
            patient.ill(
                _AREA,
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


def _check_namespaces(patient: Patient) -> None:
    program = shutil.which("unshare")
    if program is None:
        patient.ill(_AREA, "user namespaces", "not known: there is no unshare", "Install util-linux.")
        return
    try:
        done = subprocess.run(
            [program, "--user", "--map-root-user", "true"], capture_output=True, text=True, timeout=_SECONDS
        )
        problem = done.stderr.strip() if done.returncode else ""
    except subprocess.TimeoutExpired:
        problem = "unshare did not end"
    if problem:
        patient.ill(
            _AREA,
            "user namespaces",
            problem,
            "bubblewrap and rootless engines need them: look at user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns with sysctl.",
        )
    else:
        patient.well(_AREA, "user namespaces", "can be made")


def _check_proxies(patient: Patient, environment: Mapping[str, str]) -> None:
    given = [name for name in _PROXIES if environment.get(name)]
    if not given:
        patient.well(_AREA, "proxy", "none")
        return
    excluded = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = {part.strip().removeprefix(".") for part in excluded.split(",")}
    if "*" in names or {"127.0.0.1", "localhost"} <= names:
        patient.well(_AREA, "proxy", f"{', '.join(given)}, not for this machine itself")
    else:
        patient.ill(
            _AREA,
            "proxy",
            f"{', '.join(given)} set, and NO_PROXY does not have both localhost and 127.0.0.1",
            "Glovebox itself goes to boxes here without it, other programs may not: "
            "export NO_PROXY=localhost,127.0.0.1",
        )


def _check_directory(patient: Patient, name: str, path: Path, *, needed_by: tuple[str, ...]) -> None:
    there = existing(path)
    if os.access(there, os.W_OK | os.X_OK) and there.is_dir():
        patient.well(_AREA, f"{name} directory", f"{path} can be written")
    else:
        variable = f"XDG_{name.upper()}_HOME"
        patient.ill(
            _AREA,
            f"{name} directory",
            f"{path} cannot be written",
            f"Make {there} yours, or set {variable} to a directory that is.",
            needed_by=needed_by,
        )


def check_space(patient: Patient, area: str, name: str, path: Path) -> None:
    """Whether there is room where something is kept."""
    try:
        free = shutil.disk_usage(existing(path)).free
    except OSError as error:
        patient.ill(area, f"space for {name}", f"not known ({error})", f"Look at {path}.")
        return
    if free < _LITTLE:
        patient.ill(area, f"space for {name}", f"{size(free)} free at {path}", "Make room: 1 GB at least.")
    else:
        patient.well(area, f"space for {name}", f"{size(free)} free at {path}")


def existing(path: Path) -> Path:
    """A path, or the nearest directory above it that there is."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
