"""A VS Code window that is a box: the latency of actions through it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks.harness import NOT_OFFERED, OWN, Group, Measure, Results, Sizes, table
from benchmarks.load import Outcome
from benchmarks.processes import Failed
from glovebox import SyncRuntime
from glovebox.errors import GloveboxError
from glovebox.protocol.observations import CmdOutputObservation

SIZES = {"actions": (200, 15), "terminals": (10, 2)}


def run_command(agent: SyncRuntime, turn: int) -> bool:
    answer = agent.run(f"echo turn {turn}")
    shown = (answer.content, answer.success) if isinstance(answer, CmdOutputObservation) else ()
    return shown == (f"turn {turn}", True)


def read(agent: SyncRuntime, turn: int) -> bool:
    return agent.read("notes.txt").content == "one\ntwo\nthree\n"


def write(agent: SyncRuntime, turn: int) -> bool:
    agent.write("written.txt", f"turn {turn}")
    return Path(agent.workspace, "written.txt").read_text() == f"turn {turn}\n"


def edit(agent: SyncRuntime, turn: int) -> bool:
    file = Path(agent.workspace, "written.txt")
    agent.edit(str(file), command="str_replace", old_str=f"turn {turn}", new_str=f"edit {turn}")
    return file.read_text() == f"edit {turn}\n"


def run_first_command(agent: SyncRuntime, turn: int) -> bool:
    return agent.run(f"echo {turn}", session=f"new-{turn}", timeout=60).content == str(turn)


#: From an agent and a number: each does something, and returns whether it was done right.
ACTIONS: Mapping[str, Callable[[SyncRuntime, int], bool]] = {
    "`echo` in a terminal": run_command,
    "read, small file": read,
    "write, small file that an editor shows": write,
    "edit, small file that an editor shows": edit,
}
_ALL = {**ACTIONS, "first command in a new terminal": run_first_command}


def measures(size: Sizes) -> list[Measure]:
    rows = "".join(
        f"ms ↓ | {label}; p50 / p95 | {one.__name__}:p50 {one.__name__}:p95\n" for label, one in _ALL.items()
    )
    wrong = " ".join(f"{action.__name__}:wrong" for action in _ALL.values())
    return table(f"{rows} | wrong answers | {wrong}", "vscode: ")


def run(results: Results, peers: Sequence[object]) -> None:
    for name in results.names[1:]:
        results.excuse(name, NOT_OFFERED)
    results.say("starting a hub, VS Code and a browser")
    with tempfile.TemporaryDirectory(prefix="glovebox-bench-") as place, _window(Path(place)) as agent:
        turns = [(turn, action) for turn in range(results.size.actions) for action in ACTIONS.values()]
        for turn, action in (*turns, *((turn, run_first_command) for turn in range(results.size.terminals))):
            began = perf_counter()
            is_right = action(agent, turn)
            took = 1000 * (perf_counter() - began)
            results.take(OWN, action.__name__, Outcome([took]) if is_right else Outcome(wrong=1))


@contextmanager
def _window(place: Path) -> Iterator[SyncRuntime]:
    """An agent in a real window, in a headless browser, that has run a first command."""
    from playwright.sync_api import Error
    from tests.support.vscode import PLACE
    from tests.vscode.harness.browser import running_browser
    from tests.vscode.harness.hub import running_hub
    from tests.vscode.harness.vscode_server import ServerProgram, package_extension, running_server
    from tests.vscode.harness.workstation import Workstation

    if not PLACE.exists():
        raise Failed(f"no VS Code: glovebox vscode install --to {PLACE}")
    try:
        package = package_extension(place / "glovebox.vsix", 300.0)
        with (
            running_hub(place / "state") as hub,
            running_server(
                ServerProgram(PLACE), place / "home", hub.state, package, "--disable-workspace-trust"
            ) as server,
            running_browser() as browser,
        ):
            workstation = Workstation(hub, server, browser, place / "folders")
            with workstation.window(workstation.folder("measured")) as window:
                window.connect()
                with window.agent() as agent:
                    agent.run("true", timeout=60)
                    yield agent
    except (AssertionError, OSError, subprocess.SubprocessError, Error, GloveboxError) as error:
        raise Failed(str(error)) from error


GROUP = Group(SIZES, measures, run)
