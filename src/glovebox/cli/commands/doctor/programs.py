"""Checks of the programs that boxes use."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from glovebox.box.vscode.installation import find_server
from glovebox.errors import PluginFailed

if TYPE_CHECKING:
    from glovebox.cli.commands.doctor.report import Area
    from glovebox.settings.host import HostSettings

_SECONDS = 10.0
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")

#: A program, its flag for the version, and advice if it is missing.
_OPTIONAL = (
    ("git", "--version", "Changes and repositories cannot be told of. Install git."),
    ("tmux", "-V", "Shells cannot be held by tmux (--terminal tmux). Install tmux if you want that."),
)


def check(area: Area, settings: HostSettings) -> None:
    path = settings.environment.get("PATH", os.defpath)
    _check_bash(area, path)
    for program, flag, advice in _OPTIONAL:
        found = shutil.which(program, path=path)
        if found is None:
            area.bad(program, "not found", advice)
        else:
            area.ok(program, _first_line([found, flag]) or found)
    _check_bubblewrap(area, path)
    _check_chromium(area, path, settings)
    _check_vscode(area, settings)


def _check_bash(area: Area, path: str) -> None:
    found = shutil.which("bash", path=path)
    if found is None:
        area.bad("bash", "not found", "Shells are bash. Install it.", "process")
        return
    version = _first_line([found, "-c", "echo $BASH_VERSION"])
    numbers = [int(part) for part in version.split("(")[0].split(".")[:2] if part.isdecimal()]
    if numbers < [5, 1]:
        area.bad("bash", f"{version} at {found}", "Some hooks of shells need 5.1 or newer. Update bash.")
    else:
        area.ok("bash", f"{version} at {found}")


def _check_bubblewrap(area: Area, path: str) -> None:
    found = shutil.which("bwrap", path=path)
    if found is None:
        area.bad("bubblewrap", "not found", "Install bubblewrap for --isolation bubblewrap.")
        return
    try:
        done = subprocess.run(
            [found, "--ro-bind", "/", "/", "true"], capture_output=True, text=True, timeout=_SECONDS
        )
        problem = done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        area.bad(
            "bubblewrap",
            f"{found} does not work: {problem}",
            "It needs user namespaces, which the kernel or an AppArmor profile may keep from it.",
        )
    else:
        version = _first_line([found, "--version"])
        area.ok(
            "bubblewrap", f"{version}, works. It isolates boxes, but not their network (docs/backends.md)"
        )


def _check_chromium(area: Area, path: str, settings: HostSettings) -> None:
    chosen = settings.environment.get("GLOVEBOX_CHROMIUM", "")
    for name in (chosen,) if chosen else _CHROMIUM:
        if found := shutil.which(name, path=path):
            area.ok("Chromium", found)
            break
    else:
        cache = Path(
            settings.environment.get("PLAYWRIGHT_BROWSERS_PATH") or settings.home / ".cache/ms-playwright"
        )
        own = sorted(cache.glob("chromium-*"))
        if own and not chosen:
            area.ok("Chromium", f"Playwright's, at {own[-1]}")
        else:
            area.bad(
                "Chromium",
                f"GLOVEBOX_CHROMIUM is {chosen!r}, and there is no program there" if chosen else "not found",
                "For a browser in process boxes, install it, or run: playwright install --with-deps chromium",
            )
    if find_spec("playwright") is None:
        area.bad("Playwright", "not installed", "pip install 'glovebox-runtime[browser]'")
    else:
        area.ok("Playwright", "installed")


def _check_vscode(area: Area, settings: HostSettings) -> None:
    try:
        server = find_server(settings.environment.get("GLOVEBOX_VSCODE", ""), settings.environment)
    except PluginFailed as error:
        found, _, advice = str(error).partition(". ")
        area.bad("VS Code server", found, f"For VS Code in process boxes: {advice}")
    else:
        area.ok("VS Code server", server.place)


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter(done.stdout.splitlines()), "").strip()
