"""Cells and MCP tools in a window: the companion box beside it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from glovebox import SyncRuntime
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.events import Output
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    ErrorObservation,
    IPythonRunCellObservation,
    MCPObservation,
)
from tests.support.waiting import LIMIT, wait_until
from tests.vscode.harness.workstation import Window, Workstation

SCRIPTED = Path(__file__).parents[1] / "box/mcp/scripted.py"
#: Seconds for an action that may have to start the companion box.
START_LIMIT = 4 * LIMIT


def run_cell(agent: SyncRuntime, code: str) -> IPythonRunCellObservation | ErrorObservation:
    return agent.run_ipython(IPythonRunCellAction(code=code, timeout=START_LIMIT, include_extra=False))


def cell(agent: SyncRuntime, code: str) -> str:
    """Run a cell; return its output."""
    answer = run_cell(agent, code)
    assert isinstance(answer, IPythonRunCellObservation), answer
    return answer.content.strip()


def companions(folder: Path) -> list[psutil.Process]:
    """The companion boxes of a window."""
    return [
        process
        for process in psutil.process_iter()
        if (line := command_line(process)) and "--stop-with-stdin" in line and str(folder) in line
    ]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.fixture
def fresh(workstation: Workstation) -> Iterator[Window]:
    """A connected window of its own, whose companion box has not started."""
    with workstation.window(workstation.folder(f"companion-{uuid.uuid4().hex[:8]}")) as window:
        window.connect()
        yield window


def test_a_variable_of_a_cell_is_there_in_the_next_one(agent: SyncRuntime, window: Window) -> None:
    cell(agent, "import os; kept = os.getcwd()")
    assert cell(agent, "print(kept)") == str(window.folder)


def test_cells_work_on_the_files_of_the_window(agent: SyncRuntime, window: Window) -> None:
    agent.write("from_editor.txt", content="by the editor")
    assert cell(agent, "print(open('from_editor.txt').read())") == "by the editor"
    cell(agent, "open('from_cell.txt', 'w').write('by the cell')")
    assert (window.folder / "from_cell.txt").read_text() == "by the cell"
    items = list(agent.stream(IPythonRunCellAction(code="print('streamed')", timeout=START_LIMIT)))
    assert "streamed" in "".join(item.text for item in items if isinstance(item, Output))


def test_an_mcp_tool_is_called_through_the_companion_box(agent: SyncRuntime, window: Window) -> None:
    script = shutil.copy(SCRIPTED, window.folder / "mcp_server.py")
    server = {"name": "scripted", "command": sys.executable, "args": [str(script)]}
    box = f"/vscode/windows/{window.hub.window_id(window.folder)}"
    answer = window.hub.request("POST", f"{box}/update_mcp_server", json=[server])
    assert answer.json()["router_error_log"] == ""
    listed = window.hub.request("GET", f"{box}/mcp/servers").json()["servers"]
    assert [one["name"] for one in listed] == ["scripted"]
    called = agent.call_tool_mcp(MCPAction(name="echo", arguments={"text": "hello"}, timeout=START_LIMIT))
    assert isinstance(called, MCPObservation), called
    assert "hello" in called.content


def test_pages_are_opened_in_the_browser_of_the_companion_box(agent: SyncRuntime, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>Greeting</title><button>Press me</button>")
    pages = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        opened = agent.browse(BrowseURLAction(url=address, timeout=START_LIMIT))
        assert isinstance(opened, BrowserOutputObservation), opened
        assert "Press me" in opened.content
        goto = BrowseInteractiveAction(browser_actions=f"goto('{address}missing')", timeout=START_LIMIT)
        missing = agent.browse_interactive(goto)
        server.shutdown()
    assert isinstance(missing, BrowserOutputObservation), missing
    assert "404" in missing.content


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_the_companion_box_ends_with_its_window(fresh: Window, how: str) -> None:
    with fresh.agent() as agent:
        assert cell(agent, "print(1)") == "1"
    assert companions(fresh.folder)
    if how == "closed":
        fresh.close()
    else:
        os.kill(fresh.hub.windows(fresh.folder)[0]["pid"], signal.SIGKILL)
    wait_until(lambda: not companions(fresh.folder), what="the end of the companion box")


def test_a_companion_box_that_was_killed_is_started_again(fresh: Window) -> None:
    with fresh.agent() as agent:
        cell(agent, "kept = 1")
        for process in companions(fresh.folder):
            process.kill()
        wait_until(lambda: not companions(fresh.folder), what="the end of the companion box")
        answer = run_cell(agent, "kept")
        if isinstance(answer, ErrorObservation):  # it was sent to the old one
            assert answer.error_id == "no_companion"
            answer = run_cell(agent, "kept")
        assert "NameError" in answer.content


def test_without_a_glovebox_an_error_says_what_to_install(workstation: Workstation) -> None:
    workstation.server.write_settings({"glovebox.command": "/nowhere/glovebox"})
    try:
        with workstation.window(workstation.folder("without")) as window:
            window.connect()
            with window.agent() as agent:
                answer = run_cell(agent, "1")
                assert agent.run("echo works").content == "works"
    finally:
        workstation.server.write_settings({})
    assert isinstance(answer, ErrorObservation)
    assert answer.error_id == "no_companion"
    assert "/nowhere/glovebox" in answer.content
    assert "pip install" in answer.content
    assert "glovebox.command" in answer.content
