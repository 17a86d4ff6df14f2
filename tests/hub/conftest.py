from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hub.hubs import QUICK, RunningHub, running_hub


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """One hub for all tests that do not end it."""
    with running_hub(tmp_path_factory.mktemp("hub"), *QUICK) as running:
        yield running
