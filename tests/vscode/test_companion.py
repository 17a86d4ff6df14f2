"""Cells and MCP tools in a window: the companion box beside it."""

from __future__ import annotations

from glovebox import SyncRuntime
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.observations import IPythonRunCellObservation
from tests.support.waiting import LIMIT
from tests.vscode.harness.workstation import Window


def cell(agent: SyncRuntime, code: str) -> str:
    """Run a cell; return its output."""
    answer = agent.run_ipython(IPythonRunCellAction(code=code, timeout=4 * LIMIT, include_extra=False))
    assert isinstance(answer, IPythonRunCellObservation), answer
    return answer.content


def test_a_variable_of_a_cell_is_there_in_the_next_one(agent: SyncRuntime, window: Window) -> None:
    cell(agent, "import os; kept = os.getcwd()")
    assert cell(agent, "print(kept)").strip() == str(window.folder)
