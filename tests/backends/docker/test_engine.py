"""Engines that are not there, or not any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.backends import owners
from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec
from glovebox.errors import EngineUnavailable
from glovebox.settings import host
from tests.backends.conftest import environment, run
from tests.backends.docker.conftest import ACCOUNTS, MakeBackend, started, tar_of
from tests.support.certificates import make_authority, make_certificate
from tests.support.engine import BASE, RealEngine, private_engine


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("unix:///no/such.sock", "there is no such socket"),
        ("tcp://127.0.0.1:1", "nothing listens there"),
        ("ssh://host", "ssh -N -L"),
        ("tcp://127.0.0.1:1 ", "nothing listens there|not supported"),
    ],
)
async def test_an_engine_that_is_not_there_is_said_to_be(tmp_path: Path, where: str, why: str) -> None:
    backend = DockerBackend(host.load({"DOCKER_HOST": where, "HOME": str(tmp_path)}))
    with pytest.raises(EngineUnavailable, match=why) as refused:
        await backend.boxes()
    assert where.strip() in str(refused.value)
    await backend.close()


async def test_what_answers_but_is_no_engine_is_refused(tmp_path: Path) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    path = tmp_path / "socket"
    async with await asyncio.start_unix_server(hang_up, path):
        backend = DockerBackend(host.load({"DOCKER_HOST": f"unix://{path}", "HOME": str(tmp_path)}))
        with pytest.raises(EngineUnavailable, match=r"Server disconnected|reset by peer"):
            await backend.boxes()


@contextlib.asynccontextmanager
async def _forwarded(path: str) -> AsyncIterator[int]:
    """A port of loopback that leads to a socket."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(path)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_an_engine_can_be_reached_by_tcp(make_docker: MakeBackend, engine: RealEngine) -> None:
    if not engine.host.startswith("unix://"):
        pytest.skip("the engine of these tests is reached by TCP anyway")
    async with _forwarded(engine.host.removeprefix("unix://")) as port:
        docker = make_docker(DOCKER_HOST=f"tcp://127.0.0.1:{port}")
        async with started(docker, BoxSpec()) as box:
            assert await run(box, "echo here") == "here"
        await docker.close()


async def test_an_engine_without_tls_is_not_asked_for_it(
    make_docker: MakeBackend, engine: RealEngine, tmp_path: Path
) -> None:
    if not engine.host.startswith("unix://"):
        pytest.skip("the engine of these tests may speak TLS")
    mine = make_certificate(tmp_path / "mine", make_authority(tmp_path / "authority"))
    async with _forwarded(engine.host.removeprefix("unix://")) as port:
        docker = make_docker(
            DOCKER_HOST=f"tcp://127.0.0.1:{port}", DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(mine)
        )
        with pytest.raises(EngineUnavailable, match="It does not speak TLS: unset DOCKER_TLS_VERIFY"):
            await docker.boxes()


async def test_an_engine_that_is_killed_is_heard_of_and_its_boxes_go_on_after_it(tmp_path: Path) -> None:
    with private_engine() as engine:
        engine.import_image(BASE, tar_of({"etc/passwd": ACCOUNTS}))
        environ = {**environment(tmp_path), **engine.environ}
        docker = DockerBackend(host.load(environ))
        box = await docker.start(BoxSpec(name="survivor"), Silent())
        await run(box, "echo precious > file")
        start = asyncio.create_task(docker.start(BoxSpec(name="unlucky"), Silent()))
        while len(await docker.boxes()) < 2:
            assert not start.done()
        engine.kill()
        with pytest.raises(EngineUnavailable):
            await start
        with pytest.raises(EngineUnavailable):
            await box.info()
        await asyncio.to_thread(engine.start)
        assert (await box.info()).state == "stopped"
        await box.resume()
        assert await run(box, "echo $(<file)") == "precious"
        await box.delete()
        assert await docker.sweep() == []  # its client is there, and may want to look at it
        await (await docker.attach("unlucky")).delete()
        await _sweeps_what_is_nobodys(docker, engine)
        await docker.close()


async def _sweeps_what_is_nobodys(docker: DockerBackend, engine: RealEngine) -> None:
    """A lock of a client that is gone, and runtimes that nobody uses."""
    gone = owners.this_process().rpartition(":")[0] + ":1"
    lock = {"Image": BASE, "Cmd": ["x"], "Labels": {"glovebox.runtime.filling": "x", "glovebox.owner": gone}}
    engine.ask("POST", "/containers/create", name="glovebox-filling-x", body=lock)
    for number in range(4):
        volume = {"Name": f"glovebox-runtime-{number}", "Labels": {"glovebox.runtime.volume": "x"}}
        engine.ask("POST", "/volumes/create", body=volume)
    assert await docker.sweep() == []
    assert engine.ask("GET", "/containers/json", all="1") == []
    assert len(engine.ask("GET", "/volumes")["Volumes"]) == 2
