"""Windows come, break, come back and go, as real ones do."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import socketio  # type: ignore[import-untyped]

from glovebox.protocol import window as say
from tests.hub.hubs import RunningHub, running_hub
from tests.hub.window_client import FakeWindow, OpenedWindow, opened_window
from tests.support.proxy import running_proxy
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


class Asking(threading.Thread):
    """An action under way."""

    def __init__(self, hub: RunningHub, window_id: str, action: str, **args: Any) -> None:
        super().__init__(daemon=True)
        self._asked = hub, window_id, action, args
        self._answer: httpx.Response | Exception | None = None
        self.start()

    def run(self) -> None:
        """Ask."""
        try:
            hub, window_id, action, args = self._asked
            self._answer = hub.act(window_id, action, **args)
        except httpx.HTTPError as error:
            self._answer = error

    def answer(self) -> httpx.Response:
        """What it was answered."""
        self.join(LIMIT)
        assert isinstance(self._answer, httpx.Response), self._answer
        return self._answer

    def error(self) -> str:
        """The code of what it was answered."""
        return error_id(self.answer())


def error_id(answer: httpx.Response) -> str:
    """The code of the error that an action was answered with."""
    assert answer.status_code == 200, answer.text
    return str(answer.json()["extras"].get("error_id", ""))


WAITING = "echo begun >>log; until [ -e go ]; do sleep 0.02; done; echo over"


def waiting(hub: RunningHub, opened: OpenedWindow, folder: Path) -> Asking:
    """A command that goes on until there is a file `go`; it has begun."""
    asking = Asking(hub, opened.id, "run", command=WAITING)
    wait_until(lambda: (folder / "log").exists(), what="the command to begin")
    return asking


@pytest.fixture
def opened(hub: RunningHub, tmp_path: Path) -> Iterator[OpenedWindow]:
    """A window of the shared hub."""
    with opened_window(hub.url, hub.key, tmp_path) as window:
        yield window


def refusal(hub: RunningHub, window_id: str, secret: str) -> str:
    """Why a socket is refused."""
    said: list[Any] = []

    async def connect() -> None:
        client = socketio.AsyncClient(reconnection=False)
        client.on("connect_error", said.append)
        with contextlib.suppress(socketio.exceptions.ConnectionError):
            await client.connect(
                hub.url,
                headers={"X-Session-API-Key": hub.key},
                auth={"id": window_id, "secret": secret},
                transports=["websocket"],
            )
        await client.shutdown()

    asyncio.run(connect())
    message: str = said[0]["message"]
    return message


def test_a_socket_needs_the_id_and_the_secret_of_a_window(hub: RunningHub, opened: OpenedWindow) -> None:
    assert refusal(hub, "nobody", opened.window.secret) == "unknown_window"
    assert refusal(hub, opened.id, "wrong") == "wrong_secret"
    assert hub.status(opened.id) == "connected"


def test_a_window_that_does_not_connect_goes(hub: RunningHub, tmp_path: Path) -> None:
    opened = OpenedWindow(hub.url, hub.key, tmp_path)
    opened.call(opened.window.register())
    assert hub.status(opened.id) == "waiting"
    asking = Asking(hub, opened.id, "read", path=str(tmp_path / "a"))
    hub.wait_for(opened.id, "gone")
    assert asking.error() == "window_lost"
    assert "did not connect within 6 s" in hub.client.get(f"/vscode/windows/{opened.id}/alive").text
    assert opened.call(opened.window.heartbeat()) == 404
    opened.close()


def test_a_window_that_breaks_off_is_waited_for_and_then_lost(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    asking = waiting(hub, opened, tmp_path)
    opened.call(opened.window.break_off())
    hub.wait_for(opened.id, "away")
    hub.wait_for(opened.id, "gone")
    assert asking.error() == "window_lost"
    assert "did not come back within 6 s" in asking.answer().json()["content"]


def test_a_window_that_is_killed_is_away_at_once(hub: RunningHub, tmp_path: Path) -> None:
    window = subprocess.Popen(
        [sys.executable, "-m", "tests.hub.window_client", hub.url, hub.key, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert window.stdout is not None
    window_id = window.stdout.readline().strip()
    assert hub.status(window_id) == "connected"
    window.kill()
    window.wait()
    window.stdout.close()
    hub.wait_for(window_id, "away")


@pytest.mark.attack
def test_a_window_that_says_it_is_another_does_not_evict_it(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    asking = waiting(hub, opened, tmp_path)
    with opened_window(hub.url, hub.key, tmp_path, instance=opened.window.instance) as stranger:
        assert stranger.id != opened.id
        assert hub.status(opened.id) == "connected"
        assert opened.window.is_connected
        assert "hello" in hub.run(stranger.id, "echo hello")
    (tmp_path / "go").touch()
    assert asking.answer().status_code == 200


@pytest.mark.attack
def test_a_window_that_says_it_is_another_with_a_wrong_secret_does_not_evict_it(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    async def second() -> FakeWindow:
        other = FakeWindow(hub.url, hub.key, tmp_path, instance=opened.window.instance)
        other.id, other.secret = opened.window.id, "x" * 43
        await other.register(same=True)
        return other

    assert opened.call(second()).id != opened.id
    assert hub.status(opened.id) == "connected"
    assert opened.window.is_connected


def test_a_window_that_did_not_get_the_answer_takes_the_place_of_its_first_registration(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    async def registered_twice() -> tuple[str, str]:
        window = FakeWindow(hub.url, hub.key, tmp_path)
        await window.register()
        first = window.id
        await window.register()
        return first, window.id

    first, second = opened.call(registered_twice())
    assert (hub.status(first), hub.status(second)) == ("gone", "waiting")


def test_a_reloaded_window_is_the_same_box_and_forgets_what_it_was_doing(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    asking = waiting(hub, opened, tmp_path)
    before = opened.id
    opened.call(opened.window.break_off(forget=True))
    opened.call(opened.window.register(same=True))
    assert opened.id == before
    opened.call(opened.window.connect())
    assert asking.error() == "window_lost"
    assert "reloaded" in asking.answer().json()["content"]
    (tmp_path / "go").touch()
    assert hub.act(opened.id, "read", path=str(tmp_path / "log")).json()["content"].count("begun") == 1


def test_a_window_that_says_that_it_reloads_loses_what_it_was_doing_and_then_does_the_rest(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    under_way = waiting(hub, opened, tmp_path)
    opened.call(opened.window.begin_reload())
    assert hub.status(opened.id) == "reloading"
    assert under_way.error() == "window_lost"
    assert "reloaded or closed" in under_way.answer().json()["content"]
    held = Asking(hub, opened.id, "write", path=str(tmp_path / "a"), content="b")
    wait_until(lambda: outstanding(hub) > 0, what="an order that waits")
    opened.call(opened.window.register(same=True))
    opened.call(opened.window.connect())
    assert held.answer().status_code == 200
    assert hub.status(opened.id) == "connected"
    assert (tmp_path / "a").read_text() == "b\n"


def test_a_window_that_says_that_it_reloads_and_was_closed_goes(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    opened.call(opened.window.begin_reload())
    held = Asking(hub, opened.id, "read", path=str(tmp_path / "a"))
    hub.wait_for(opened.id, "gone")
    assert held.error() == "window_lost"
    assert "did not come back within 12 s" in held.answer().json()["content"]


def test_a_window_that_was_given_up_a_moment_ago_gets_its_id_back_with_its_secret(
    hub: RunningHub, opened: OpenedWindow
) -> None:
    before = opened.id
    opened.call(opened.window.break_off(forget=True))
    hub.wait_for(before, "gone")
    opened.call(opened.window.register(same=True))
    opened.call(opened.window.connect())
    assert opened.id == before
    assert "again" in hub.run(before, "echo again")


@pytest.mark.attack
def test_the_id_of_a_window_that_is_gone_is_not_given_to_another(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    opened.call(opened.window.break_off(forget=True))
    hub.wait_for(opened.id, "gone")
    assert opened.call(claimed(hub, tmp_path, opened.id, "x" * 43)) != opened.id
    assert opened.call(claimed(hub, tmp_path, opened.id, "")) != opened.id


def test_a_window_whose_user_has_disconnected_it_does_not_get_its_id_back(
    hub: RunningHub, opened: OpenedWindow
) -> None:
    before = opened.id
    opened.call(opened.window.leave())
    opened.call(opened.window.register(same=True))
    assert opened.id != before


def test_an_unresponsive_window_is_taken_over_with_its_secret(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    under_way = waiting(hub, opened, tmp_path)
    opened.window.beating = False
    hub.wait_for(opened.id, "unresponsive")

    async def reloaded() -> FakeWindow:
        after = FakeWindow(hub.url, hub.key, tmp_path)
        after.id, after.secret = opened.window.id, opened.window.secret
        await after.register(same=True)
        await after.connect()
        return after

    after = opened.call(reloaded())
    assert after.id == opened.id
    assert under_way.error() == "window_lost"
    (tmp_path / "go").touch()
    assert "taken over" in hub.run(after.id, "echo taken over")
    wait_until(lambda: not opened.window.is_connected, what="the first socket to be closed")
    assert refusal(hub, opened.id, opened.window.secret) == "wrong_secret"
    assert opened.call(opened.window.heartbeat()) == 404
    assert re.search(rf"{after.id} .*, which was unresponsive, is taken over", hub.log.read_text())
    opened.call(after.close())


@pytest.mark.attack
def test_an_unresponsive_window_is_not_taken_over_without_its_secret(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    opened.window.beating = False
    hub.wait_for(opened.id, "unresponsive")
    assert opened.call(claimed(hub, tmp_path, opened.id, "x" * 43)) != opened.id
    assert opened.window.is_connected
    opened.window.beating = True
    hub.wait_for(opened.id, "connected")


async def claimed(hub: RunningHub, folder: Path, window_id: str, secret: str) -> str:
    """The id that a window gets that claims to be another one."""
    window = FakeWindow(hub.url, hub.key, folder)
    window.id, window.secret = window_id, secret
    await window.register(same=True)
    return window.id


def outstanding(hub: RunningHub) -> int:
    """How many orders the hub waits for."""
    count: int = hub.client.get("/api/vscode/stats").json()["orders_outstanding"]
    return count


def test_two_sockets_of_a_window_are_one(hub: RunningHub, opened: OpenedWindow, tmp_path: Path) -> None:
    async def second() -> FakeWindow:
        other = FakeWindow(hub.url, hub.key, tmp_path, instance=opened.window.instance)
        other.id, other.secret = opened.window.id, opened.window.secret
        await other.connect()
        return other

    other = opened.call(second())
    wait_until(lambda: not opened.window.is_connected, what="the first socket to be closed")
    assert hub.status(opened.id) == "connected"
    (tmp_path / "a").write_text("b")
    assert "b" in hub.act(opened.id, "read", path=str(tmp_path / "a")).json()["content"]
    assert [type(order) for order in opened.window.begun] == []
    assert other.begun
    opened.call(other.close())


def test_a_window_whose_main_thread_hangs_is_unresponsive_until_it_answers(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("b")
    opened.window.beating = False
    hub.wait_for(opened.id, "unresponsive")
    assert error_id(hub.act(opened.id, "read", path=str(tmp_path / "a"))) == "window_unresponsive"
    assert opened.window.begun == []
    opened.window.beating = True
    hub.wait_for(opened.id, "connected")
    assert hub.act(opened.id, "read", path=str(tmp_path / "a")).status_code == 200


def test_a_paused_window_refuses_until_it_goes_on(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("b")
    opened.window.paused = True
    # The hub has not heard of it yet: the window refuses by itself.
    assert error_id(hub.act(opened.id, "read", path=str(tmp_path / "a"))) == "window_paused"
    opened.call(opened.window.change())
    assert hub.status(opened.id) == "paused"
    seen = len(opened.window.begun)
    assert error_id(hub.act(opened.id, "read", path=str(tmp_path / "a"))) == "window_paused"
    assert len(opened.window.begun) == seen
    opened.window.paused = False
    opened.call(opened.window.change())
    assert hub.act(opened.id, "read", path=str(tmp_path / "a")).status_code == 200


def test_a_window_that_leaves_is_gone_and_says_why(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    asking = waiting(hub, opened, tmp_path)
    opened.call(opened.window.leave("Enough for today."))
    assert hub.status(opened.id) == "gone"
    assert asking.error() == "window_left"
    assert "Enough for today." in asking.answer().json()["content"]
    assert "Enough for today." in hub.act(opened.id, "run", command="pwd").json()["detail"]


def test_folders_and_trust_change(hub: RunningHub, opened: OpenedWindow, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    opened.window.hands.folders.append(other)
    opened.window.hands.trusted = False
    opened.call(opened.window.change())
    window = hub.windows(workspace=str(other))[0]
    assert window["id"] == opened.id
    assert not window["trusted"]


def test_a_command_goes_on_while_the_network_is_cut(hub: RunningHub, tmp_path: Path) -> None:
    with running_proxy(hub.url) as network, opened_window(network.url, hub.key, tmp_path) as opened:
        asking = waiting(hub, opened, tmp_path)
        network.cut()
        hub.wait_for(opened.id, "away")
        (tmp_path / "go").touch()  # it ends while nobody can hear that
        network.mend()
        observation = asking.answer().json()
        assert "over" in observation["content"]
        assert observation["extras"]["metadata"]["exit_code"] == 0
        assert (tmp_path / "log").read_text() == "begun\n"
        assert hub.status(opened.id) == "connected"


def test_an_order_that_is_given_while_the_network_is_cut_is_carried_out_afterwards(
    hub: RunningHub, tmp_path: Path
) -> None:
    with running_proxy(hub.url) as network, opened_window(network.url, hub.key, tmp_path) as opened:
        network.cut()
        hub.wait_for(opened.id, "away")
        asking = Asking(hub, opened.id, "write", path=str(tmp_path / "a"), content="b")
        wait_until(lambda: outstanding(hub) > 0, what="an order")
        network.mend()
        assert asking.answer().status_code == 200
        assert (tmp_path / "a").read_text() == "b\n"


def test_a_network_that_stays_cut_loses_the_window(hub: RunningHub, tmp_path: Path) -> None:
    with running_proxy(hub.url) as network, opened_window(network.url, hub.key, tmp_path) as opened:
        asking = waiting(hub, opened, tmp_path)
        network.cut()
        assert asking.error() == "window_lost"
        assert hub.status(opened.id) == "gone"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_windows_come_back_to_a_hub_that_was_restarted(tmp_path: Path, how: signal.Signals) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with (
        running_hub(tmp_path, "--heartbeat", "1", "--grace", "15") as hub,
        opened_window(hub.url, hub.key, folder) as opened,
    ):
        waiting(hub, opened, folder)
        before = opened.id
        hub.restart(how)
        assert hub.status(before) in ("away", "connected")
        hub.wait_for(before, "connected")
        opened.call(opened.window.greeted())
        wait_until(lambda: len(opened.window.cancelled) == 1, what="the order of before to be taken back")
        assert "begun" in hub.act(before, "read", path=str(folder / "log")).json()["content"]
        (folder / "go").touch()
        wait_until(lambda: not opened.window.doing, what="the command of before to end")
        assert "again" in hub.run(before, "echo again")
        assert (folder / "log").read_text() == "begun\n"


def test_an_answer_that_makes_no_sense_is_said_to_be_that(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    opened.window.says = lambda order_id, order: [
        {"kind": "succeeded", "id": order_id, "number": 1, "answer": 7}
    ]
    answer = hub.act(opened.id, "read", path=str(tmp_path / "a"))
    assert error_id(answer) == "bad_window_answer"
    opened.window.says = lambda order_id, order: None
    (tmp_path / "a").write_text("b")
    assert hub.act(opened.id, "read", path=str(tmp_path / "a")).status_code == 200


NONSENSE: list[Any] = [
    None, 7, "x", [], {"orders": 7}, {"id": {}}, b"\0", {"folders": [{"path": 1}]}, {"kind": "printed"},
    {"orders": [], "paused": False, "trusted": True, "folders": [{"name": "", "path": "relative"}]},
]  # fmt: skip


def test_nonsense_on_the_socket_harms_nobody(hub: RunningHub, opened: OpenedWindow, tmp_path: Path) -> None:
    for event in ("told", "hello", "changed", "nothing", "connect"):
        for data in NONSENSE:
            opened.call(opened.window.emit(event, data))
    (tmp_path / "a").write_text("b")
    assert hub.act(opened.id, "read", path=str(tmp_path / "a")).status_code == 200
    assert hub.windows(id=opened.id)[0]["folders"] == [{"name": tmp_path.name, "path": str(tmp_path)}]


def test_garbage_in_place_of_a_socket_harms_nobody(
    hub: RunningHub, opened: OpenedWindow, tmp_path: Path
) -> None:
    head = (
        "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nX-Session-API-Key: {hub.key}\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    for frame in (b"\x81\x81\0\0\0\0z", b"\x82\x84\0\0\0\0\xff\xff\xff\xff", b"\xff" * 64):
        with socket.create_connection(("127.0.0.1", hub.port), 10) as raw:
            raw.sendall(head.encode() + frame)
            raw.recv(1000)
    (tmp_path / "a").write_text("b")
    assert hub.act(opened.id, "read", path=str(tmp_path / "a")).status_code == 200


def test_fifty_windows_at_once_are_fifty_boxes(tmp_path: Path) -> None:
    folders = [tmp_path / f"{number:02}" for number in range(50)]
    for folder in folders:
        folder.mkdir()
        (folder / "name").write_text(f"I am {folder.name}.\n")
    with running_hub(tmp_path) as hub, opened_window(hub.url, hub.key, tmp_path) as first:

        async def open_all() -> list[FakeWindow]:
            windows = [FakeWindow(hub.url, hub.key, folder) for folder in folders]
            return list(await asyncio.gather(*(window.open() for window in windows)))

        windows = first.call(open_all())
        try:
            assert len(hub.windows(status="connected")) == 51
            asked = [
                Asking(hub, window.id, "read", path=str(folder / "name"))
                for window, folder in zip(windows, folders, strict=True)
            ]
            for asking, folder in zip(asked, folders, strict=True):
                assert f"I am {folder.name}." in asking.answer().json()["content"]
            assert all(isinstance(order, say.Order) for window in windows for order in window.begun)
        finally:
            first.call(_close_all(windows))


async def _close_all(windows: list[FakeWindow]) -> None:
    await asyncio.gather(*(window.close() for window in windows))
