from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadSpec, BoxDied, BoxExists, DeadlineExceeded, NoSuchBox
from tests.backends.conftest import run
from tests.backends.docker.conftest import MakeBackend, started
from tests.support.engine import BASE, RealEngine
from tests.support.running import wait_until


async def test_a_box_answers_to_its_key_on_loopback_only(docker: DockerBackend, engine: RealEngine) -> None:
    async with started(docker, BoxSpec(labels={"team": "blue"}, env={"GREETING": "hello world"})) as box:
        async with httpx.AsyncClient(base_url=box.address.url, trust_env=False) as stranger:
            answer = await stranger.post("/execute_action", json={"action": {"action": "run"}})
            assert answer.headers["X-Glovebox-Error"] == "invalid_api_key"
        assert await run(box, "echo $GREETING; pwd; id -un; echo [$SESSION_API_KEY]") == (
            "hello world\n/workspace\nroot\n[]"
        )
        container = engine.container(box.name)
        assert {bound[0]["HostIp"] for bound in container["NetworkSettings"]["Ports"].values()} == {
            "127.0.0.1"
        }
        assert box.address.url.startswith("http://127.0.0.1:")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((_address_of_this_machine(), int(box.address.url.rpartition(":")[2])), 5)
        assert not container["HostConfig"]["Privileged"]
        labels = container["Config"]["Labels"]
        assert (labels["glovebox.box"], labels["glovebox.keep"], labels["team"]) == (
            box.name,
            "false",
            "blue",
        )
        [info] = await docker.boxes()
        assert info == await box.info()
        assert (info.state, info.image, info.labels, info.url) == (
            "running",
            BASE,
            {"team": "blue"},
            box.address.url,
        )


