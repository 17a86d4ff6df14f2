"""Boxes whose system calls gVisor answers: another kernel, of which some things are missing."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.runtime import Runtime
from glovebox.client.spec import BoxSpec
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import Output
from glovebox.protocol.observations import CmdOutputObservation
from tests.support.engine import RealEngine

#: Releases before this year let keys such as Ctrl-C do nothing.
_FIRST_WITH_KEYS = 2024
_LIMIT = 60.0
_GVISOR = BoxSpec(name="gvisor", runtime="runsc", user="agent")


@pytest.fixture
def gvisor(engine: RealEngine, docker: DockerBackend) -> DockerBackend:
    """The backend of an engine that has gVisor."""
    if "runsc" not in engine.ask("GET", "/info")["Runtimes"]:
        pytest.skip("the engine has no gVisor to test with: install runsc (on Debian: apt install runsc)")
    return docker


async def _ran(
    box: Runtime, command: str, *, timeout: float = _LIMIT, is_input: bool = False
) -> tuple[int, str]:
    """How a command ended, and what it printed."""
    done = await box.run(command, timeout=timeout, blocking=True, is_input=is_input)
    assert isinstance(done, CmdOutputObservation), done
    return done.metadata.exit_code, done.content


async def _occupy(box: Runtime, program: str = "sleep 1000") -> None:
    """Let a program have the terminal, and return when it has."""
    status, said = await _ran(box, f"sh -c 'echo ready; exec {program}'", timeout=0.3)
    while "ready" not in said:
        assert status == -1, said
        status, said = await _ran(box, "", timeout=0.3)


async def test_a_box_works_and_lives_in_gvisor(gvisor: DockerBackend) -> None:
    async with Runtime(gvisor, _GVISOR) as box:
        status, said = await _ran(box, "dmesg")
        assert (status, "Starting gVisor" in said) == (0, True)
        await box.write("/workspace/deep/file", content="precious\n")
        assert await _ran(box, "id -un; cat deep/file") == (0, "agent\nprecious")
        assert await _ran(box, "read -r line; echo got $line", timeout=0.3) == (-1, "")
        assert await _ran(box, "it", is_input=True) == (0, "got it")
        assert b'"read_bytes":' in await box.call("GET", "/server_info")

        printed, pieces = "".join(f"{number}\n" for number in range(1, 50_001)), []
        async with box.stream(CmdRunAction(command="seq 50000", timeout=_LIMIT, blocking=True)) as told:
            pieces = [one.text async for one in told if isinstance(one, Output)]
        assert "".join(pieces).replace("\r", "") == printed

        sandbox = await gvisor.attach("gvisor")
        await sandbox.pause()
        assert (await sandbox.info()).state == "paused"
        await sandbox.resume()
        assert await _ran(box, "echo again") == (0, "again")
        await sandbox.stop()
        assert (await sandbox.info()).state == "stopped"
        await sandbox.resume()
        async with Runtime(gvisor, _GVISOR, attach=True) as later:
            assert await _ran(later, "cat /workspace/deep/file") == (0, "precious")
    assert (await sandbox.info()).state == "missing"


async def test_keys_interrupt_and_suspend_in_gvisor(gvisor: DockerBackend) -> None:
    if _release() < _FIRST_WITH_KEYS:
        pytest.skip(
            f"this gVisor is of {_release()}: install a runsc of {_FIRST_WITH_KEYS} or later, such as that "
            "of Debian's backports"
        )
    async with Runtime(gvisor, _GVISOR) as box:
        await _occupy(box)
        assert (await _ran(box, "C-c", is_input=True))[0] == 130
        await _occupy(box)
        assert (await _ran(box, "C-z", is_input=True))[0] == 148
        assert "Stopped" in (await _ran(box, "jobs"))[1]
        assert (await _ran(box, "fg", timeout=0.3))[0] == -1
        assert (await _ran(box, "C-c", is_input=True))[0] == 130
        await _occupy(box, "cat")
        assert (await _ran(box, "C-d", is_input=True))[0] == 0


def _release() -> int:
    """The year of the gVisor that is installed; one that cannot be asked is believed to be new."""
    runsc = shutil.which("runsc")
    if runsc is None:
        return _FIRST_WITH_KEYS
    said = subprocess.run([runsc, "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"20\d\d(?=\d{4})", said)
    return int(found[0]) if found else _FIRST_WITH_KEYS
