"""Where a box lives if nobody has said it, on a machine with an engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from glovebox.backends.docker.images import OWN_IMAGE, PLAIN_IMAGE
from glovebox.client.runtime import Runtime
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadSpec
from glovebox.settings import host
from glovebox.settings.host import HostSettings
from tests.support.engine import BASE, RealEngine


@pytest.fixture
def nothing_said(environ: dict[str, str], untouched: None) -> HostSettings:
    return host.load({**environ, "GLOVEBOX_IMAGE": "", "GLOVEBOX_BACKEND": "", "GLOVEBOX_ISOLATION": ""})


@pytest.fixture
def own_image(engine: RealEngine) -> Iterator[None]:
    """The project's own image, if only by its name."""
    if engine.has_image(OWN_IMAGE):
        yield
        return
    repository, _, tag = OWN_IMAGE.partition(":")
    engine.ask("POST", f"/images/{BASE}/tag", repo=repository, tag=tag)
    yield
    engine.remove_image(OWN_IMAGE)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
async def test_an_engine_that_has_no_image_and_gets_none_leaves_it_to_bubblewrap(
    engine: RealEngine, nothing_said: HostSettings
) -> None:
    if engine.has_image(OWN_IMAGE) or engine.has_image(PLAIN_IMAGE):
        pytest.skip("the engine has an image")
    told: list[Any] = []
    async with Runtime(settings=nothing_said, status_callback=lambda *status: told.append(status)) as runtime:
        if engine.has_image(PLAIN_IMAGE):
            pytest.skip("the engine reaches a registry")
        assert runtime.workspace == "/workspace"
        [line] = [text for level, _, text in told if level == "warning"]
        assert line.startswith(f"The image {PLAIN_IMAGE} is not here and cannot be pulled: ")
        assert ": bubblewrap isolates the box" in line


async def test_an_engine_with_our_image_has_the_box(
    engine: RealEngine, own_image: None, nothing_said: HostSettings
) -> None:
    told: list[Any] = []
    async with Runtime(settings=nothing_said, status_callback=lambda *status: told.append(status)) as runtime:
        assert engine.container(runtime.name)["State"]["Running"]
        async with Runtime("", BoxSpec(name=runtime.name), attach=True, settings=nothing_said) as same:
            assert same.url == runtime.url
    assert [text for level, _, text in told if level == "warning"] == []


async def test_an_isolation_that_is_named_means_a_process_and_an_image_a_container(
    own_image: None, nothing_said: HostSettings
) -> None:
    async with Runtime("", BoxSpec(isolation="none"), settings=nothing_said) as runtime:
        assert runtime.workspace != "/workspace"
    with pytest.raises(BadSpec, match="A container is isolated by itself"):
        await Runtime("", BoxSpec(image=BASE, isolation="none"), settings=nothing_said).connect()
