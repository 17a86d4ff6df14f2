from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Home


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A user whose boxes are removed at the end."""
    user = Home(tmp_path_factory.mktemp("cli") / "home")
    yield user
    removed = user.glovebox("rm", "--all")
    assert removed.returncode == 0, removed.stderr
    assert user.names() == []


@pytest.fixture(scope="package")
def box(home: Home) -> str:
    """A box that is kept, and that tests leave as it is but for files of their own."""
    started = home.glovebox("run", "--keep", "--name", "kept", "--env", "GREETING=hello there", "--", "true")
    assert started.returncode == 0, started.stderr
    return "kept"


@pytest.fixture
def workspace(home: Home, box: str) -> Path:
    """The workspace of that box."""
    [info] = [info for info in home.listed() if info["name"] == box]
    return Path(info["workspace"])
