"""What tests need, as markers; and how several processes share them out (`make test JOBS=2`).

A test has a marker because of its folder or file, because of a fixture, or because it says so itself.
"""

from __future__ import annotations

import pytest

#: Where the tests are that need a program which takes a while to start, or that take long.
PLACES = {
    "engine": (
        "tests/backends/docker/",
        "tests/backends/test_contract.py",
        "tests/bundle/",
        "tests/cli/test_docker.py",
        "tests/images/",
    ),
    "vscode": ("tests/vscode/", "tests/box/vscode/", "tests/extension/"),
    "browser": ("tests/box/browser/", "tests/server/test_viewer_browser.py"),
    "stress": ("tests/stress/", "tests/survival/", "tests/server/test_faults.py"),
    "slow": (
        "tests/backends/",
        "tests/benchmarks/",
        "tests/box/mcp/",
        "tests/box/mcp_own/",
        "tests/box/notebook/",
        "tests/box/system/test_users.py",
        "tests/box/telemetry/test_otel.py",
        "tests/box/terminal/",
        "tests/box/files/test_grep_limits.py",
        "tests/box/files/test_large.py",
        "tests/box/system/test_metrics.py",
        "tests/cli/",
        "tests/client/test_box",
        "tests/client/test_connection.py",
        "tests/client/test_runtime",
        "tests/contract/",
        "tests/examples/",
        "tests/hub/",
        "tests/integrations/test_repository.py",
        "tests/linux/test_oom.py",
        "tests/openhands/",
        "tests/plugins/",
        "tests/server/test_limits.py",
        "tests/server/test_openapi.py",
        "tests/server/test_secrets.py",
        "tests/server/test_viewer",
        "tests/test_cli.py",
        "tests/test_json_codec.py",
    ),
}
#: What is quick in a folder that is slow.
QUICK = (
    "tests/box/terminal/test_digest.py",
    "tests/box/terminal/test_delivery.py",
    "tests/box/terminal/test_journal.py",
    "tests/box/terminal/test_person.py",
    "tests/box/terminal/test_rendering.py",
    "tests/box/terminal/test_retention.py",
    "tests/box/terminal/test_output_search.py",
    "tests/box/terminal/test_command_splitter.py",
    "tests/cli/test_flags.py",
    "tests/hub/test_link.py",
    "tests/hub/test_registry.py",
    "tests/hub/window/test_files.py",
)
#: Fixtures that start such a program.
FIXTURES = {"engine": "engine", "desk": "vscode", "vscode_server": "vscode", "browser_box": "browser"}
#: What takes long is begun first, so that no process is left with it when the others are done.
LONG = (
    *PLACES["stress"],
    *PLACES["browser"],
    *PLACES["vscode"],
    "tests/benchmarks/",
    "tests/contract/",
)
#: One process runs all tests of these: what they need is started in it only.
TOGETHER = {"engine": PLACES["engine"], "vscode": ("tests/vscode/",)}


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests their markers; and where they are shared out, begin with those that take long."""
    for item in items:
        for name in markers(item.nodeid, getattr(item, "fixturenames", ())):
            item.add_marker(name)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _turn(item.nodeid))


def markers(nodeid: str, fixtures: tuple[str, ...] | list[str] = ()) -> list[str]:
    """The markers of a test by its place and its fixtures."""
    used = {FIXTURES[name] for name in fixtures if name in FIXTURES}
    found = [name for name, places in PLACES.items() if name in used or nodeid.startswith(places)]
    return [name for name in found if not (name == "slow" and nodeid.startswith(QUICK))]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Share out files, and those that need the same costly thing together."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _group
    return scheduler


def _group(nodeid: str) -> str:
    for group, places in TOGETHER.items():
        if nodeid.startswith(places):
            return group
    return nodeid.partition("::")[0]


def _turn(nodeid: str) -> int:
    turns = (TOGETHER["engine"], TOGETHER["vscode"], LONG)
    return next((turn for turn, places in enumerate(turns) if nodeid.startswith(places)), len(turns))
