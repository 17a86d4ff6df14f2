from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.box.browser.web_server import serving
from tests.support.running import RunningBox, running_box


@pytest.fixture(scope="session")
def browser_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """One box with a browser for all tests that go to a page of their own."""
    with running_box(tmp_path_factory.mktemp("browser") / "workspace") as box:
        yield box


@pytest.fixture(scope="session")
def other_site() -> Iterator[str]:
    """The address of a server that is another site to the browser than `site`."""
    with serving("localhost") as address:
        yield address


@pytest.fixture(scope="session")
def site(other_site: str) -> Iterator[str]:
    """The address of a server with the pages of this directory."""
    with serving("127.0.0.1", other_site) as address:
        yield address
