from __future__ import annotations

from pathlib import Path

import pytest

from tests.bundle.built import built_bundle
from tests.bundle.images import EmptyImage, make_empty_image


@pytest.fixture(scope="session")
def bundle() -> Path:
    """The bundle of this source tree."""
    return built_bundle()


@pytest.fixture(scope="session")
def image(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> EmptyImage:
    """A file system with nothing but that."""
    return make_empty_image(tmp_path_factory.mktemp("image"), bundle)
