"""Hubs, networks and browsers that go away, and what an agent is told."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from glovebox.errors import GloveboxError, NoWindow, WindowLost, WindowUnresponsive
from glovebox.protocol.observations import CmdOutputObservation
from tests.support.proxy import Proxy, running_proxy
from tests.support.waiting import LIMIT, wait_until
from tests.vscode.harness.browser import running_browser
from tests.vscode.harness.desk import Desk, Window

COUNTED = "echo begun; echo x >> runs; until test -e {}; do sleep 0.05; done; echo done"


@pytest.fixture(scope="module")
def wire(desk: Desk) -> Iterator[Proxy]:
    """The network between the window of these tests and the hub."""
    with running_proxy(desk.hub.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def far_window(desk: Desk, wire: Proxy) -> Iterator[Window]:
    """A window that is connected over it."""
    with desk.window(desk.folder("far")) as window:
        with desk.hub.known_as(url=wire.url):
            window.connect()
        yield window


@pytest.fixture
def far(far_window: Window, wire: Proxy) -> Iterator[Window]:
    """The same, which finds the hub over that network only."""
    with far_window.hub.known_as(url=wire.url):
        yield far_window


def test_a_break_of_the_network_within_the_grace_time_loses_and_repeats_nothing(
    far: Window, wire: Proxy
) -> None:
    before = far.hub.id_of(far.folder)
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
    assert far.hub.id_of(far.folder) == before
    far.hub.wait_for(far.folder, "connected")


def test_an_action_during_a_break_waits_for_the_window(far: Window, wire: Proxy) -> None:
    with far.agent() as agent, ThreadPoolExecutor(1) as threads:
        wire.cut()
        far.hub.wait_for(far.folder, "away")
        waiting = threads.submit(agent.read, "notes.txt")
        wire.mend()
        assert waiting.result(60).content == "one\ntwo\nthree\n"


@pytest.fixture
def brief_wire(desk: Desk, brief_desk: Desk) -> Iterator[Proxy]:
    """The network to a hub that gives windows up soon."""
    with running_proxy(brief_desk.hub.url) as proxy, desk.hub.known_as(url=proxy.url):
        yield proxy


@pytest.fixture
def brief_window(brief_desk: Desk, brief_wire: Proxy) -> Iterator[Window]:
    """A window that is connected over it."""
    with brief_desk.window(brief_desk.folder("brief")) as window:
        window.connect()
        yield window


def test_a_break_beyond_the_grace_time_is_told_and_the_window_comes_back_as_a_new_one(
    brief_window: Window, brief_wire: Proxy
) -> None:
    far, wire = brief_window, brief_wire
    before = far.hub.id_of(far.folder)
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
    assert far.hub.id_of(far.folder) != before
    with far.agent() as agent:
        assert agent.run("echo back", timeout=60).content == "back"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_window_finds_a_hub_that_was_started_again_and_keeps_its_id(
    window: Window, number: signal.Signals
) -> None:
    before = window.hub.id_of(window.folder)
    window.hub.stop(number)
    window.hub.start()
    window.hub.wait_for(window.folder, "connected")
    assert window.hub.id_of(window.folder) == before
    with window.agent() as agent:
        assert agent.run("echo again").content == "again"


def test_a_window_whose_browser_was_killed_is_told_apart_from_one_that_works(brief_desk: Desk) -> None:
    desk = brief_desk
    folder = desk.folder("killed")
    with running_browser() as browser:
        page = Window(browser, folder, desk.hub)
        page.open(desk.editor.address(folder))
        page.connect()
        with page.agent() as agent:
            assert agent.run("echo alive").content == "alive"
            browser.kill()
            desk.hub.wait_for(folder, "unresponsive")
            with pytest.raises(WindowUnresponsive):
                agent.read("notes.txt")
            with pytest.raises(WindowUnresponsive):
                agent.run("echo nobody sees this")
        with pytest.raises(NoWindow, match="answer"), page.agent():
            pass
