"""What a box has of its host: directories, volumes, memory, processes, networks, ports."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec, Mount, parse_volumes
from glovebox.errors import BadSpec
from tests.backends.conftest import run
from tests.backends.docker.conftest import MakeBackend, started
from tests.support.engine import RealEngine
from tests.support.waiting import LIMIT

NETWORKS = ("glovebox-test-one", "glovebox-test-two")


@pytest.fixture
def networks(untouched: None, engine: RealEngine) -> Iterator[tuple[str, ...]]:
    for name in NETWORKS:
        engine.ask("POST", "/networks/create", body={"Name": name})
    yield NETWORKS
    for name in NETWORKS:
        engine.ask("DELETE", f"/networks/{name}")


@pytest.fixture
def named(untouched: None, engine: RealEngine) -> Iterator[str]:
    """The name of a volume; what is given by name stays when its box goes."""
    yield "glovebox-test-named"
    engine.ask("DELETE", "/volumes/glovebox-test-named")


async def test_directories_and_volumes_are_there_as_they_were_asked_for(
    named: str, make_docker: MakeBackend, tmp_path: Path
) -> None:
    for name in ("workspace", "rw", "ro", "over"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    volumes = parse_volumes(
        f"{tmp_path}/rw:/rw,{tmp_path}/ro:/ro:ro,volume:{named}:/named,{tmp_path}/over:/over:overlay"
    )
    overlays = tmp_path / "overlays"
    docker = make_docker(SANDBOX_VOLUME_OVERLAYS=str(overlays))
    spec = BoxSpec(name="mounts", workspace=str(tmp_path / "workspace"), volumes=volumes)
    async with started(docker, spec) as box:
        assert await run(box, "cat /workspace/file /rw/file /ro/file /over/file") == "workspacerwroover"
        for path in ("/workspace", "/rw", "/named", "/over"):
            await run(box, f"echo written > {path}/new")
        assert "Read-only file system" in await run(box, "touch /ro/new 2>&1 || true")
        await box.stop()
        await box.resume()
        assert await run(box, "cat /over/new") == "written"
        assert (overlays / "glovebox-mounts" / "3" / "upper" / "new").exists()
    there = [name for name in ("workspace", "rw", "ro", "over") if (tmp_path / name / "new").exists()]
    assert there == ["workspace", "rw"]
    assert os.listdir(overlays) == []


async def test_a_layer_can_be_for_reading_only(docker: DockerBackend, tmp_path: Path) -> None:
    async with started(
        docker, BoxSpec(volumes=(Mount(source=str(tmp_path), target="/over", mode="ro,overlay"),))
    ) as box:
        assert "Read-only file system" in await run(box, "touch /over/new 2>&1 || true")


async def test_a_directory_that_is_not_there_is_named(docker: DockerBackend, tmp_path: Path) -> None:
    missing = Mount(source=f"{tmp_path}/missing", target="/data")
    with pytest.raises(BadSpec, match=f"{tmp_path}/missing"):
        await docker.start(BoxSpec(volumes=(missing,)), Silent())
    with pytest.raises(BadSpec, match="only a directory"):
        await docker.start(
            BoxSpec(volumes=(Mount(source="named", target="/data", mode="overlay"),)), Silent()
        )


async def test_limits_are_those_of_the_kernel(docker: DockerBackend) -> None:
    async with started(docker, BoxSpec(memory=256 << 20, cpus=0.5, pids=100)) as box:
        of_one = "/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/pids.max"
        of_two = "/sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max"
        assert await run(box, f"cat {of_one} 2>/dev/null || cat {of_two}") == f"{256 << 20}\n100"
        files = "cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us"
        quota = await run(box, f"cd /sys/fs/cgroup; cat {files} 2>/dev/null || cat cpu.max")
        assert quota.split() == ["50000", "100000"]


async def test_a_box_is_in_all_its_networks(
    docker: DockerBackend, engine: RealEngine, networks: tuple[str, ...]
) -> None:
    async with started(docker, BoxSpec(network=networks[0], networks=networks[1:])) as box:
        assert set(engine.container(box.name)["NetworkSettings"]["Networks"]) == set(networks)
        assert await run(box, "cd /sys/class/net; echo eth*") == "eth0 eth1"


async def test_a_box_can_be_in_the_network_of_its_host(docker: DockerBackend) -> None:
    async with started(docker, BoxSpec(network="host")) as box:
        assert box.address.url.startswith("http://127.0.0.1:")
        assert await run(box, "echo here") == "here"
        [info] = await docker.boxes()
        assert info.url == box.address.url


async def test_ports_of_programs_in_the_box_are_reached(docker: DockerBackend) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    async with started(docker, BoxSpec(ports={8001: 0, 8002: port})) as box:
        assert set(box.ports) == {60000, 8001, 8002}
        assert box.ports[8002] == f"http://127.0.0.1:{port}"
        serve = "/opt/glovebox/bin/python3 -m http.server --directory /workspace"
        await run(box, f"echo $APP_PORT_1 > index.html; {serve} $APP_PORT_1 >/dev/null 2>&1 &")
        async with httpx.AsyncClient(trust_env=False) as client:
            assert await _text(client, box.ports[8001]) == "8001\n"


async def _text(client: httpx.AsyncClient, url: str) -> str:
    """What is there, as soon as something is."""
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                return (await client.get(url)).text
            except httpx.TransportError:
                await asyncio.sleep(0.01)


async def test_a_port_that_is_taken_is_said_to_be(docker: DockerBackend) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadSpec, match=f"{port}"):
            await docker.start(BoxSpec(port=port), Silent())


async def test_the_log_of_a_box_can_be_followed_to_its_end(docker: DockerBackend) -> None:
    async with started(docker, BoxSpec()) as box:
        lines = box.logs(follow=True)
        first = await anext(lines)
        assert first.startswith("Glovebox serves /workspace")
        assert first in [line async for line in box.logs()]
        await box.stop()
        async with asyncio.timeout(LIMIT):
            rest = [line async for line in lines]
        assert "Stop with Ctrl-C." in rest
        lines = box.logs(follow=True)
        await anext(lines)
        await lines.aclose()


async def test_a_box_can_be_paused_and_stopped_again_and_again(docker: DockerBackend) -> None:
    async with started(docker, BoxSpec()) as box:
        await run(box, "echo $$ > pid; PS=$(cat pid)")
        for _ in range(2):
            await box.pause()
        assert ((await box.info()).state, (await box.info()).url) == ("paused", "")
        for _ in range(2):
            await box.resume()
        assert await run(box, "[ $$ = $PS ] && echo the same shell") == "the same shell"
        await box.pause()
        for _ in range(2):
            await box.stop()
        assert (await box.info()).state == "stopped"
        await box.resume()
        assert await run(box, "cat pid") != ""
        await box.pause()
        await box.delete()
        assert (await box.info()).state == "missing"
        await box.delete()
