"""A VS Code window that is a box: the latency of actions through it, for this source tree and for another."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import OWN, Group, Measure, Stage, choose
from benchmarks.peers import vscode_window
from benchmarks.processes import Failed, Program, Unavailable, Wrong

#: The column of another source tree.
BEFORE = "before"
ROOT = Path(__file__).parents[2]
_START_LIMIT, _LIMIT, _END_LIMIT = 600.0, 120.0, 30.0
_LABELS: Mapping[str, str] = {
    "run": "`echo` in a terminal",
    "read": "read, small file",
    "write": "write, small file that an editor shows",
    "edit": "edit, small file that an editor shows",
    "first": "first command in a new terminal",
}


def stages(quick: bool) -> list[Stage]:
    n = choose(quick)
    counts = {**dict.fromkeys(_LABELS, n(100, 15)), "first": n(10, 2)}
    row = "ms ↓ | {}; p50 / p95 | :p50 :p95"
    return [
        Stage(
            opened_window,
            [
                Measure(name, partial(act, name), row.format(label), counts[name], seconds=120)
                for name, label in _LABELS.items()
            ],
        )
    ]


class OtherTree:
    """Another checkout of this project, with an environment of its own in `.venv`."""

    name = BEFORE

    def __init__(self, tree: Path) -> None:
        self.tree = tree.absolute()

    def install(self) -> None:
        if not (self.tree / ".venv/bin/python").exists():
            raise Unavailable(f"no environment: make setup in {self.tree}")

    def version(self) -> str:
        command = ["git", "-C", str(self.tree), "log", "-1", "--format=%h %s"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or str(self.tree)


class WindowProgram(Program):
    """The program that opens a window and acts in it, with the interpreter of a tree."""

    def __init__(self, tree: Path, python: str) -> None:
        super().__init__()
        command = [python, "-P", vscode_window.__file__, str(self.folder)]
        self.run(command, {}, tree, is_asked=True)

    def ask(self, question: str = "", limit: float = _LIMIT) -> Any:
        """The answer to a line, or without one the first that the program says."""
        assert self.process is not None
        questions, answers = self.process.stdin, self.process.stdout
        assert questions is not None
        assert answers is not None
        try:
            if question:
                questions.write(question.encode() + b"\n")
                questions.flush()
            if not select.select([answers], [], [], limit)[0]:
                raise Failed(f"no answer within {limit:.0f} s")
            return json.loads(answers.readline())
        except (OSError, ValueError) as error:
            raise Failed(f"ended: {self.last_words()}") from error

    def close(self) -> None:
        """Let it close the window before its processes are ended."""
        if self.process is not None and self.process.stdin:
            with suppress(OSError, subprocess.TimeoutExpired):
                self.process.stdin.close()
                self.process.wait(_END_LIMIT)
        super().close()
        if self.process is not None and self.process.stdout:
            self.process.stdout.close()


@contextmanager
def opened_window(peer: Any) -> Iterator[WindowProgram]:
    tree, python = ROOT, sys.executable
    if isinstance(peer, OtherTree):
        tree, python = peer.tree, str(peer.tree / ".venv/bin/python")
    with WindowProgram(tree, python) as program:
        program.ask(limit=_START_LIMIT)
        yield program


def act(action: str, program: WindowProgram, turn: int) -> float:
    match program.ask(f"{action} {turn}"):
        case {"ms": float(took)}:
            return took
        case {"wrong": str(why)}:
            raise Wrong(why)
        case other:
            raise Failed(str(other.get("failed", other)))


GROUP = Group("vscode", (OWN, BEFORE), stages)
