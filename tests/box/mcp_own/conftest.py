from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.box.mcp_own.connecting import Connected, connected


@pytest.fixture(scope="package")
def modern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    """A client that speaks the newest protocol."""
    with connected(tmp_path_factory.mktemp("modern") / "workspace", "auto") as client:
        yield client


@pytest.fixture(scope="package")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    """A client that greets its server, as all did."""
    with connected(tmp_path_factory.mktemp("legacy") / "workspace", "legacy") as client:
        yield client


@pytest.fixture(params=["modern", "legacy"])
def client(request: pytest.FixtureRequest) -> Connected:
    """Either, with the main shell in its workspace."""
    found: Connected = request.getfixturevalue(request.param)
    found.text("run", command=f"cd '{found.workspace}'")
    return found
