"""A stock OpenHands in a window: a whole conversation of its CodeActAgent with a scripted model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.openhands.conftest import ROOT, SCRIPTED, beside, openhands_python
from tests.support.running import wait_until
from tests.vscode.harness.workstation import Window, Workstation

__all__ = ["beside", "openhands_python"]

pytestmark = pytest.mark.timeout(600)
#: Seconds for the conversation on a busy machine.
LIMIT = 500
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

[mcp]
stdio_servers = [{{ name = "scripted", command = "{python}", args = ["{server}"] }}]
"""


def calls(folder: Path) -> list[dict[str, Any]]:
    """What the model says."""

    def run(command: str) -> dict[str, Any]:
        return {"tool": "execute_bash", "arguments": {"command": command, "security_risk": "LOW"}}

    def edit(command: str, **more: str) -> dict[str, Any]:
        arguments = {"command": command, "path": str(folder / "hello.py"), "security_risk": "LOW", **more}
        return {"tool": "str_replace_editor", "arguments": arguments}

    code = "import os; print(os.environ['FOOBAR'], 6 * 7)"
    return [
        run('echo "$FOOBAR from $PWD"; export KEPT=yes; mkdir -p deep; cd deep'),
        run('echo "$KEPT"; pwd; cat ../sent.txt; cd ..'),
        edit("create", file_text="print('hello')\n"),
        edit("str_replace", old_str="hello", new_str="hello from OpenHands"),
        run("python3 hello.py"),
        {"tool": "execute_ipython_cell", "arguments": {"code": code, "security_risk": "LOW"}},
        {"tool": "echo", "arguments": {"text": "said"}},
        {"tool": "finish", "arguments": {"message": "Done."}},
    ]


def converse(window: Window, python: Path, beside: list[str], place: Path) -> dict[str, Any]:
    """Run the conversation, as a user who follows docs/openhands.md would."""
    (place / "sent.txt").write_text("copied in\n")
    config = CONFIG.format(
        place=place, folder=window.folder, python=sys.executable, server=window.folder / "tools/server.py"
    )
    (place / "config.toml").write_text(config)
    plan = {
        "paths": [str(ROOT / "src"), *beside],
        "config": str(place / "config.toml"),
        "sid": "in-a-window",
        "source": str(place / "sent.txt"),
        "calls": calls(window.folder),
    }
    (place / "plan.json").write_text(json.dumps(plan))
    variables = {"GLOVEBOX_BACKEND": "vscode", "SANDBOX_ENV_FOOBAR": "BAZ", "OPENHANDS_SUPPRESS_BANNER": "1"}
    ran = subprocess.run(
        [python, "-m", "tests.openhands.conversation", place / "plan.json", place / "result.json"],
        cwd=ROOT,
        env={**window.hub.environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
    )
    assert ran.returncode == 0, ran.stdout[-6000:]
    result: dict[str, Any] = json.loads((place / "result.json").read_text())
    return {**result, "log": ran.stdout}


def test_a_whole_conversation_of_openhands(
    workstation: Workstation, openhands_python: Path, beside: list[str], tmp_path: Path
) -> None:
    # In the folder, since the companion box may see nothing else.
    folder = workstation.folder("openhands", {"tools/server.py": SCRIPTED.read_text()})
    with workstation.window(folder) as window:
        window.connect()
        saw = converse(window, openhands_python, beside, tmp_path)
        answers = [one for one in saw["events"] if one.get("observation") and "tool_call_metadata" in one]
        kinds = [one["observation"] for one in answers]
        problem = f"{kinds}, offered: {saw['offered']}\n{saw['log'][-6000:]}"
        assert kinds == ["run", "run", "edit", "edit", "run", "run_ipython", "mcp"], problem
        first, second, created, edited, ran, cell, tool = [one["content"] for one in answers]
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
