"""An agent's stay in a window: what the user is asked, and what is left afterwards."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from glovebox import BoxSpec, SyncRuntime
from glovebox.errors import WindowRefused
from tests.support.running import wait_until
from tests.vscode.harness.workstation import Window, Workstation

QUESTION = "OpenHands wants to work in this window."


def runtime(window: Window, **more: object) -> SyncRuntime:
    return SyncRuntime("vscode", BoxSpec(agent="OpenHands", **more), settings=window.hub.settings)  # type: ignore[arg-type]


def shows(window: Window, message: str) -> bool:
    return any(message in text for text in window.notifications())


def test_terminals_end_with_the_stay_and_the_next_agent_starts_in_the_workspace(
    workstation: Workstation, tmp_path: Path
) -> None:
    folder = workstation.folder("stay")
    with workstation.window(folder) as window:
        window.connect()
        with runtime(window, workspace=str(folder), env={"GIVEN": "by the agent"}) as agent:
            run = agent.run("mkdir sub; cd sub; export LEFT=over; echo $GIVEN; echo $$ > ../shell")
            assert run.content == "by the agent"
            wait_until(
                lambda: "OpenHands is working in this window." in window.notifications(), what="a name"
            )
        shell = (folder / "shell").read_text().strip()
        wait_until(lambda: not Path(f"/proc/{shell}").exists(), what="the shell to end")
        with runtime(window, workspace=str(folder)) as agent:
            assert agent.run('pwd; echo "[$LEFT$GIVEN]"').content == f"{folder}\n[]"


def workspace(*folders: Path) -> Path:
    """A workspace of several folders."""
    file = folders[0].with_suffix(".code-workspace")
    file.write_text(json.dumps({"folders": [{"path": str(folder)} for folder in folders]}))
    return file


def test_the_users_of_several_windows_are_asked_and_one_question_is_enough(workstation: Workstation) -> None:
    first, second, common = (workstation.folder(f"asked-{name}") for name in ("first", "second", "common"))
    with (
        workstation.window(first, workspace=workspace(first, common)) as one,
        workstation.window(second, workspace=workspace(second, common)) as two,
        ThreadPoolExecutor(1) as pool,
    ):
        for window in (one, two):
            window.bring_to_front()
            window.connect()

        def start() -> str:
            with runtime(one, workspace=str(common), start_limit=300) as agent:
                return agent.run("pwd").content

        working = pool.submit(start)
        for window in (one, two):
            window.bring_to_front()
            wait_until(partial(shows, window, QUESTION), what="the question")
        two.press_link(QUESTION, "Allow")
        assert working.result(120) == str(second)
        one.bring_to_front()
        wait_until(lambda: not shows(one, QUESTION), what="the question to disappear")
        denied = pool.submit(start)
        for window in (one, two):
            window.bring_to_front()
            window.press_link(QUESTION, "Deny")
        with pytest.raises(WindowRefused, match="OpenHands was not allowed to work in a VS Code window"):
            denied.result(120)
