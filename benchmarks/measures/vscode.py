"""A VS Code window that is a box: the latency of actions through it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.harness import OWN, Group, Measure, Stage, choose
from benchmarks.processes import Failed, Unavailable, Wrong
from glovebox import SyncRuntime
from glovebox.errors import GloveboxError
from glovebox.protocol.observations import CmdOutputObservation


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
    agent.edit(str(file), command="str_replace", old_str=file.read_text().strip(), new_str=f"edit {turn}")
    return file.read_text() == f"edit {turn}\n"


def run_first_command(agent: SyncRuntime, turn: int) -> bool:
    return agent.run(f"echo {turn}", session=f"new-{turn}", timeout=60).content == str(turn)


_FIRST = "first command in a new terminal"
#: From an agent and a number: each does something, and returns whether it was done right.
ACTIONS: Mapping[str, Callable[[SyncRuntime, int], bool]] = {
    "`echo` in a terminal": run_command,
    "read, small file": read,
    "write, small file that an editor shows": write,
    "edit, small file that an editor shows": edit,
}


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    counts = {**dict.fromkeys(ACTIONS, n(200, 15)), _FIRST: n(10, 2)}
    row = "ms ↓ | {}; p50 / p95 | :p50 :p95"
    actions = {**ACTIONS, _FIRST: run_first_command}
    return [
        Stage(
            agent_in_window,
            [
                Measure(one.__name__, partial(act, one), row.format(label), counts[label], 60)
                for label, one in actions.items()
            ],
        )
    ]


def act(action: Callable[[SyncRuntime, int], bool], agent: SyncRuntime, turn: int) -> None:
    try:
        is_right = action(agent, turn)
    except (GloveboxError, OSError) as error:
        raise Failed(str(error)) from error
    if not is_right:
        raise Wrong(f"{action.__name__} {turn} was not done right")


@contextmanager
def agent_in_window(peer: object) -> Iterator[SyncRuntime]:
    """An agent in a real window, in a headless browser, that has run a first command."""
    from playwright.sync_api import Error
    from tests.support.vscode import PLACE
    from tests.vscode.harness.browser import running_browser
    from tests.vscode.harness.hub import running_hub
    from tests.vscode.harness.vscode_server import ServerProgram, package_extension, running_server
    from tests.vscode.harness.workstation import Workstation

    if not PLACE.exists():
        raise Unavailable(f"no VS Code: glovebox vscode install --to {PLACE}")
    try:
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glovebox-bench-")))
            package = package_extension(place / "glovebox.vsix", 300.0)
            hub = stack.enter_context(running_hub(place / "state"))
            program, flag = ServerProgram(PLACE), "--disable-workspace-trust"
            server = stack.enter_context(running_server(program, place / "home", hub.state, package, flag))
            workstation = Workstation(hub, server, stack.enter_context(running_browser()), place / "folders")
            window = stack.enter_context(workstation.window(workstation.folder("measured")))
            window.connect()
            agent = stack.enter_context(window.agent())
            agent.run("true", timeout=60)
            yield agent
    except (AssertionError, OSError, subprocess.SubprocessError, Error, GloveboxError) as error:
        raise Failed(str(error)) from error


GROUP = Group("vscode", (OWN,), stages)
