from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.running import RunningBox, running_box

pytest_plugins = ["tests.support.engine", "tests.support.markers", "tests.support.vscode"]
#: Begins the names of the directories of tests, which end with the number of the process that made them.
PREFIX = "glovebox-tests-"
#: How many directories of tests that have ended are kept, to be looked at.
KEPT = 3
#: Folders whose tests may have to wait until an image, the runtime or a window is made.
SLOW_TO_BEGIN = ("backends", "bundle", "images", "vscode")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach what tests start, also where this runs in the background of a script."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests of processes look at them from outside; those of isolated boxes say that they are.
    os.environ.setdefault("GLOVEBOX_ISOLATION", "none")
    if not hasattr(config, "workerinput") and config.option.basetemp is None:
        config.option.basetemp = own_directory()


def own_directory() -> str:
    """Where these tests have their directories.

    In pytest's usual place, every pytest of this user that begins closes the way to them for other users.
    """
    place = Path(tempfile.gettempdir())
    ended = []
    for old in place.glob(f"{PREFIX}[0-9]*"):
        with contextlib.suppress(FileNotFoundError):  # others remove them as well
            if not psutil.pid_exists(int(old.name.removeprefix(PREFIX))):
                ended.append((old.stat().st_mtime, old))
    for _, old in sorted(ended)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return str(place / f"{PREFIX}{os.getpid()}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests time for what is made for all of them, once."""
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in SLOW_TO_BEGIN:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", autouse=True)
def _entered_by_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Other users may go through the folders of tests; there is one more when tests run side by side."""
    base = tmp_path_factory.getbasetemp()
    for directory in (base, *base.parents):
        if directory.stat().st_uid == os.geteuid() and not directory.stat().st_mode & 0o1000:
            directory.chmod(directory.stat().st_mode | 0o055)
        if directory.name.startswith(PREFIX):
            break


@pytest.fixture(scope="session")
def shared_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """One box for all tests that leave no trace outside a directory of their own."""
    with running_box(tmp_path_factory.mktemp("box") / "workspace") as box:
        yield box


@pytest.fixture(scope="session")
def full_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """The same with every plugin of the project."""
    plugins = ("--plugins", "jupyter", "agent_skills", "vscode")
    with running_box(tmp_path_factory.mktemp("full-box") / "workspace", *plugins) as box:
        yield box


@pytest.fixture
def box(shared_box: RunningBox, tmp_path: Path) -> RunningBox:
    """The shared box, with its shell in a fresh directory."""
    moved = shared_box.execute("run", command=f"cd '{tmp_path}'")
    if (
        moved["extras"].get("metadata", {}).get("exit_code") != 0
    ):  # a test that failed has left something running
        assert shared_box.client.delete("/sessions/main").status_code < 400
        shared_box.run(f"cd '{tmp_path}'")
    return shared_box


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What tests print may hold halves of characters, which cannot be sent from one process to the other."""
    report = yield
    report.sections = [(title, _whole(text)) for title, text in report.sections]
    if isinstance(report.longrepr, str):
        report.longrepr = _whole(report.longrepr)
    return report


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
