"""The steps of docs/vscode.md, as a new user follows them, with screenshots.

With GLOVEBOX_TEST_PICTURES=1 the screenshots of the documentation are replaced.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.protocol.observations import ErrorObservation
from tests.support.running import wait_until
from tests.vscode.harness.browser import Browser
from tests.vscode.harness.hub import Hub, running_hub
from tests.vscode.harness.vscode_server import ServerProgram, running_server
from tests.vscode.harness.workstation import Window, Workstation

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "vscode.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def fresh(
    program: ServerProgram, package: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workstation]:
    """A new machine with the extension and the hub of the guide."""
    place = tmp_path_factory.mktemp("newcomer")
    with (
        running_hub(place / "state") as hub,
        running_server(program, place / "home", hub.state, package) as server,
    ):
        yield Workstation(hub, server, browser, place / "folders")


@pytest.fixture(scope="module")
def first(fresh: Workstation) -> Iterator[Window]:
    """The first window of a new user, which VS Code does not trust yet."""
    with fresh.window(fresh.folder("project")) as window:
        yield window


def screenshot(window: Window, name: str, tmp_path: Path) -> None:
    """Save a screenshot: in the documentation if GLOVEBOX_TEST_PICTURES is set."""
    where = DOCS / "images" if os.environ.get("GLOVEBOX_TEST_PICTURES") else tmp_path
    window.screenshot(where / name)
    assert (where / name).stat().st_size > 10_000


def test_a_folder_that_is_not_trusted_is_read_and_no_more(first: Window) -> None:
    first.connect("Glovebox: read only")
    wait_until(lambda: shown(first, "Restricted Mode") == 1, what="an explanation")
    assert "Manage Workspace Trust" in first.buttons()
    first.tidy()
    (listed,) = first.hub.windows(first.folder)
    assert listed["trusted"] is False
    with first.agent() as agent:
        assert agent.read("notes.txt").content == "one\ntwo\nthree\n"
        for answer in (agent.run("echo ran"), agent.write("notes.txt", "changed"), agent.run("echo again")):
            assert isinstance(answer, ErrorObservation), answer
            assert answer.error_id == "untrusted"
        wait_until(lambda: shown(first, "echo ran") == 1, what="a notice of the first refused action")
        assert len(first.notifications()) == 1, "neither the others nor an agent that works is announced"
        assert first.status() == "Glovebox: read only"
        assert sorted(path.name for path in first.folder.iterdir()) == ["notes.txt"]
        assert (first.folder / "notes.txt").read_text() == "one\ntwo\nthree\n"
        first.press_button("echo ran", "Manage Workspace Trust")
        first.press_trust()
        wait_until(lambda: first.hub.windows(first.folder)[0]["trusted"] is True, what="a trusted window")
        wait_until(lambda: "Glovebox: connected" in first.status(), what="the status bar")
        assert agent.run("echo trusted").content == "trusted"
        wait_until(lambda: shown(first, "An agent is working") == 1, what="the announcement")
    first.command("Glovebox: Disconnect")
    first.hub.wait_for(first.folder, "gone")


def shown(window: Window, text: str) -> int:
    """How many notifications contain a text."""
    return sum(text in message for message in window.notifications())


def test_the_guide_can_be_followed_to_the_letter(first: Window, tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(   from glovebox .*?)```", GUIDE, re.DOTALL)
    assert "run the command **Glovebox: Connect**" in GUIDE
    first.tidy()
    first.connect()
    assert "The status bar says\n   *Glovebox: connected*" in GUIDE
    wait_until(lambda: "Glovebox: connected" in first.status(), what="the status bar")
    screenshot(first, "vscode_connected.png", tmp_path)
    result = run_user_program(first.hub, "-c", dedented(snippet))
    assert result.stderr == ""
    assert result.stdout == "notes.txt\nhello from an agent\n"
    wait_until(lambda: "print('hello from an agent')" in first.editor_text(), what="the edit")
    assert first.tabs()[-1] == "hello.py"
    wait_until(lambda: "hello from an agent" in first.terminal_text(), what="the command")
    first.tidy()
    screenshot(first, "vscode_edit.png", tmp_path)


def test_the_command_of_the_guide_runs_in_the_window(first: Window) -> None:
    (line,) = re.findall(r"`\.venv/bin/glovebox (run --backend vscode .*?)`", GUIDE)
    result = run_user_program(first.hub, "-m", "glovebox", *shlex.split(line))
    assert (result.stdout, result.returncode) == ("hello.py  notes.txt\n", 0)


def test_every_command_and_setting_of_the_extension_is_in_the_guide_and_no_other() -> None:
    contributed = json.loads((DOCS.parent / "extension/package.json").read_text())["contributes"]
    titles = {command["title"] for command in contributed["commands"]} - {"Menu"}
    rows = re.findall(r"^\| Glovebox: (.*?) \| ", GUIDE, re.MULTILINE)
    named = {title for row in rows for title in row.split(", ")}
    assert titles <= named
    settings = contributed["configuration"]["properties"]
    documented = dict(re.findall(r"^\| `(glovebox\.\w+)` \| (.*?) \|", GUIDE, re.MULTILINE))
    assert documented.keys() == settings.keys()
    for name, setting in settings.items():
        default = setting["default"]
        shown = (
            "empty" if default == "" else f"`{default if isinstance(default, str) else json.dumps(default)}`"
        )
        assert documented[name] == shown


def dedented(text: str) -> str:
    return "\n".join(line.removeprefix("   ") for line in text.splitlines())


def run_user_program(hub: Hub, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with nothing but the environment of its user."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=hub.environment(),
        cwd=hub.home,
        capture_output=True,
        text=True,
        timeout=60,
    )
