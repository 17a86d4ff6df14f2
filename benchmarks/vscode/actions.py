"""What is done in a window, each with the question whether the answer was right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from glovebox import SyncRuntime
from glovebox.protocol.observations import CmdOutputObservation

#: From an agent and a number: does it, and tells whether it was done right.
Action = Callable[[SyncRuntime, int], bool]


def run(agent: SyncRuntime, turn: int) -> bool:
    """A short command in a terminal that is open."""
    answer = agent.run(f"echo turn {turn}")
    return isinstance(answer, CmdOutputObservation) and (answer.content, answer.success) == (
        f"turn {turn}",
        True,
    )


def read(agent: SyncRuntime, turn: int) -> bool:
    """A small file."""
    return agent.read("notes.txt").content == "one\ntwo\nthree\n"


def write(agent: SyncRuntime, turn: int) -> bool:
    """A small file that is open in an editor."""
    agent.write("written.txt", f"turn {turn}")
    return Path(agent.workspace, "written.txt").read_text() == f"turn {turn}\n"


def edit(agent: SyncRuntime, turn: int) -> bool:
    """The same file, by replacing something in it."""
    file = Path(agent.workspace, "written.txt")
    agent.edit(str(file), command="str_replace", old_str=f"turn {turn}", new_str=f"edit {turn}")
    return file.read_text() == f"edit {turn}\n"


ACTIONS: Mapping[str, Action] = {
    "`echo` in a terminal": run,
    "read, small file": read,
    "write, small file that an editor shows": write,
    "edit, small file that an editor shows": edit,
}