def _address_of_this_machine() -> str:
    """An address that others reach this machine by; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        address: str = probe.getsockname()[0]
        return address


async def test_another_client_finds_a_box_with_its_key(make_docker: MakeBackend) -> None:
    async with started(make_docker(), BoxSpec(name="found", key="a-key-of-my-own-0123")) as box:
        again = await make_docker().attach("found")
        assert (again.address, again.workspace) == (box.address, "/workspace")
        assert await run(again, "echo here") == "here"
        with pytest.raises(BoxExists, match="glovebox-found"):
            await make_docker().start(BoxSpec(name="found"), Silent())
    with pytest.raises(NoSuchBox, match="found"):
        await make_docker().attach("found")


async def test_boxes_that_start_at_once_do_not_get_into_each_others_way(docker: DockerBackend) -> None:
    boxes = await asyncio.gather(*(docker.start(BoxSpec(), Silent()) for _ in range(5)))
    try:
        assert len({box.address.url for box in boxes}) == len({box.address.key for box in boxes}) == 5
        assert await asyncio.gather(*(run(box, "echo $$ > mine; ls") for box in boxes)) == ["mine"] * 5
    finally:
        await asyncio.gather(*(box.delete() for box in boxes))


async def test_a_box_that_cannot_serve_tells_its_last_words(docker: DockerBackend) -> None:
    with pytest.raises(BoxDied, match=r"status 2 before it answered.*\n(.*\n)*.*no flag .--no-such-flag"):
        await docker.start(BoxSpec(arguments=("--no-such-flag",)), Silent())


async def test_a_box_that_takes_too_long_is_not_left(docker: DockerBackend) -> None:
    with pytest.raises(DeadlineExceeded):
        await docker.start(BoxSpec(start_limit=0.01), Silent())


@pytest.mark.parametrize("moment", ["created", "running"])
async def test_a_start_that_is_cancelled_leaves_nothing(
    docker: DockerBackend, engine: RealEngine, moment: str
) -> None:
    start = asyncio.create_task(docker.start(BoxSpec(), Silent()))
    query = {"all": "1", "filters": '{"label": ["glovebox.box"]}'}
    found: list[Any] = []
    while not (found and (moment == "created" or found[0]["State"] == "running")):
        found = await asyncio.to_thread(engine.ask, "GET", "/containers/json", **query)
        assert not start.done()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start


async def test_what_a_killed_client_leaves_is_swept_and_what_is_kept_is_not(
    make_docker: MakeBackend, environ: dict[str, str], tmp_path: Path
) -> None:
    client = """if True:
        import asyncio
        from glovebox.backends.docker.backend import DockerBackend
        from glovebox.client.backend import Silent
        from glovebox.client.spec import BoxSpec, Mount
        from glovebox.settings import host
        import sys
        async def main():
            backend = DockerBackend(host.load())
            await backend.start(BoxSpec(name="kept", keep=True), Silent())
            layered = (Mount(source=sys.argv[1], target="/data", mode="overlay"),)
            await backend.start(BoxSpec(name="orphan", volumes=layered), Silent())
            print("started", flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
    """
    docker = make_docker()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", client, str(tmp_path), env=environ, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"started\n"
        assert await docker.sweep() == []  # its client is there
    finally:
        process.kill()
        await process.wait()
    layers = Path(environ["XDG_STATE_HOME"]) / "glovebox" / "overlays" / "glovebox-orphan"
    assert layers.is_dir()
    assert await docker.sweep() == ["orphan"]
    assert not layers.exists()
    kept = await docker.attach("kept")
    assert await run(kept, "echo still here") == "still here"
    await kept.delete()


async def test_zombies_are_reaped(docker: DockerBackend, engine: RealEngine) -> None:
    async with started(docker, BoxSpec()) as box:
        # A process from outside, whose children nobody in the box waits for but its first process.
        body = {"Cmd": ["sh", "-c", "sleep 0.01 & sleep 0.02 &"], "AttachStdout": True}
        made = engine.ask("POST", f"/containers/glovebox-{box.name}/exec", body=body)
        engine.ask("POST", f"/exec/{made['Id']}/start", body={})
        sleeping = "grep -l '^Name:.sleep' /proc/[0-9]*/status 2>/dev/null"
        await run(box, f"for i in $(seq 500); do {sleeping} >/dev/null || break; done; ! {sleeping}")


async def test_commands_run_as_the_user_that_was_asked_for(docker: DockerBackend) -> None:
    async with started(docker, BoxSpec(user="agent", user_id=4321)) as box:
        assert await run(box, "id -un; id -u; touch mine; stat -c %U mine") == "agent\n4321\nagent"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (BoxSpec(isolation="bubblewrap"), "isolated by itself"),
        (BoxSpec(network="none"), "cannot be reached"),
        (BoxSpec(network="no-such-network"), "no-such-network"),
        (BoxSpec(networks=("no-such-network",)), "no-such-network"),
        (BoxSpec(runtime="no-such-runtime"), "no-such-runtime"),
        (BoxSpec(publish_address="example.org"), "publish_address"),
        (BoxSpec(ports={60000: 0}), "60000"),
        (BoxSpec(labels={"glovebox.box": "other"}), "project's own"),
        (BoxSpec(name="not/a/name"), "cannot name a box"),
        (BoxSpec(memory=1000), "memory"),
        (BoxSpec(image=BASE, build="/tmp"), "not both"),
    ],
)
async def test_what_no_container_can_be_is_refused(docker: DockerBackend, spec: BoxSpec, why: str) -> None:
    with pytest.raises(BadSpec, match=why):
        await docker.start(spec, Silent())


async def test_a_box_that_is_killed_is_stopped_and_can_go_on(
    docker: DockerBackend, engine: RealEngine
) -> None:
    async with started(docker, BoxSpec()) as box:
        await run(box, "echo precious > file")
        os.kill(engine.container(box.name)["State"]["Pid"], 9)
        wait_until(
            lambda: engine.container(box.name)["State"]["Status"] == "exited", what="the end of the box"
        )
        assert (await box.info()).state == "stopped"
        await box.resume()
        assert await run(box, "cat file") == "precious"
