"""Lost hubs, networks and browsers, and the errors that an agent gets."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from glovebox.errors import GloveboxError, NoWindow, WindowLost, WindowUnresponsive
from glovebox.protocol.observations import CmdOutputObservation
from tests.support.proxy import Proxy, running_proxy
from tests.support.waiting import LIMIT, wait_until
from tests.vscode.harness.browser import Browser, running_browser
from tests.vscode.harness.hub import running_hub
from tests.vscode.harness.vscode_server import ServerProgram, running_server
from tests.vscode.harness.workstation import Window, Workstation

COUNTED = "echo begun; echo x >> runs; until test -e {}; do sleep 0.05; done; echo done"


@pytest.fixture(scope="module")
def wire(workstation: Workstation) -> Iterator[Proxy]:
    """A proxy between the window of these tests and the hub."""
    with running_proxy(workstation.hub.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def far_window(workstation: Workstation, wire: Proxy) -> Iterator[Window]:
    """A window that is connected through the proxy."""
    with workstation.window(workstation.folder("far")) as window:
        with workstation.hub.address_file(url=wire.url):
            window.connect()
        yield window


@pytest.fixture
def far(far_window: Window, wire: Proxy) -> Iterator[Window]:
    """The same, which finds the hub through the proxy only."""
    with far_window.hub.address_file(url=wire.url):
        yield far_window


def test_a_break_of_the_network_within_the_grace_time_loses_and_repeats_nothing(
    far: Window, wire: Proxy
) -> None:
    before = far.hub.window_id(far.folder)
    with far.agent() as agent, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(agent.run, COUNTED.format("go"), timeout=60)
        wait_until((far.folder / "runs").exists, what="the command")
        wire.cut()
        far.hub.wait_for(far.folder, "away")
        (far.folder / "go").touch()
        wire.mend()
        answer = waiting.result(60)
    assert isinstance(answer, CmdOutputObservation)
    assert (answer.content, answer.metadata.exit_code) == ("begun\ndone", 0)
    assert (far.folder / "runs").read_text() == "x\n"
    assert far.hub.window_id(far.folder) == before
    far.hub.wait_for(far.folder, "connected")


def test_an_action_during_a_break_waits_for_the_window(far: Window, wire: Proxy) -> None:
    with far.agent() as agent, ThreadPoolExecutor(1) as threads:
        wire.cut()
        far.hub.wait_for(far.folder, "away")
        waiting = threads.submit(agent.read, "notes.txt")
        wire.mend()
        assert waiting.result(60).content == "one\ntwo\nthree\n"


@pytest.fixture
def short_grace_proxy(workstation: Workstation, short_grace_workstation: Workstation) -> Iterator[Proxy]:
    """A proxy to a hub that removes lost windows soon."""
    with running_proxy(short_grace_workstation.hub.url) as proxy, workstation.hub.address_file(url=proxy.url):
        yield proxy


@pytest.fixture
def short_grace_window(short_grace_workstation: Workstation, short_grace_proxy: Proxy) -> Iterator[Window]:
    """A window that is connected through the proxy."""
    with short_grace_workstation.window(short_grace_workstation.folder("brief")) as window:
        window.connect()
        yield window


def test_a_break_beyond_the_grace_time_is_an_error_and_the_window_gets_a_new_id(
    short_grace_window: Window, short_grace_proxy: Proxy
) -> None:
    far, wire = short_grace_window, short_grace_proxy
    before = far.hub.window_id(far.folder)
    with far.agent() as agent, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(agent.run, "echo lost; sleep 600", session="lost", timeout=500)
        wait_until(lambda: "lost" in far.terminal_text(), what="the command")
        wire.cut()
        with pytest.raises(WindowLost):
            waiting.result(2 * LIMIT)
        far.hub.wait_for(far.folder, "gone")
        with pytest.raises(GloveboxError) as refused:
            agent.read("notes.txt")
        assert refused.value.code in ("no_such_window", "window_lost")
    wire.mend()
    far.hub.wait_for(far.folder, "connected")
    assert far.hub.window_id(far.folder) != before
    with far.agent() as agent:
        assert agent.run("echo back", timeout=60).content == "back"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_window_reconnects_to_a_restarted_hub_with_the_same_id(
    window: Window, number: signal.Signals
) -> None:
    before = window.hub.window_id(window.folder)
    window.hub.stop(number)
    window.hub.start()
    window.hub.wait_for(window.folder, "connected")
    assert window.hub.window_id(window.folder) == before
    with window.agent() as agent:
        assert agent.run("echo again").content == "again"


def test_a_window_whose_browser_was_killed_is_unresponsive(short_grace_workstation: Workstation) -> None:
    workstation = short_grace_workstation
    folder = workstation.folder("killed")
    with running_browser() as browser:
        page = Window(browser, folder, workstation.hub)
        page.open(workstation.server.address(folder))
        page.connect()
        with page.agent() as agent:
            assert agent.run("echo alive").content == "alive"
            browser.kill()
            workstation.hub.wait_for(folder, "unresponsive")
            with pytest.raises(WindowUnresponsive):
                agent.read("notes.txt")
            with pytest.raises(WindowUnresponsive):
                agent.run("echo nobody sees this")
        with pytest.raises(NoWindow, match="answer"), page.agent():
            pass


@pytest.fixture
def patient_workstation(
    program: ServerProgram, package: Path, browser: Browser, tmp_path: Path
) -> Iterator[Workstation]:
    """A server that keeps the extension hosts of lost windows, as VS Code does by default for hours."""
    with (
        running_hub(tmp_path / "state", "--heartbeat", "4") as hub,
        running_server(
            program, tmp_path / "home", hub.state, package,
            "--disable-workspace-trust", "--reconnection-grace-time", "3600",
        ) as server,
    ):  # fmt: skip
        yield Workstation(hub, server, browser, tmp_path / "folders")


def test_a_window_takes_over_from_an_extension_host_that_has_outlived_its_window(
    patient_workstation: Workstation,
) -> None:
    hub = patient_workstation.hub
    folder = patient_workstation.folder("orphan")
    with running_browser() as browser:
        page = Window(browser, folder, hub)
        page.open(patient_workstation.server.address(folder))
        page.connect()
        (before,) = hub.windows(folder)
        browser.kill()
    with patient_workstation.window(folder) as window:
        wait_until(lambda: hub.windows(folder)[0]["pid"] != before["pid"], 2 * LIMIT, "a new extension host")
        hub.wait_for(folder, "connected")
        (after,) = hub.windows()
        assert after["id"] == before["id"]
        assert psutil.pid_exists(before["pid"])
        assert f"{before['id']} ('orphan'), which was unresponsive, is taken over" in hub.log.read_text()
        with window.agent() as agent:
            assert agent.run("echo mine", timeout=LIMIT).content == "mine"
        assert [one["id"] for one in hub.windows()] == [before["id"]]
