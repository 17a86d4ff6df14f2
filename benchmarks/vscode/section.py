"""All measures of a window, one after the other."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.load import LoadError, Outcome, quantile
from benchmarks.plan import WindowPlan
from benchmarks.report import Cell, Row
from benchmarks.terminal.findings import Findings
from benchmarks.vscode.actions import ACTIONS, Action
from glovebox import SyncRuntime
from glovebox.errors import GloveboxError

#: Seconds for making the extension.
_MAKING_LIMIT = 300.0


def measure_window(plan: WindowPlan, say: Say) -> Findings:
    """Measure actions through a real window of VS Code, in a headless browser.

    Raises:
        Unavailable: there is no VS Code, or no window comes about.
        LoadError: it does not answer.
    """
    say("vscode: starting a hub, VS Code and a browser")
    with tempfile.TemporaryDirectory(prefix="glovebox-bench-") as place, _window(Path(place)) as agent:
        say("vscode: actions in turns")
        outcomes = {name: Outcome() for name in ACTIONS}
        for turn in range(plan.actions):
            for name, action in ACTIONS.items():
                _take(outcomes[name], action, agent, turn)
        say("vscode: new terminals")
        opened = Outcome()
        for turn in range(plan.terminals):
            _take(opened, _first_command, agent, turn)
    outcomes["first command in a new terminal"] = opened
    found = Findings()
    for name, outcome in outcomes.items():
        found.rows.append(_row(f"vscode: {name}; p50 / p95", outcome))
    wrong = sum(outcome.wrong for outcome in outcomes.values())
    asked = wrong + sum(len(outcome.latencies) for outcome in outcomes.values())
    cell = Cell((wrong,), samples=asked, out_of=asked)
    found.rows.append(Row("vscode: wrong answers", "", {Glovebox.name: cell}, better=""))
    return found


@contextmanager
def _window(place: Path) -> Iterator[SyncRuntime]:
    """An agent in a window that has run a first command."""
    from playwright.sync_api import Error
    from tests.support.vscode import PLACE
    from tests.vscode.harness.browser import running_browser
    from tests.vscode.harness.desk import Desk
    from tests.vscode.harness.editor import Program, packaged, running_editor
    from tests.vscode.harness.hub import running_hub

    if not PLACE.exists():
        raise Unavailable(f"no VS Code: glovebox vscode install --to {PLACE}")
    try:
        package = packaged(place / "glovebox.vsix", _MAKING_LIMIT)
        with (
            running_hub(place / "state") as hub,
            running_editor(
                Program(PLACE), place / "home", hub.state, package, "--disable-workspace-trust"
            ) as editor,
            running_browser() as browser,
        ):
            desk = Desk(hub, editor, browser, place / "folders")
            with desk.window(desk.folder("measured")) as window:
                window.connect()
                with window.agent() as agent:
                    agent.run("true", timeout=60)
                    yield agent
    except (AssertionError, OSError, subprocess.SubprocessError, Error) as error:
        raise Unavailable(str(error)) from error
    except GloveboxError as error:
        raise LoadError(str(error)) from error


def _first_command(agent: SyncRuntime, turn: int) -> bool:
    return agent.run(f"echo {turn}", session=f"new-{turn}", timeout=60).content == str(turn)


def _take(outcome: Outcome, action: Action, agent: SyncRuntime, turn: int) -> None:
    """Take down one answer; only the time of a right one counts."""
    began = perf_counter()
    right = action(agent, turn)
    took = perf_counter() - began
    if right:
        outcome.latencies.append(1000 * took)
    else:
        outcome.wrong += 1


def _row(measure: str, outcome: Outcome) -> Row:
    row = Row(measure, "ms")
    if outcome.latencies:
        values = (quantile(outcome.latencies, 0.5), quantile(outcome.latencies, 0.95))
        row.cells[Glovebox.name] = Cell(values, samples=len(outcome.latencies))
    return row
