"""A stock OpenHands in a window: a whole conversation of its CodeActAgent with a scripted model."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.openhands.conftest import ROOT, SCRIPTED, beside, openhands_python
from tests.support.running import wait_until
from tests.vscode.harness.workstation import Window, Workstation
from tests.vscode.test_guide import screenshot
from tests.vscode.test_views import wait_for_row

__all__ = ["beside", "openhands_python"]

pytestmark = pytest.mark.timeout(900)
#: Seconds for the conversation on a busy machine.
LIMIT = 700
CONFIG = """
[core]
runtime = "glovebox.openhands.GloveboxRuntime"
file_store = "local"
file_store_path = "{place}/store"

[llm]
model = "openai/scripted"
api_key = "none"
num_retries = 0
native_tool_calling = true

[sandbox]
volumes = "{folder}:/workspace:rw"
"""
MCP = """
[mcp]
stdio_servers = [{{ name = "scripted", command = "{python}", args = ["{server}"] }}]
"""


def run(command: str, **more: Any) -> dict[str, Any]:
    """A call of a tool by the model."""
    return {"tool": "execute_bash", "arguments": {"command": command, "security_risk": "LOW"}, **more}


def edit(path: Path, command: str, **more: str) -> dict[str, Any]:
    arguments = {"command": command, "path": str(path), "security_risk": "LOW", **more}
    return {"tool": "str_replace_editor", "arguments": arguments}


FINISH = {"tool": "finish", "arguments": {"message": "Done."}}


def calls(folder: Path) -> list[dict[str, Any]]:
    """What the model says."""
    hello = folder / "hello.py"
    code = "import os; print(os.environ['FOOBAR'], 6 * 7)"
    return [
        run('echo "$FOOBAR from $PWD"; export KEPT=yes; mkdir -p deep; cd deep'),
        run('echo "$KEPT"; pwd; cat ../sent.txt; cd ..'),
        edit(hello, "create", file_text="print('hello')\n"),
        edit(hello, "str_replace", old_str="hello", new_str="hello from OpenHands"),
        run("python3 hello.py"),
        {"tool": "execute_ipython_cell", "arguments": {"code": code, "security_risk": "LOW"}},
        {"tool": "echo", "arguments": {"text": "said"}},
        FINISH,
    ]


class Conversation:
    """OpenHands in a process of its own, as a user who follows docs/openhands.md starts it."""

    def __init__(self, window: Window, python: Path, beside: list[str], place: Path) -> None:
        self._window = window
        self._python = python
        self._beside = beside
        self._place = place

    @contextlib.contextmanager
    def started(self, said: list[dict[str, Any]]) -> Iterator[None]:
        """Runs while the block does, and is ended with it."""
        place, folder = self._place, self._window.folder
        (place / "sent.txt").write_text("copied in\n")
        server = folder / "tools/server.py"
        config = CONFIG + (MCP if server.exists() else "")
        named = config.format(place=place, folder=folder, python=sys.executable, server=server)
        (place / "config.toml").write_text(named)
        plan = {
            "paths": [str(ROOT / "src"), *self._beside],
            "config": str(place / "config.toml"),
            "sid": place.name,
            "source": str(place / "sent.txt"),
            "calls": said,
        }
        (place / "plan.json").write_text(json.dumps(plan))
        variables = {
            "GLOVEBOX_BACKEND": "vscode",
            "SANDBOX_ENV_FOOBAR": "BAZ",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        }
        with (place / "log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    self._python,
                    "-m",
                    "tests.openhands.conversation",
                    place / "plan.json",
                    place / "result.json",
                ],
                cwd=ROOT,
                env={**self._window.hub.environment(), **variables},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield
        finally:
            self._process.kill()
            self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        return (self._place / "log").read_text()

    def result(self) -> dict[str, Any]:
        """What it has written when it has ended."""
        assert self._process.wait(LIMIT) == 0, self.log[-6000:]
        result: dict[str, Any] = json.loads((self._place / "result.json").read_text())
        return result


def answers(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What the calls of the model were answered."""
    return [one for one in result["events"] if one.get("observation") and "tool_call_metadata" in one]


