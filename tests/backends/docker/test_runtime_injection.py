"""The runtime that is put into images which have none."""

from __future__ import annotations

import asyncio
import sys

from glovebox.client.spec import BoxSpec
from tests.backends.conftest import run
from tests.backends.docker.conftest import Heard, MakeBackend, started
from tests.support.engine import RealEngine

#: A client that is killed when a good part of the runtime has been sent.
KILLED = """
import asyncio, os, signal
from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec
from glovebox.settings import host

class Deadly(Silent):
    def progress(self, step, done, total):
        if step == "runtime" and done > total // 3:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    await DockerBackend(host.load()).start(BoxSpec(), Deadly())

asyncio.run(main())
"""


async def test_a_runtime_that_a_killed_client_has_half_sent_is_completed_once(
    make_docker: MakeBackend, engine: RealEngine, environ: dict[str, str]
) -> None:
    _forget_runtimes(engine)
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, env=environ)
    assert await killed.wait() == -9
    assert [thing for thing in engine.things() if "filling" in thing]  # the lock is still held
    reports = [Heard() for _ in range(3)]
    starts = (make_docker().start(BoxSpec(), report) for report in reports)
    boxes = await asyncio.gather(*starts)
    try:
        assert await asyncio.gather(*(run(box, "echo works") for box in boxes)) == ["works"] * 3
    finally:
        await asyncio.gather(*(box.delete() for box in boxes))
    assert sum(bool(report.steps) for report in reports) == 1
    [steps] = [report.steps for report in reports if report.steps]
    assert steps[-1][1] == steps[-1][2]


def _forget_runtimes(engine: RealEngine) -> None:
    for volume in engine.ask("GET", "/volumes")["Volumes"] or []:
        if volume["Name"].startswith("glovebox-runtime-"):
            engine.ask("DELETE", f"/volumes/{volume['Name']}")


async def test_commands_do_not_notice_the_runtime(make_docker: MakeBackend, engine: RealEngine) -> None:
    async with started(make_docker(), BoxSpec()) as box:
        assert (
            await run(box, "command -v python3; env | grep -E '^(PYTHON(HOME|PATH)|LD_)' || echo clean")
            == "clean"
        )
        assert "Read-only file system" in await run(box, "touch /opt/glovebox/mine 2>&1 || true")
