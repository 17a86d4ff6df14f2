"""An agent in a real VS Code window, in a process of its own. Times are taken here.

The program runs with the interpreter of a source tree, in that tree: agent, hub, extension, and how a window
is opened are the tree's. It needs nothing else of the benchmark, so trees without it can be measured too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

#: Seconds for building the extension.
_BUILD_LIMIT = 300.0


def run(agent: Any, turn: int) -> bool:
    answer = agent.run(f"echo turn {turn}")
    return bool((answer.content, answer.success) == (f"turn {turn}", True))


def read(agent: Any, turn: int) -> bool:
    return bool(agent.read("notes.txt").content == "one\ntwo\nthree\n")


def write(agent: Any, turn: int) -> bool:
    agent.write("written.txt", f"turn {turn}")
    return Path(agent.workspace, "written.txt").read_text() == f"turn {turn}\n"


def edit(agent: Any, turn: int) -> bool:
    file = Path(agent.workspace, "written.txt")
    agent.edit(str(file), command="str_replace", old_str=file.read_text().strip(), new_str=f"edit {turn}")
    return file.read_text() == f"edit {turn}\n"


def first(agent: Any, turn: int) -> bool:
    return bool(agent.run(f"echo {turn}", session=f"new-{turn}", timeout=60).content == str(turn))


#: Each does something, and returns whether it was done right.
ACTIONS: Mapping[str, Callable[[Any, int], bool]] = {
    action.__name__: action for action in (run, read, write, edit, first)
}


@contextmanager
def connected_agent(place: Path) -> Iterator[Any]:
    """An agent in a new window that has run a first command."""
    from tests.support.vscode import PLACE
    from tests.vscode.harness.browser import running_browser
    from tests.vscode.harness.hub import running_hub
    from tests.vscode.harness.vscode_server import ServerProgram, package_extension, running_server
    from tests.vscode.harness.workstation import Workstation

    package = package_extension(place / "glovebox.vsix", _BUILD_LIMIT)
    with ExitStack() as stack:
        hub = stack.enter_context(running_hub(place / "state"))
        server = stack.enter_context(
            running_server(
                ServerProgram(PLACE), place / "home", hub.state, package, "--disable-workspace-trust"
            )
        )
        workstation = Workstation(hub, server, stack.enter_context(running_browser()), place / "folders")
        window = stack.enter_context(workstation.window(workstation.folder("measured")))
        window.connect()
        agent = stack.enter_context(window.agent())
        agent.run("true", timeout=60)
        yield agent


def answer(agent: Any, action: str, turn: int) -> dict[str, float | str]:
    from glovebox.errors import GloveboxError

    began = time.perf_counter()
    try:
        is_right = ACTIONS[action](agent, turn)
    except GloveboxError as error:
        return {"failed": str(error)}
    took = 1000 * (time.perf_counter() - began)
    return {"ms": took} if is_right else {"wrong": f"{action} {turn} was not done right"}


def main() -> None:
    """Answer a line for each `action turn` of standard input; a first `{}` says that the window is there."""
    sys.path.insert(0, os.getcwd())
    with connected_agent(Path(sys.argv[1])) as agent:
        print("{}", flush=True)
        for line in sys.stdin:
            action, turn = line.split()
            print(json.dumps(answer(agent, action, int(turn))), flush=True)


if __name__ == "__main__":
    main()
