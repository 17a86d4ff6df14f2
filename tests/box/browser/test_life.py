"""The browser starts when it is needed, belongs to the sandbox user, and ends with the box."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from benchmarks.processes import living

from tests.box.browser.pages import Browser
from tests.support.running import KEY, RunningBox, announced, running_box, wait_until
from tests.support.users import PYTHON_PATH, usable_interpreter
from tests.support.waiting import LIMIT

USER = "nobody"


def chromiums(box: RunningBox) -> list[psutil.Process]:
    """The processes of the browser: Chromium and what drives it."""
    found = []
    for process in psutil.Process(box.process.pid).children(recursive=True):
        try:
            if "glovebox.box.browser.worker" in " ".join(process.cmdline()):
                found += [process, *process.children(recursive=True)]
        except psutil.Error:
            continue
    return found


def test_it_starts_with_the_first_action(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box:
        assert box.client.get("/browser").json() == {"state": "stopped", "version": "", "pid": 0, "pages": []}
        assert box.client.get("/plugins/browser").json()["state"] == "running"
        assert not chromiums(box)
        assert not Browser(box).go("about:blank").error
        told = box.client.get("/browser").json()
        assert told["state"] == "running"
        assert told["pid"] in {process.pid for process in chromiums(box)}
        assert told["pages"] == [{"url": "about:blank", "title": "", "active": True}]
        assert "glovebox_browser_running 1" in box.client.get("/metrics").text


def test_chromium_is_started_with_all_that_playwright_wants(browser_box: RunningBox) -> None:
    """Of several lists of features Chromium takes the last, which is ours."""
    Browser(browser_box).go("about:blank")
    pid = browser_box.client.get("/browser").json()["pid"]
    lists = [
        set(part.partition("=")[2].split(","))
        for part in psutil.Process(pid).cmdline()
        if part.startswith("--disable-features=")
    ]
    assert len(lists) > 1
    assert lists[-1] >= set.union(*lists)


def test_two_actions_at_once_share_one_browser(tmp_path: Path) -> None:
    envelope = {"action": {"action": "browse_interactive", "args": {"browser_actions": "new_tab()"}}}
    with running_box(tmp_path / "ws") as box:
        with (
            box.client.stream("POST", "/execute_action_stream", json=envelope) as first,
            box.client.stream("POST", "/execute_action_stream", json=envelope) as second,
        ):
            assert first.read()
            assert second.read()
        assert len(box.client.get("/browser").json()["pages"]) == 3


def test_disabled_it_is_said_at_once(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--no-enable-browser") as box:
        for observation in (
            box.execute("browse", url="about:blank"),
            box.execute("browse_interactive", browser_actions="noop()"),
        ):
            assert observation["observation"] == "error"
            assert observation["content"] == "Browser functionality is not supported or disabled."
        assert box.client.get("/browser").status_code == 404


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_box(tmp_path: Path, number: signal.Signals) -> None:
    with running_box(tmp_path / "ws") as box:
        Browser(box).go("about:blank")
        processes = chromiums(box)
        profile = next(
            part.partition("=")[2]
            for process in processes
            for part in process.cmdline()
            if part.startswith("--user-data-dir=")
        )
        assert Path(profile).is_dir()
        assert len(processes) > 5
        box.process.send_signal(number)
        box.process.wait(LIMIT)
        wait_until(lambda: not living(processes), what="the end of Chromium")
        wait_until(lambda: not Path(profile).exists(), what="the end of its profile")


def test_its_process_is_started_again_when_it_was_killed(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box:
        browser = Browser(box)
        browser.go("about:blank")
        processes = chromiums(box)
        processes[0].kill()
        wait_until(
            lambda: box.client.get("/browser").json()["state"] == "stopped", what="its end to be noticed"
        )
        assert not browser.go("data:text/html,<h1>Again</h1>").error
        wait_until(lambda: not living(processes), what="the end of the old Chromium")


def test_a_step_whose_process_is_killed_is_answered(tmp_path: Path) -> None:
    envelope = {"action": {"action": "browse_interactive", "args": {"browser_actions": "noop(50000)"}}}
    with running_box(tmp_path / "ws") as box:
        browser = Browser(box)
        browser.go("about:blank")
        with box.client.stream("POST", "/execute_action_stream", json=envelope) as answer:
            lines = answer.iter_lines()
            assert "started" in next(lines)
            chromiums(box)[0].kill()
            rest = "\n".join(lines)
        assert "The browser's process has ended" in rest
        assert not browser.go("about:blank").error


@pytest.mark.parametrize("same_port", [True, False])
def test_a_browser_outlives_a_server_that_is_killed(tmp_path: Path, same_port: bool) -> None:
    """With another port it does not: no page may reach the box at its new one."""
    state, page = str(tmp_path / "state"), "data:text/html,<title>Kept</title><h1>Kept</h1>"
    with running_box(tmp_path / "ws", "--state-dir", state) as box:
        Browser(box).go(page)
        pid = box.client.get("/browser").json()["pid"]
        box.process.kill()
        box.process.wait(LIMIT)
        with restarted(tmp_path / "ws", state, box.url.rpartition(":")[2] if same_port else "0") as again:
            seen = Browser(again).act("noop(0)")
            assert seen.url == (page if same_port else "about:blank")
            assert (again.client.get("/browser").json()["pid"] == pid) is same_port
            processes = chromiums(again)
        wait_until(lambda: not living(processes), what="the end of Chromium")
        assert not psutil.pid_exists(pid)


@contextlib.contextmanager
def restarted(workspace: Path, state: str, port: str) -> Iterator[RunningBox]:
    """A second server for the same box."""
    environment = {**os.environ, "SESSION_API_KEY": KEY, "HOME": str(workspace.parent)}
    environment["GLOVEBOX_VIEWER_URL_FILE"] = str(workspace.parent / "viewer-url")
    process = subprocess.Popen(
        [sys.executable, "-m", "glovebox", "serve", port, "--working-dir", workspace, "--state-dir", state],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    try:
        box = RunningBox(process, announced(process), KEY, workspace)
        with box.client:
            yield box
    finally:
        process.terminate()
        process.wait(LIMIT)
        process.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_it_runs_as_the_sandbox_user(tmp_path: Path, site: str) -> None:
    python = usable_interpreter(USER, "playwright.async_api", "glovebox", "msgspec")
    tmp_path.chmod(0o755)
    flags = ("--username", USER, "--plugin-options", f"browser.python={python}")
    with running_box(tmp_path / "ws", *flags, environment={"PYTHONPATH": PYTHON_PATH}) as box:
        browser = Browser(box)
        seen = browser.go(f"{site}/plain.html")
        uid = pwd.getpwnam(USER).pw_uid
        assert {process.uids().real for process in chromiums(box)} == {uid}
        assert Path(seen.extras["screenshot_path"]).stat().st_uid == uid
        downloaded = browser.act(f'goto("{site}/download")')
        assert Path(downloaded.extras["file_path"]).stat().st_uid == uid
