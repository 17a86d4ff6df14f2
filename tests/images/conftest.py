from __future__ import annotations

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
    if shutil.which("docker") is None:
        pytest.skip("building images needs the program docker: install docker.io")
    name = f"glovebox-test-image-{secrets.token_hex(4)}:latest"
    chosen = {
        "DOCKER_HOST": engine.host,
        "IMAGE": name,
        "IMAGE_BASE": BASE,
        "IMAGE_NETWORK": "host",  # an engine of the tests' own has no way out for its bridge
        "GLOVEBOX_BUNDLE": str(prepared("bundle")),
    }
    built = subprocess.run(
        [SCRIPT], env={**os.environ, **chosen}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, f"{built.stdout[-3000:]}\n{built.stderr[-3000:]}"
    yield name
    engine.remove_image(name)
