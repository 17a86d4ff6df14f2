from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error

from glovebox import SyncRuntime
from tests.vscode.harness.browser import Browser, running_browser
from tests.vscode.harness.hub import SHORT_GRACE, Hub, running_hub
from tests.vscode.harness.vscode_server import ServerProgram, VsCodeServer, package_extension, running_server
from tests.vscode.harness.workstation import OPEN, Window, Workstation

#: Seconds for building the extension.
BUILD_LIMIT = 600


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take screenshots of the open windows when a test fails."""
    report = yield
    if report.failed and report.when == "call":
        folder = Path(os.environ.get("GLOVEBOX_TEST_FAILURES", "/tmp/glovebox-failures"))
        for number, page in enumerate(OPEN):
            file = folder / f"{item.name.replace('/', '_')[:80]}-{number}.png"
            with contextlib.suppress(Error):
                page.screenshot(file)
                report.sections.append(("screenshot", str(file)))
    return report


@pytest.fixture(scope="session")
def program(vscode_server: Path) -> ServerProgram:
    """The installed VS Code server."""
    return ServerProgram(vscode_server)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension, built once."""
    return package_extension(tmp_path_factory.mktemp("extension") / "glovebox.vsix", BUILD_LIMIT)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all windows."""
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One hub for all windows."""
    with running_hub(tmp_path_factory.mktemp("hub") / "state") as hub:
        yield hub


@pytest.fixture(scope="package")
def server(
    program: ServerProgram, package: Path, hub: Hub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VsCodeServer]:
    """One VS Code server for all windows, which trusts every folder."""
    home = tmp_path_factory.mktemp("server") / "home"
    with running_server(program, home, hub.state, package, "--disable-workspace-trust") as server:
        yield server


@pytest.fixture(scope="package")
def workstation(
    hub: Hub, server: VsCodeServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Workstation:
    """The machine on which windows are opened."""
    return Workstation(hub, server, browser, tmp_path_factory.mktemp("folders"))


@pytest.fixture
def short_grace_workstation(workstation: Workstation, tmp_path: Path) -> Iterator[Workstation]:
    """The same with another hub, which removes lost windows soon; windows that connect meanwhile find it."""
    with (
        running_hub(tmp_path / "state", *SHORT_GRACE) as hub,
        workstation.hub.address_file(url=hub.url, key=hub.key),
    ):
        yield Workstation(hub, workstation.server, workstation.browser, workstation.place)


@pytest.fixture(scope="package")
def shared_window(workstation: Workstation) -> Iterator[Window]:
    """A connected window for all tests that leave it connected."""
    with workstation.window(workstation.folder("shared")) as window:
        window.connect()
        yield window


@pytest.fixture
def window(shared_window: Window) -> Window:
    """The shared window, without notifications of earlier tests."""
    shared_window.bring_to_front()
    shared_window.tidy()
    return shared_window


@pytest.fixture(scope="package")
def agent(shared_window: Window) -> Iterator[SyncRuntime]:
    """An agent in the shared window."""
    with shared_window.agent() as agent:
        yield agent
