"""What the companion box of a window answers: cells, MCP tools, and the endpoints that belong to them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.events import ActionDisplay, ActionOutput, CellState
from glovebox.protocol.window import FORWARDED_PATHS, Forward
from tests.hub.window.window_box import Acting, acting, failing
from tests.hub.window_companion import WindowCompanion
from tests.support.running import RunningBox, running_box

SCRIPTED = Path(__file__).parents[2] / "box/mcp/scripted.py"


@pytest.fixture(scope="module")
def companion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A real box, as a window has beside it."""
    place = tmp_path_factory.mktemp("companion") / "w"
    place.mkdir()
    with running_box(place, "--plugins", "jupyter", "agent_skills", "--no-enable-browser") as box:
        yield box


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Acting]:
    """A window without a companion box."""
    async with acting(tmp_path) as box:
        yield box


@pytest.fixture
async def box(alone: Acting, companion: RunningBox) -> AsyncIterator[Acting]:
    """A window with one."""
    alone.hands.acting.companion = WindowCompanion(companion.url, companion.key)
    yield alone
    await alone.hands.acting.companion.close()


async def cell(box: Acting, code: str) -> str:
    """Run a cell; return its output."""
    answer = await box.do(IPythonRunCellAction(code=code, timeout=120, include_extra=False))
    return answer.content.strip()


async def test_cells_share_variables_and_follow_the_shell_of_the_window(box: Acting, tmp_path: Path) -> None:
    await cell(box, "import os; kept = 41")
    assert await cell(box, "print(kept + 1, os.getcwd())") == f"42 {tmp_path}"
    await box.output("mkdir below && cd below")
    assert await cell(box, "print(os.getcwd())") == f"{tmp_path}/below"
    told = await box.do(IPythonRunCellAction(code="1", timeout=120))
    assert f"[Jupyter current working directory: {tmp_path}/below]" in told.content
    assert told.cell is not None
    assert told.cell.status == "ok"


async def test_the_output_of_a_cell_is_in_the_event_log_of_the_window(box: Acting) -> None:
    begin = box.box.executor.events.last
    await cell(box, "from IPython.display import HTML\nprint('printed')\ndisplay(HTML('<b>shown</b>'))")
    events = box.box.executor.events.since(begin)
    texts = [event.text for event in events if isinstance(event, ActionOutput)]
    assert "printed\n" in "".join(texts)
    assert any("text/html" in event.data for event in events if isinstance(event, ActionDisplay))
    states = [event.cell.state for event in events if isinstance(event, CellState)]
    assert states[-1] == "ended"
    assert len({event.action_id for event in events}) == 1


async def test_environment_variables_are_set_by_a_cell_as_openhands_does(box: Acting) -> None:
    await cell(box, 'import os\nos.environ["COLOUR"] = "blue"')
    assert await cell(box, "!echo $COLOUR") == "blue"


async def test_a_large_output_arrives_whole(box: Acting) -> None:
    assert len(await cell(box, "print('x' * 3_000_000)")) == 3_000_000


async def test_mcp_servers_are_set_up_and_called(box: Acting) -> None:
    server = {"name": "scripted", "command": sys.executable, "args": [str(SCRIPTED)]}
    answer = await box.client.post("/update_mcp_server", json=[server])
    assert answer.status_code == 200, answer.text
    called = await box.do(MCPAction(name="echo", arguments={"text": "hello"}, timeout=120))
    assert "hello" in called.content
    listed = (await box.client.get("/mcp/servers")).json()["servers"]
    assert [one["name"] for one in listed] == ["scripted"]
    assert (await box.client.get("/mcp/servers/none")).headers["X-Glovebox-Error"] == "no_such_mcp_server"
    assert (await box.client.post("/update_mcp_server", json=[])).status_code == 200
    gone = await box.refused(MCPAction(name="echo", timeout=120))
    assert (gone.error_id, "Internal server error" in gone.content) == ("unsupported_action", False)


async def test_kernels_and_figures_are_those_of_the_companion_box(box: Acting) -> None:
    assert await cell(box, "print(1)") == "1"
    kernels = (await box.client.get("/kernels")).json()
    assert [kernel["name"] for kernel in kernels] == ["main"]
    assert (await box.client.post("/kernels/main/interrupt")).status_code == 200
    assert (await box.client.get("/kernels/none")).status_code == 404
    assert "glovebox_" in (await box.client.get("/metrics")).text


ACTIONS: list[Action[Any]] = [
    IPythonRunCellAction(code="1"),
    BrowseURLAction(url="http://x"),
    BrowseInteractiveAction(browser_actions="noop()"),
    MCPAction(name="tool"),
]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.action)
async def test_without_a_companion_box_an_observation_says_what_is_missing(
    alone: Acting, action: Action[Any]
) -> None:
    refused = await alone.refused(action)
    assert refused.error_id == "no_companion"
    assert "install" in refused.content


async def test_without_a_companion_box_its_endpoints_say_so(alone: Acting) -> None:
    for method, path in FORWARDED_PATHS:
        answer = await alone.client.request(method, path.replace("{name}", "a").replace("{id}", "b"))
        assert (answer.status_code, answer.headers["X-Glovebox-Error"]) == (503, "no_companion"), path
        assert "install" in answer.json()["detail"]


async def test_a_refusal_by_the_user_is_an_observation(alone: Acting) -> None:
    alone.hands.before = failing("denied", Forward)
    assert (await alone.refused(IPythonRunCellAction(code="1"))).error_id == "denied"
    alone.hands.before = failing("untrusted", Forward)
    answer = await alone.client.get("/kernels")
    assert (answer.status_code, answer.headers["X-Glovebox-Error"]) == (403, "window_refused")


@pytest.mark.attack
async def test_nothing_else_of_the_companion_box_is_forwarded(box: Acting) -> None:
    for method, path in (
        ("POST", "/mcp/box"), ("GET", "/processes"), ("POST", "/kernels/..%2fcommands"),
        ("GET", "/mcp/servers/../../list_files"), ("GET", "/fs/read"),
    ):  # fmt: skip
        await box.client.request(method, path)
    assert [order for order in box.hands.orders if isinstance(order, Forward)] == []
