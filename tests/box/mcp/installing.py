"""MCP servers that others have published, installed once for all test runs of a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MANIFEST = Path(__file__).parent / "package.json"
#: The server, and the one package it needs beyond those of the SDK.
PACKAGES = ("mcp-server-time==2026.10.19", "tzlocal==5.4.5")


def everything_from_npm() -> dict[str, Any]:
    """The entry of a server that runs on Node."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no Node")

    def install(directory: Path) -> None:
        shutil.copy(MANIFEST, directory)
        quietly = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
        run(npm, "install", "--prefix", str(directory), *quietly)

    version = MANIFEST.read_text(encoding="utf-8").split('"')[-2]
    directory = cached(f"everything-{version}", install)
    script = directory / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    return {"command": node, "args": [str(script)]}


def time_from_pypi() -> dict[str, Any]:
    """The entry of a server that runs on this Python, with the packages of this project."""

    def install(directory: Path) -> None:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--no-deps", "--target", str(directory), *PACKAGES)

    directory = cached("-".join(PACKAGES), install)
    return {
        "command": sys.executable,
        "args": ["-m", "mcp_server_time", "--local-timezone", "Europe/Berlin"],
        "env": {"PYTHONPATH": str(directory)},
    }


def cached(name: str, install: Callable[[Path], None]) -> Path:
    """A directory of the user's cache; what is installed there is whole or not there."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glovebox-tests"
    directory = place / name
    if not directory.exists():
        place.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=place))
        install(fresh)
        try:
            fresh.rename(directory)
        except OSError:  # another run was faster
            shutil.rmtree(fresh)
    return directory


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
