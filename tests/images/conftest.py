from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine import BASE, RealEngine, prepared

SCRIPT = Path(__file__).parents[2] / "scripts" / "image.sh"


@pytest.fixture(scope="session")
def image(engine: RealEngine) -> Iterator[str]:
    """The image that `make image` builds, on the base of the tests."""
    with built(engine, GLOVEBOX_BUNDLE=str(prepared("bundle"))) as name:
        yield name


@pytest.fixture(scope="session")
def browser_image(engine: RealEngine) -> Iterator[str]:
    """The same with Chromium, and with a runtime that drives it."""
    with built(engine, IMAGE_VARIANT="browser", GLOVEBOX_BUNDLE="") as name:
        yield name


@pytest.fixture(scope="session")
def vscode_image(engine: RealEngine) -> Iterator[str]:
    """The same with a VS Code server."""
    with built(engine, IMAGE_VARIANT="vscode", GLOVEBOX_BUNDLE=str(prepared("bundle"))) as name:
        yield name


@contextlib.contextmanager
def built(engine: RealEngine, **chosen: str) -> Iterator[str]:
    """An image of the script's making, which is removed afterwards; its name."""
    if shutil.which("docker") is None:
        pytest.skip("building images needs the program docker: install docker.io")
    name = f"glovebox-test-image-{secrets.token_hex(4)}:latest"
    always = {
        "DOCKER_HOST": engine.host,
        "IMAGE": name,
        "IMAGE_BASE": BASE,
        "IMAGE_NETWORK": "host",  # an engine of the tests' own has no way out for its bridge
    }
    done = subprocess.run(
        [SCRIPT], env={**os.environ, **always, **chosen}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    try:
        yield name
    finally:
        engine.remove_image(name)
