"""The tools that the window offers to VS Code's own agents, called by another extension."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import LIMIT, wait_until
from tests.vscode.harness.browser import Browser
from tests.vscode.harness.hub import running_hub
from tests.vscode.harness.vscode_server import ROOT, ServerProgram, running_server
from tests.vscode.harness.workstation import Window, Workstation

CALLER = Path(__file__).parent / "tool_caller"


@pytest.fixture(scope="module")
def window(
    program: ServerProgram, package: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Window]:
    """A window that is not connected to a hub, with an extension that calls tools."""
    place = tmp_path_factory.mktemp("tools")
    with (
        running_hub(place / "state") as hub,
        running_server(program, place / "home", hub.state, package, "--disable-workspace-trust") as server,
    ):
        server.write_settings({"chat.disableAIFeatures": False})
        server.install(packaged(CALLER, place / "caller.vsix"))
        station = Workstation(hub, server, browser, place / "folders")
        with station.window(station.folder("project")) as window:
            yield window


def packaged(extension: Path, target: Path) -> Path:
    """Package an extension of these tests."""
    vsce = ROOT / "extension/node_modules/.bin/vsce"
    flags = ["--no-dependencies", "--allow-missing-repository", "--skip-license"]
    command = [str(vsce), "package", *flags, "--out", str(target)]
    done = subprocess.run(command, cwd=extension, capture_output=True, text=True, timeout=4 * LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def call(window: Window, name: str, **given: Any) -> dict[str, Any]:
    """Call a tool, and allow it as the user."""
    file = window.folder / "answer.json"
    file.unlink(missing_ok=True)

    def answer() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        # The keys that open the palette again on a busy machine close the dialog of the first try.
        return {} if found.get("error") == "Canceled: Canceled" else found

    (window.folder / "call.json").write_text(json.dumps({"name": name, "input": given}))
    window.command("Tests: Call Tool")
    window.allow_tool(lambda: bool(answer()))
    wait_until(answer, 2 * LIMIT, "an answer of the tool")
    assert "error" not in answer(), answer()
    return answer()


def test_an_agent_of_vs_code_runs_commands_in_a_session_that_keeps_its_state(window: Window) -> None:
    answer = call(window, "glovebox_run", command="mkdir -p a && cd a && export X=1")
    assert {"glovebox_run", "glovebox_input"} <= set(answer["tools"])
    assert answer["text"] == f"[exit code 0, now in {window.folder}/a]"
    answer = call(window, "glovebox_run", command='echo "$PWD $X"; (exit 3)')
    assert answer["text"] == f"{window.folder}/a 1\n[exit code 3, now in {window.folder}/a]"
    assert window.hub.windows() == []


def test_an_agent_of_vs_code_answers_a_command_that_asks(window: Window) -> None:
    answer = call(
        window, "glovebox_run", command="read -p 'name? ' n; echo hello $n", timeout=3, session="ask"
    )
    assert "name?" in answer["text"]
    assert answer["text"].endswith("[still running after 3 s]")
    answer = call(window, "glovebox_input", text="Ada", session="ask", timeout=60)
    assert "hello Ada" in answer["text"]
    assert "[exit code 0" in answer["text"]
