"""Plugins start when it is time, are looked after, and end with the box."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.plugins.packages import install
from tests.support.running import RunningBox, running_box, wait_until

BEGIN = """
    import asyncio
    import os
    from typing import ClassVar
    from glovebox.plugins import Action, Call, Observation, Plugin, PluginFailed

    class AskObservation(Observation):
        observation: ClassVar[str] = "asked"

    class AskAction(Action[AskObservation]):
        action: ClassVar[str] = "ask"
"""
ASKED = """
        def handlers(self):
            return [self.ask]

        async def ask(self, action: AskAction, call: Call) -> AskObservation:
            return AskObservation(content="here")
"""
SLOW = f"""{BEGIN}
    class ThePlugin(Plugin):
        name = "slow"

        async def start(self):
            while not os.path.exists(os.path.join(self.context.settings.working_dir, "go")):
                await asyncio.sleep(0.01)
{ASKED}"""
FAILING = f"""{BEGIN}
    class ThePlugin(Plugin):
        name = "failing"

        async def start(self):
            raise PluginFailed("There is no licence for it.")
{ASKED}"""
LAZY = f"""{BEGIN}
    class ThePlugin(Plugin):
        name = "lazy"
        needs = ("helping",)
        starts = "on_use"

        async def start(self):
            assert self.context.find("helping").started
{ASKED}"""
HELPING = """
    from glovebox.plugins import Plugin

    class ThePlugin(Plugin):
        name = "helping"
        starts = "on_use"
        started = False

        async def start(self):
            self.started = True
