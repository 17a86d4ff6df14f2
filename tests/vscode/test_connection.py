"""Connecting a window to a hub, pausing, reloading and disconnecting it, as its user does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from glovebox import BoxSpec, SyncRuntime
from glovebox.errors import GloveboxError, InvalidKey, NoWindow, SeveralWindows, WindowLeft, WindowPaused
from glovebox.protocol.observations import ErrorObservation
from tests.support.running import wait_until
from tests.support.waiting import LIMIT
from tests.vscode.harness.workstation import Window, Workstation


@pytest.fixture(scope="module")
def own_window(workstation: Workstation) -> Iterator[Window]:
    """A window that tests in this file connect and disconnect."""
    with workstation.window(workstation.folder("own")) as window:
        wait_until(lambda: "Glovebox" in window.status(), 60, "the status bar")
        yield window


@pytest.fixture
def own(own_window: Window) -> Iterator[Window]:
    """The same window, disconnected."""
    own_window.bring_to_front()
    own_window.tidy()
    yield own_window
    if own_window.hub.status(own_window.folder) != "gone":
        own_window.command("Glovebox: Disconnect")
        own_window.hub.wait_for(own_window.folder, "gone")


def wait_for_notification(window: Window, text: str, seconds: float = LIMIT) -> None:
    """Wait until a notification contains a text."""
    wait_until(
        lambda: any(text in message for message in window.notifications()),
        seconds,
        f"a notification with {text!r}",
    )


def test_nothing_is_sent_before_the_user_connects_the_window(own: Window) -> None:
    assert own.hub.windows(own.folder) == []
    with pytest.raises(NoWindow, match="Glovebox: Connect"), own.agent():
        pass
    own.connect()
    (window,) = own.hub.windows(own.folder)
    assert window["name"] == "own"
    assert "run" in window["capabilities"]
    assert window["trusted"] is True
    wait_until(lambda: "onnected" in own.status() or "$" in own.status(), what="the status bar")


def test_the_menu_of_the_status_bar_disconnects(own: Window) -> None:
    own.connect()
    assert any("Pause" in row for row in own.choose_in_menu("Disconnect"))
    own.hub.wait_for(own.folder, "gone")


def test_the_first_action_is_announced_and_the_user_can_disconnect_there(own: Window) -> None:
    own.connect()
    with own.agent() as agent:
        agent.run("echo hello")
        wait_for_notification(own, "An agent is working in this window")
        assert {"Pause", "Disconnect"} <= set(own.buttons())
        own.press_button("An agent is working", "Disconnect")
        own.hub.wait_for(own.folder, "gone")
        with pytest.raises(GloveboxError):
            agent.run("echo too late")


def test_actions_fail_while_the_agent_is_paused_and_work_when_it_is_resumed(own: Window) -> None:
    own.connect()
    with own.agent() as agent, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(agent.run, "echo before; sleep 600", session="paused")
        wait_until(lambda: "before" in own.terminal_text(), what="the command")
        own.command("Glovebox: Pause Agent")
        with pytest.raises(WindowPaused, match="paused"):
            waiting.result(LIMIT)
        own.hub.wait_for(own.folder, "paused")
        with pytest.raises(WindowPaused):
            agent.read("notes.txt")
        with pytest.raises(WindowPaused):
            agent.run("echo too", session="other")
        wait_until(lambda: "aused" in own.status(), what="the status bar")
        own.command("Glovebox: Resume Agent")
        own.hub.wait_for(own.folder, "connected")
        assert agent.read("notes.txt").content == "one\ntwo\nthree\n"
        assert agent.run("echo on", session="other").content == "on"


def test_a_command_that_ran_on_while_its_agent_was_paused_can_be_interrupted(own: Window) -> None:
    own.connect()
    with own.agent() as agent, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(agent.run, "echo endless; sleep 600", session="ran-on")
        wait_until(lambda: "endless" in own.terminal_text(), what="the command")
        own.command("Glovebox: Pause Agent")
        with pytest.raises(WindowPaused):
            waiting.result(LIMIT)
        own.command("Glovebox: Resume Agent")
        own.hub.wait_for(own.folder, "connected")
        refused = agent.run("echo too early", session="ran-on")
        assert isinstance(refused, ErrorObservation)
        assert refused.error_id == "busy"
        agent.run("C-c", session="ran-on", is_input=True, timeout=LIMIT)
        wait_until(lambda: "^C" in own.terminal_text(), what="the interrupt")
        wait_until(lambda: agent.run("echo free", session="ran-on").content == "free", what="a free terminal")


def test_an_action_under_way_fails_with_the_reason_when_the_user_disconnects(own: Window) -> None:
    own.connect()
    with own.agent() as agent, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(agent.run, "echo during; sleep 600", session="leaving")
        wait_until(lambda: "during" in own.terminal_text(), what="the command")
        own.command("Glovebox: Disconnect")
        with pytest.raises(WindowLeft, match="disconnected"):
            waiting.result(LIMIT)
    own.hub.wait_for(own.folder, "gone")


def test_a_reloaded_window_is_the_same_box_again_by_itself(own: Window) -> None:
    own.connect()
    before = own.hub.window_id(own.folder)
    with own.agent() as agent:
        assert agent.run("echo before").content == "before"
        own.reload()
        own.hub.wait_for(own.folder, "connected")
        assert own.hub.window_id(own.folder) == before
        assert agent.run("echo after", timeout=60).content == "after"
        assert agent.read("notes.txt").content == "one\ntwo\nthree\n"


def test_a_window_that_is_reloaded_at_once_and_twice_is_the_same_box_again(own: Window) -> None:
    own.connect()
    before = own.hub.window_id(own.folder)
    own.reload()
    own.reload()
    own.hub.wait_for(own.folder, "connected")
    wait_until(lambda: "connected" in own.status(), what="the status bar")
    assert own.hub.window_id(own.folder) == before


def test_a_window_that_was_disconnected_stays_so_when_it_is_reloaded(own: Window) -> None:
    own.connect()
    (connected,) = own.hub.windows(own.folder)
    own.command("Glovebox: Disconnect")
    own.hub.wait_for(own.folder, "gone")
    own.reload()
    wait_until(lambda: "Glovebox" in own.status(), 60, "the status bar")
    wait_until(
        lambda: not psutil.pid_exists(connected["pid"]),
        what="the end of the extension host from before the reload",
    )
    with pytest.raises(AssertionError, match="waited"):
        own.hub.wait_for(own.folder, "connected", 3)
    assert own.status() == "Glovebox"


def test_a_hub_that_is_not_there_is_explained_and_tried_again(own: Window) -> None:
    with own.hub.address_file(url="http://127.0.0.1:9"):
        own.command("Glovebox: Connect")
        wait_for_notification(own, "No hub answers at http://127.0.0.1:9")
        assert any("glovebox hub" in message for message in own.notifications())
        assert "Retry" in own.buttons()
    own.press_button("No hub answers", "Retry")
    own.hub.wait_for(own.folder, "connected")


def test_a_wrong_key_is_explained_and_the_user_can_set_another(own: Window) -> None:
    with own.hub.address_file(key="not-the-key"):
        own.command("Glovebox: Connect")
        wait_for_notification(own, "does not accept the key")
        assert own.hub.windows(own.folder) == []
        own.press_button("does not accept the key", "Set Key")
        own.answer(own.hub.key)
        own.hub.wait_for(own.folder, "connected")
        own.command("Glovebox: Disconnect")
        own.hub.wait_for(own.folder, "gone")
    own.command("Glovebox: Forget Hub Key")
    own.connect()


def test_two_windows_are_two_boxes_also_in_the_background(own: Window, agent: SyncRuntime) -> None:
    own.connect()
    with own.agent() as other:
        for _ in range(5):
            assert other.run("pwd").content == str(own.folder)
            assert agent.run("cd $OLDPWD 2>/dev/null; echo $PWD", session="two").content != str(own.folder)
        assert other.read("notes.txt").content == "one\ntwo\nthree\n"
        other.write("only here.txt", "here")
    assert (own.folder / "only here.txt").exists()
    with pytest.raises(SeveralWindows, match="own"), SyncRuntime("vscode", settings=own.hub.settings):
        pass


def test_a_window_is_a_box_for_clients_with_its_address_and_the_key(
    shared_window: Window, agent: SyncRuntime
) -> None:
    (listed,) = shared_window.hub.windows(shared_window.folder)
    address = f"{shared_window.hub.url}{listed['path']}"
    spec = BoxSpec(start_limit=LIMIT)
    with SyncRuntime(address, spec, key=shared_window.hub.key, settings=shared_window.hub.settings) as box:
        assert box.run("echo plain box").content == "plain box"
        assert box.read("notes.txt").content == "one\ntwo\nthree\n"
    with (
        pytest.raises(InvalidKey),
        SyncRuntime(address, key="wrong", settings=shared_window.hub.settings) as box,
    ):
        box.read("notes.txt")


def test_a_closed_window_is_gone(short_grace_workstation: Workstation) -> None:
    folder = short_grace_workstation.folder("closed")
    with short_grace_workstation.window(folder) as window:
        window.connect()
        window.leave()
        short_grace_workstation.hub.wait_for(folder, "gone", 2 * LIMIT)
