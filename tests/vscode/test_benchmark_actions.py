"""The actions of the benchmark work in a window, so that its figures are meaningful."""

from __future__ import annotations

import pytest
from benchmarks.measures.vscode import ACTIONS

from glovebox import SyncRuntime


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_of_the_benchmark_works(agent: SyncRuntime, name: str) -> None:
    if name.startswith("edit"):
        agent.write("written.txt", "turn 7")
    assert ACTIONS[name](agent, 7)
