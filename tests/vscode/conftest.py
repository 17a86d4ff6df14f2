from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error

from glovebox import SyncRuntime
from tests.vscode.harness.browser import Browser, running_browser
from tests.vscode.harness.desk import OPEN, Desk, Window
from tests.vscode.harness.editor import Editor, Program, packaged, running_editor
from tests.vscode.harness.hub import BRIEF, Hub, running_hub

#: How long the extension may take to be built.
LIMIT = 600


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep pictures of what windows showed when a test failed."""
    report = yield
    if report.failed and report.when == "call":
        folder = Path(os.environ.get("GLOVEBOX_TEST_FAILURES", "/tmp/glovebox-failures"))
        for number, page in enumerate(OPEN):
            picture = folder / f"{item.name.replace('/', '_')[:80]}-{number}.png"
            with contextlib.suppress(Error):
                page.picture(picture)
                report.sections.append(("picture", str(picture)))
    return report


@pytest.fixture(scope="session")
def program(vscode_server: Path) -> Program:
    """VS Code."""
    return Program(vscode_server)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension, built once."""
    return packaged(tmp_path_factory.mktemp("extension") / "glovebox.vsix", LIMIT)


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
def editor(
    program: Program, package: Path, hub: Hub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Editor]:
    """One server for all windows, which trusts every folder."""
    home = tmp_path_factory.mktemp("editor") / "home"
    with running_editor(program, home, hub.state, package, "--disable-workspace-trust") as editor:
        yield editor


@pytest.fixture(scope="package")
def desk(hub: Hub, editor: Editor, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """What windows are opened on."""
    return Desk(hub, editor, browser, tmp_path_factory.mktemp("folders"))


@pytest.fixture
def brief_desk(desk: Desk, tmp_path: Path) -> Iterator[Desk]:
    """The same with a hub that gives windows up soon, which those find that are connected meanwhile."""
    with (
        running_hub(tmp_path / "state", *BRIEF) as brief,
        desk.hub.known_as(url=brief.url, key=brief.key),
    ):
        yield Desk(brief, desk.editor, desk.browser, desk.place)


@pytest.fixture(scope="package")
def shared_window(desk: Desk) -> Iterator[Window]:
    """A connected window for all tests that leave it as it was."""
    with desk.window(desk.folder("shared")) as window:
        window.connect()
        yield window


@pytest.fixture
def window(shared_window: Window) -> Window:
    """The shared window, without what is left of the test before."""
    shared_window.bring_to_front()
    shared_window.tidy()
    return shared_window


@pytest.fixture(scope="package")
def agent(shared_window: Window) -> Iterator[SyncRuntime]:
    """An agent in the shared window."""
    with shared_window.agent() as agent:
        yield agent
