from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.notebook.cells import Cells
from tests.support.running import RunningBox, running_box


@pytest.fixture(scope="session")
def shared_notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """One box with kernels for all tests that leave no trace in it."""
    with running_box(tmp_path_factory.mktemp("notebook") / "workspace", "--plugins", "jupyter") as box:
        yield box


@pytest.fixture
def notebook(shared_notebook: RunningBox, tmp_path: Path) -> Cells:
    """Its main kernel, with the shell in a fresh directory."""
    shared_notebook.run(f"cd '{tmp_path}'")
    return Cells(shared_notebook)
