"""The same backend with Podman, which answers as Docker does, but not quite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec, parse_volumes
from glovebox.errors import BadImage, BoxDied, BoxExists, NotSupported
from glovebox.settings import host
from tests.backends.conftest import environment, run
from tests.backends.docker.conftest import Heard, started
from tests.support.engine import BASE, RealEngine


@pytest_asyncio.fixture
async def backend(podman: RealEngine, tmp_path: Path) -> AsyncIterator[DockerBackend]:
    """The backend; a test leaves nothing."""
    before = podman.things()
    backend = DockerBackend(host.load({**environment(tmp_path), **podman.environ}))
    yield backend
    await backend.close()
    assert podman.things() == before


async def test_a_box_lives_with_podman(backend: DockerBackend, tmp_path: Path) -> None:
    for name in ("workspace", "ro", "over"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    volumes = parse_volumes(f"{tmp_path}/ro:/ro:ro,{tmp_path}/over:/over:overlay")
    spec = BoxSpec(
        name="life", workspace=f"{tmp_path}/workspace", volumes=volumes, memory=256 << 20, pids=100
    )
    async with started(backend, spec) as box:
        assert box.address.url.startswith("http://127.0.0.1:")
        assert await run(box, "cat /workspace/file /ro/file /over/file") == "workspaceroover"
        assert "Read-only" in await run(box, "touch /ro/new 2>&1 || true; touch /over/new new")
        assert (await box.info()).image == BASE
        with pytest.raises(BoxExists):
            await backend.start(BoxSpec(name="life"), Silent())
        again = await backend.attach("life")
        assert again.address == box.address
        await box.pause()
        assert (await box.info()).state == "paused"
        await box.resume()
        await box.stop()
        assert [info.state for info in await backend.boxes()] == ["stopped"]
        await box.resume()
        assert await run(box, "ls /over/new /workspace/new | wc -l") == "2"
        assert [line for line in [line async for line in box.logs()] if line.startswith("Glovebox serves")]
        assert await backend.sweep() == []
    assert [(tmp_path / name / "new").exists() for name in ("workspace", "over")] == [True, False]
    assert (await box.info()).state == "missing"


async def test_podman_builds_images(backend: DockerBackend, podman: RealEngine, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        f'FROM {BASE}\nRUN echo built > /result\nENTRYPOINT ["/bin/false"]\n'
    )
    heard = Heard()
    async with started(backend, BoxSpec(build=str(tmp_path)), heard) as box:
        image = (await box.info()).image
        assert await run(box, "cat /result") == "built"
    assert [step for step in heard.steps if step[0] == "build"] == [("build", n, 3) for n in range(1, 4)]
    podman.remove_image(image)


async def test_podman_is_not_asked_for_what_it_would_pass_over(backend: DockerBackend) -> None:
    with pytest.raises(NotSupported, match="--runtime runsc"):
        await backend.start(BoxSpec(runtime="runsc"), Silent())
    with pytest.raises(BadImage, match=r"podman pull 127\.0\.0\.1:1/nobody/there"):
        await backend.start(BoxSpec(image="127.0.0.1:1/nobody/there"), Silent())
    with pytest.raises(BoxDied, match=r"no flag .--no-such-flag"):
        await backend.start(BoxSpec(arguments=("--no-such-flag",)), Silent())