"""
PROCESS = f"""{BEGIN}
    class ThePlugin(Plugin):
        name = "process"

        async def start(self):
            self.process = await self.context.run(["sh", "-c", "echo ready; sleep 1000 & wait"])

        async def health(self):
            return {{"pid": self.process.pid, "said": await self.process.printed()}}
{ASKED}"""


def told(box: RunningBox, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = box.client.get(f"/plugins/{name}").json()
    return answer


def wait_for_state(box: RunningBox, name: str, state: str, **fields: Any) -> dict[str, Any]:
    def reached() -> bool:
        now = told(box, name)
        return now["state"] == state and all(now[key] == value for key, value in fields.items())

    wait_until(reached, what=f"{name} {state}")
    return told(box, name)


def step(box: RunningBox, name: str) -> dict[str, Any]:
    steps = box.client.get("/startup").json()["steps"]
    return next((one for one in steps if one["name"] == name), {})


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_slow_plugin_delays_only_its_own_actions_and_shows_its_progress(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "slow", SLOW)
    with running_box(tmp_path / "ws", "--plugins", "slow", environment=environment) as box:
        assert box.run("echo at once") == "at once"
        assert told(box, "slow")["state"] == "starting"
        assert step(box, "plugin slow")["state"] == "running"
        # The action waits while another lets the plugin go on.
        body = {"action": {"action": "ask", "args": {}}}
        with box.client.stream("POST", "/execute_action_stream", json=body) as stream:
            box.run("touch go")
            assert '"content":"here"' in stream.read().decode()
        assert told(box, "slow")["state"] == "running"
        assert step(box, "plugin slow")["state"] == "done"


def test_a_plugin_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    environment = {**install(tmp_path / "site", "slow", SLOW), "INIT_PLUGIN_TIMEOUT": "1"}
    with running_box(tmp_path / "ws", "--plugins", "slow", environment=environment) as box:
        state = wait_for_state(box, "slow", "failed")
        assert state["error"] == "It did not start within 1 s (INIT_PLUGIN_TIMEOUT)."
        assert box.run("echo served") == "served"
        answer = box.client.post("/execute_action", json={"action": {"action": "ask", "args": {}}})
        assert answer.status_code == 500
        assert answer.headers["x-glovebox-error"] == "plugin_failed"
        # Somebody mends it.
        box.run("touch go")
        assert box.client.post("/plugins/slow/restart").json()["state"] == "running"
        assert box.execute("ask")["content"] == "here"


def test_a_plugin_that_fails_says_why_to_whoever_needs_it(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "failing", FAILING)
    with running_box(tmp_path / "ws", "--plugins", "failing", environment=environment) as box:
        wait_for_state(box, "failing", "failed")
        answer = box.client.post("/execute_action", json={"action": {"action": "ask", "args": {}}})
        assert answer.status_code == 500
        assert answer.json()["detail"] == (
            "Internal server error: Plugin failing is not available. "
            "It did not start: There is no licence for it."
        )
        assert step(box, "plugin failing")["error"] == "There is no licence for it."


def test_a_plugin_can_wait_for_its_first_use_and_start_after_what_it_needs(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "lazy", LAZY)
    install(tmp_path / "site", "helping", HELPING)
    with running_box(tmp_path / "ws", "--plugins", "lazy", environment=environment) as box:
        assert told(box, "lazy")["state"] == "waiting"
        assert told(box, "helping")["state"] == "waiting"
        assert box.execute("ask")["content"] == "here"
        assert told(box, "lazy")["state"] == "running"
        assert told(box, "lazy")["needs"] == ["helping"]
        assert told(box, "helping")["state"] == "running"


def test_a_plugin_whose_need_fails_says_so(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "lazy", LAZY)
    install(tmp_path / "site", "helping", HELPING.replace("self.started = True", "raise OSError(28, 'full')"))
    with running_box(tmp_path / "ws", "--plugins", "lazy", environment=environment) as box:
        answer = box.client.post("/execute_action", json={"action": {"action": "ask", "args": {}}})
        assert answer.status_code == 500
        assert "Plugin helping is not available" in answer.json()["detail"]


def test_a_crashed_process_is_started_once_more_and_reported(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "process", PROCESS)
    with running_box(tmp_path / "ws", "--plugins", "process", environment=environment) as box:
        wait_for_state(box, "process", "running")
        first = told(box, "process")["health"]["pid"]
        wait_until(lambda: told(box, "process")["health"]["said"] == "ready\n", what="its output")
        os.kill(first, signal.SIGKILL)
        again = wait_for_state(box, "process", "running", restarts=1)
        assert "ended with exit status 137" in again["error"]
        second = again["health"]["pid"]
        assert second != first
        os.kill(second, signal.SIGKILL)
        over = wait_for_state(box, "process", "failed")
        assert over["error"].startswith("It crashed again")
        with box.client.stream("GET", "/events", params={"kinds": "plugin"}) as stream:
            lines = stream.iter_lines()
            seen = ""
            while "It crashed again" not in seen:
                seen += next(lines)
        assert "It crashed and was started again" in seen
        assert box.client.post("/plugins/process/restart").json()["state"] == "running"
        assert box.execute("ask")["content"] == "here"


def test_processes_of_a_plugin_end_with_the_box(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "process", PROCESS)
    with running_box(tmp_path / "ws", "--plugins", "process", environment=environment) as box:
        wait_for_state(box, "process", "running")
        pid = told(box, "process")["health"]["pid"]
        wait_until(lambda: bool(psutil.Process(pid).children()), what="its child")
        family = [pid, *(child.pid for child in psutil.Process(pid).children())]
    wait_until(lambda: not any(map(alive, family)), what="the end of its processes")


def test_processes_of_a_plugin_end_with_a_box_that_is_killed(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "process", PROCESS)
    with running_box(tmp_path / "ws", "--plugins", "process", environment=environment) as box:
        wait_for_state(box, "process", "running")
        pid = told(box, "process")["health"]["pid"]
        box.process.kill()
        box.process.wait()
        wait_until(lambda: not alive(pid), what="the end of its process")


@pytest.mark.parametrize("name", ["terminal", "files"])
def test_what_the_box_cannot_do_without_is_not_restarted(shared_box: RunningBox, name: str) -> None:
    answer = shared_box.client.post(f"/plugins/{name}/restart")
    assert answer.status_code == 409
    assert answer.headers["x-glovebox-error"] == "plugin_needed"
    assert shared_box.run("echo still here") == "still here"


def test_a_plugin_that_is_not_loaded_is_not_found(shared_box: RunningBox) -> None:
    for answer in (
        shared_box.client.get("/plugins/nope"),
        shared_box.client.post("/plugins/nope/restart"),
    ):
        assert answer.status_code == 404
        assert answer.headers["x-glovebox-error"] == "no_such_plugin"
