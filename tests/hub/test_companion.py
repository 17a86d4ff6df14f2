"""MCP clients connect to a window at the hub's address, as OpenHands does, and reach its companion box."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.mcp.mcp_client import TRANSPORTS, Transport, connected, names, post, scripted, words
from tests.hub.hubs import RunningHub
from tests.hub.window_client import OpenedWindow, opened_window
from tests.hub.window_companion import WindowCompanion
from tests.support.running import RunningBox, running_box
from tests.support.waiting import until


@pytest.fixture(scope="module")
def companion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """The box beside the window."""
    place = tmp_path_factory.mktemp("companion") / "w"
    place.mkdir()
    with running_box(place, "--no-enable-browser") as box:
        yield box


@pytest.fixture
def opened(hub: RunningHub, companion: RunningBox, tmp_path: Path) -> Iterator[OpenedWindow]:
    """A window with a companion box."""
    with opened_window(hub.url, hub.key, tmp_path) as window:
        window.window.hands.companion = WindowCompanion(companion.url, companion.key)
        yield window
        window.call(window.window.hands.companion.close())


@pytest.fixture
def box(hub: RunningHub, opened: OpenedWindow, tmp_path: Path) -> RunningBox:
    """The window as a box, at the hub's address."""
    return RunningBox(None, f"{hub.url}/vscode/windows/{opened.id}", hub.key, tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_of_each_transport_calls_a_tool(
    box: RunningBox, opened: OpenedWindow, transport: Transport
) -> None:
    post(box, scripted("one"))
    async with connected(box, transport) as client:
        assert "echo" in await names(client)
        assert words(await client.call_tool("echo", {"text": "hello"})) == "hello"
    companion = opened.window.hands.companion
    assert companion is not None
    await until(lambda: companion.open_streams == 0, what="an end of all streams")
