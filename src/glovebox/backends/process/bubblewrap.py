"""The command line of bubblewrap: a box sees the system read-only, its workspace, and little else."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import glovebox
from glovebox.client.spec import BoxSpec
from glovebox.errors import NoIsolation, NotSupported
from glovebox.settings import kernel_packages

#: The visible part of the root directory. Not /home, /root, /run, /srv, /sys, /var: they hold private data.
_SYSTEM = ("bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr")
#: The capabilities of root in the box, for files and users of the box only.
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
_RESOLVER = "/etc/resolv.conf"
#: What an isolated box can still reach, for its user, and the page that says more.
SHARED = "bubblewrap isolates the box, but not its network (docs/backends.md)"

#: How to do without isolation.
WITHOUT = (
    "If the commands of the box may do all that you may, say so: "
    'isolation="none" (--isolation none, GLOVEBOX_ISOLATION=none)'
)


def find_program() -> str:
    """The path of bubblewrap.

    Raises:
        NoIsolation: it is not installed.
    """
    if found := shutil.which("bwrap"):
        return found
    raise NoIsolation(
        "bubblewrap is not installed. Install it (apt-get install bubblewrap), or start Docker or Podman; "
        f"glovebox doctor says more. {WITHOUT}"
    )


def find_problem() -> str:
    """Why bubblewrap cannot isolate a box here; empty if it can. Blocks."""
    try:
        program = find_program()
    except NoIsolation:
        return "bubblewrap is not installed"
    flags = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "--proc", "/proc"]
    done = subprocess.run([program, *flags, "true"], capture_output=True, text=True, check=False)
    return f"bubblewrap does not work: {done.stderr.strip()}" if done.returncode else ""


def wrap_command(
    command: list[str], spec: BoxSpec, *, directory: Path, workspace: Path, home: Path, shown: list[str]
) -> list[str]:
    """A command in a file system and a pid namespace of its own; the network is shared.

    `directory` holds /tmp and the home of the box, `shown` are more paths that it can read.

    Raises:
        NoIsolation: bubblewrap is missing.
        NotSupported: it is too old.
    """
    program = find_program()
    arguments = [program, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "glovebox"]
    # bubblewrap's own first process would wait for all others; the box has to end with the server.
    arguments += ["--as-pid-1", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    if os.geteuid() == 0:
        arguments += ["--cap-drop", "ALL"]
        for capability in _CAPABILITIES:
            arguments += ["--cap-add", f"CAP_{capability}"]
        arguments += _kernel()
    arguments += _system()
    arguments += ["--bind", _make_directory(directory / "tmp", 0o1777), "/tmp"]  # noqa: S108
    arguments += ["--dir", "/var/tmp", "--dir", "/run"]  # noqa: S108
    arguments += ["--bind", _make_directory(directory / "home", 0o700), str(home)]
    for path in shown:
        arguments += ["--ro-bind", os.path.realpath(path), path]
    for number, mount in enumerate(spec.volumes):
        if mount.is_overlay:
            arguments += _overlay(program, mount.source, mount.target, directory / f"overlay-{number}")
        else:
            arguments += ["--ro-bind" if mount.mode == "ro" else "--bind", mount.source, mount.target]
    arguments += ["--bind", str(workspace), spec.workspace_in_box]
    # Not the workspace: Python would import modules from there.
    return [*arguments, "--chdir", "/", "--", *command]


def interpreter_paths() -> list[str]:
    """The paths of this interpreter, its libraries, this package and those of kernels outside the system."""
    package = str(Path(glovebox.__file__).parent)
    libraries = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    candidates = [sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix, *libraries, package]
    candidates += filter(None, [kernel_packages()])
    candidates += [os.path.realpath(path) for path in candidates]
    candidates.append(os.path.realpath(sys.executable))
    return _outside_system(candidates)


def bundle_paths(bundle: str) -> list[str]:
    """The paths of a directory with a runtime: its own, and that of its interpreter if it is a venv."""
    try:
        with open(f"{bundle}/pyvenv.cfg", encoding="utf-8") as file:
            lines = [line.partition("=") for line in file]
    except FileNotFoundError:
        return [bundle]
    homes = [value.strip() for name, _, value in lines if name.strip() == "home"]
    homes += [os.path.realpath(f"{home}/python3").rpartition("/")[0] for home in homes]
    return _outside_system([bundle, *map(os.path.dirname, homes)])


def chromium_paths(environment: Mapping[str, str], home: Path) -> list[str]:
    """Where Playwright has its Chromium, if it does."""
    place = environment.get("PLAYWRIGHT_BROWSERS_PATH") or f"{home}/.cache/ms-playwright"
    return [place] if os.path.isdir(place) else []


def _outside_system(paths: list[str]) -> list[str]:
    shown: list[str] = []
    for path in sorted(set(map(os.path.abspath, paths)), key=len):
        if path.split("/")[1] not in ("", *_SYSTEM) and not any(_is_below(path, other) for other in shown):
            shown.append(path)
    return shown


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(f"{directory.rstrip('/')}/")


def _system() -> list[str]:
    arguments: list[str] = []
    for name in _SYSTEM:
        path = f"/{name}"
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    resolver = os.path.realpath(_RESOLVER)
    if not _is_below(resolver, "/etc") and os.path.exists(resolver):
        arguments += ["--ro-bind", resolver, resolver]
    return arguments + (_secrets() if os.geteuid() == 0 else [])


def _kernel() -> list[str]:
    """Make the machine's part of /proc read-only: root could change settings of the kernel there.

    bubblewrap itself skips directories without write permission, such as /proc/sys.
    """
    arguments: list[str] = []
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() or entry.is_symlink():
                continue  # processes, and links to this one
            mode = entry.stat(follow_symlinks=False).st_mode
            if not mode & stat.S_IROTH:
                arguments += ["--ro-bind", os.devnull, entry.path]
            elif stat.S_ISDIR(mode) or mode & stat.S_IWUSR:
                arguments += ["--ro-bind", entry.path, entry.path]
    return arguments


def _secrets() -> list[str]:
    """Hide files that only root may read from root in the box."""
    arguments: list[str] = []
    waiting = ["/etc"]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & stat.S_IROTH and mode & stat.S_IXOTH:
                    waiting.append(entry.path)
                elif stat.S_ISDIR(mode):
                    arguments += ["--tmpfs", entry.path]
                elif stat.S_ISREG(mode) and not mode & stat.S_IROTH:
                    arguments += ["--ro-bind", os.devnull, entry.path]
    return arguments


def _overlay(program: str, source: str, target: str, layers: Path) -> list[str]:
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    if "--overlay-src" not in known.stdout:
        raise NotSupported(
            "This bubblewrap knows no overlays; that begins with version 0.11. Mount it rw or ro, or use the "
            "backend docker."
        )
    upper, work = _make_directory(layers / "upper", 0o700), _make_directory(layers / "work", 0o700)
    return ["--overlay-src", source, "--overlay", upper, work, target]


def _make_directory(path: Path, mode: int) -> str:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    return str(path)