def test_a_whole_conversation_of_openhands(
    workstation: Workstation, openhands_python: Path, beside: list[str], tmp_path: Path
) -> None:
    # In the folder, since the companion box may see nothing else.
    folder = workstation.folder("openhands", {"tools/server.py": SCRIPTED.read_text()})
    with workstation.window(folder) as window:
        window.connect()
        conversation = Conversation(window, openhands_python, beside, tmp_path)
        with conversation.started(calls(folder)):
            saw = conversation.result()
        kinds = [one["observation"] for one in answers(saw)]
        problem = f"{kinds}, offered: {saw['offered']}\n{conversation.log[-6000:]}"
        assert kinds == ["run", "run", "edit", "edit", "run", "run_ipython", "mcp"], problem
        first, second, created, edited, ran, cell, tool = [one["content"] for one in answers(saw)]
        assert first == f"BAZ from {folder}"
        assert second == f"yes\n{folder}/deep\ncopied in"
        assert created.startswith("File created successfully at: ")
        assert "has been edited" in edited
        assert ran == "hello from OpenHands"
        assert cell.startswith("BAZ 42"), cell
        assert '"text": "said"' in tool, tool
        assert (saw["state"], saw["root"]) == ("AgentState.FINISHED", str(folder))
        assert "hello.py" in saw["copied"]
        assert (folder / "hello.py").read_text() == "print('hello from OpenHands')\n"
        wait_until(lambda: "hello from OpenHands" in window.editor_text(), what="the edit")
        wait_until(lambda: workstation.hub.windows(folder)[0]["agent"] == "", what="the end of its stay")
        home = workstation.server.home
        assert not (home / ".bashrc").exists() or "FOOBAR" not in (home / ".bashrc").read_text()
        assert not (home / ".gitconfig").exists()
        with window.agent() as next_one:
            assert next_one.run('pwd; echo "[$KEPT$FOOBAR]"').content == f"{folder}\n[]"


def test_a_new_user_decides_watches_undoes_pauses_and_disconnects(
    workstation: Workstation, openhands_python: Path, beside: list[str], tmp_path: Path
) -> None:
    """The steps of the guide, each with its picture."""
    folder = workstation.folder("greeting")
    workstation.server.write_settings({"glovebox.approval": "commands", "glovebox.showEdits": "diff"})
    try:
        with workstation.window(folder) as window:
            window.connect()
            window.show_view()
            conversation = Conversation(window, openhands_python, beside, tmp_path)
            with conversation.started(steps(folder, tmp_path)):
                wait_until(
                    lambda: conversation.has_ended or len(window.rows("Agent")) > 1, LIMIT, "its start"
                )
                assert not conversation.has_ended, conversation.log[-6000:]
                follow_steps(window, tmp_path)
                result = conversation.result()
        kinds = [one["observation"] for one in answers(result)]
        assert kinds == ["run", "edit", "edit", "error", "run"], conversation.log[-6000:]
        assert "paused" in answers(result)[3]["content"]
        assert answers(result)[4]["content"] == "hello"
    finally:
        workstation.server.write_settings({})


def steps(folder: Path, place: Path) -> list[dict[str, Any]]:
    """What the model says; it goes on when the user has done a step."""
    return [
        run("mkdir -p out && date > out/started"),
        edit(folder / "hello.py", "create", file_text="print('hello')\n"),
        edit(folder / "notes.txt", "str_replace", old_str="two", new_str="2"),
        run("python3 hello.py", after=str(place / "undone")),
        run("python3 hello.py", after=str(place / "resumed")),
        FINISH,
    ]


def follow_steps(window: Window, place: Path) -> None:
    """What the user does in the window, from the first question to the end."""
    wait_for_row(window, "Agent", "mkdir -p out", "waits for your approval")
    assert not (window.folder / "out").exists()
    window.tidy()
    window.hover_row("Agent", "allow?")
    screenshot(window, "vscode_step_approve.png", place)
    window.press_in_row("Agent", "allow?", "Allow")
    wait_for_row(window, "Agent", "run mkdir -p out", "succeeded", "exit 0")
    wait_for_row(window, "Changes", "notes.txt")
    wait_until(lambda: any("notes.txt" in tab for tab in window.tabs()), what="the edit as a comparison")
    wait_until(lambda: window.editor_text().splitlines()[:2] == ["one", "2"], what="the new text")
    window.tidy()
    screenshot(window, "vscode_step_diff.png", place)
    window.press_in_row("Changes", "notes.txt", "Undo")
    wait_until(lambda: (window.folder / "notes.txt").read_text() == "one\ntwo\nthree\n", what="the old text")
    wait_until(lambda: "notes.txt" not in str(window.rows("Changes")), what="one change less")
    screenshot(window, "vscode_step_undo.png", place)
    (place / "undone").touch()
    wait_for_row(window, "Agent", "python3 hello.py", "waits for your approval")
    window.press_in_title("Agent", "Pause")
    wait_until(lambda: "paused" in window.status(), what="a paused window")
    wait_for_row(window, "Agent", "run python3 hello.py", "failed")
    window.tidy()
    screenshot(window, "vscode_step_pause.png", place)
    window.press_in_title("Agent", "Resume")
    wait_until(lambda: "paused" not in window.status(), what="a window that goes on")
    (place / "resumed").touch()
    wait_for_row(window, "Agent", "python3 hello.py", "waits for your approval")
    window.press_in_row("Agent", "allow?", "Allow")
    wait_for_row(window, "Agent", "run python3 hello.py", "succeeded", "exit 0")
    screenshot(window, "vscode_step_resume.png", place)
    wait_until(lambda: window.hub.windows(window.folder)[0]["agent"] == "", seconds=LIMIT, what="its end")
    window.command("Glovebox: Disconnect")
    window.hub.wait_for(window.folder, "gone")
    wait_until(lambda: "connected" not in window.status(), what="the status bar")
    window.tidy()
    screenshot(window, "vscode_step_disconnect.png", place)
