"""`glovebox mcp` with a box that is isolated, as it is unless the user says otherwise."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.backends.conftest import mentioning
from tests.box.mcp_own.connecting import Connected, Heard, Raw, connected, environment, text_of
from tests.support.running import RunningBox, wait_until
from tests.support.waiting import LIMIT


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace of a user who has said nothing, on a machine without an engine."""
    for name in ("GLOVEBOX_ISOLATION", "GLOVEBOX_BACKEND", "GLOVEBOX_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "secret").write_text("of the user")
    return tmp_path / "workspace"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_works_in_its_directory_and_sees_nothing_else(workspace: Path, mode: str) -> None:
    with connected(workspace, mode, "--no-enable-browser") as client:
        assert client.text("run", command="pwd; ls ..").splitlines()[:2] == [str(workspace), "workspace"]
        client.text("write", path="from-the-box", content="text")
        assert (workspace / "from-the-box").read_text() == "text\n"
        heard = Heard()
        numbers = client.begin("run", heard, command="seq 20000").result(LIMIT)
        assert heard.text.split() == [str(number) for number in range(1, 20_001)]
        assert not numbers.is_error
        _give_up(client)
        tools = [tool.name for tool in client.do(client.client.list_tools).tools]
        assert "run" in tools
        assert "browse" not in tools
    wait_until(lambda: not mentioning(workspace.parent), what="the end of the box")
    assert list((workspace.parent / ".local/state/glovebox/boxes").iterdir()) == []


def _give_up(client: Connected) -> None:
    """A call that is given up ends its command, and the shell is free."""
    heard = Heard()
    call = client.begin("run", heard, command="echo begun; sleep 1000", session="given-up")
    heard.wait_for("begun")
    call.cancel()
    assert text_of(client.call("run", command="echo free", session="given-up")).startswith("free\n")


def glovebox(workspace: Path, *flags: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glovebox", "mcp", "--working-dir", str(workspace), *flags],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        env={**environment(workspace), **variables},
    )


def test_without_anything_that_isolates_there_is_no_box_unless_it_is_asked_for(workspace: Path) -> None:
    refused = glovebox(workspace, PATH="/nowhere")
    assert refused.returncode == 3
    assert refused.stderr.startswith("glovebox: No container engine answers. bubblewrap is not installed.")
    image = glovebox(workspace, "--image", "debian")
    assert image.returncode == 3
    assert "No container engine answers. Tried:" in image.stderr
    asked = glovebox(workspace, "--isolation", "none")
    assert asked.returncode == 0
    assert "glovebox: This box is NOT isolated" in asked.stderr


def test_a_box_at_an_address_is_used_as_it_is(workspace: Path, shared_box: RunningBox) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "glovebox", "mcp", "--backend", shared_box.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment(workspace), "SESSION_API_KEY": shared_box.key},
    )
    with process:
        client = Raw(process)
        client.greet()
        answer = client.ask("tools/call", name="run", arguments={"command": "pwd", "session": "elsewhere"})
        assert str(shared_box.workspace) in answer["result"]["content"][0]["text"]
