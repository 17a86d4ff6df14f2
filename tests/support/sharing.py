"""How tests are shared out when several processes run them (`make test JOBS=2`)."""

from __future__ import annotations

import pytest

#: What needs a container engine or a VS Code that takes a while to begin: each is begun in one process only.
ENGINE = (
    "tests/backends/docker/",
    "tests/backends/test_contract.py",
    "tests/bundle/",
    "tests/cli/test_docker.py",
    "tests/images/",
)
EDITOR = ("tests/vscode/",)
#: What takes long is begun first, so that no process is left with it when the others are done.
LONG = (
    "tests/stress/",
    "tests/survival/",
    "tests/server/test_faults.py",
    "tests/benchmarks/",
    "tests/box/browser/",
    "tests/contract/",
    "tests/extension/",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what takes long first. Tests that run one by one keep their order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _turn(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Share out files, and those that need the same costly thing together."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _group
    return scheduler


def _group(nodeid: str) -> str:
    for group, places in (("engine", ENGINE), ("editor", EDITOR)):
        if nodeid.startswith(places):
            return group
    return nodeid.partition("::")[0]


def _turn(nodeid: str) -> int:
    turns = (ENGINE, EDITOR, LONG)
    return next((turn for turn, places in enumerate(turns) if nodeid.startswith(places)), len(turns))
