from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadImage, BadSpec
from tests.backends.conftest import run
from tests.backends.docker.conftest import ACCOUNTS, Heard, MakeBackend, started, tar_of
from tests.backends.docker.registry import registry
from tests.support.engine import BASE, RealEngine


@pytest.fixture
def made(engine: RealEngine) -> Iterator[Callable[[str], str]]:
    """Notes names of images, which are removed at the end."""
    names: list[str] = []

    def note(name: str) -> str:
        names.append(name)
        return name

    yield note
    for name in names:
        engine.remove_image(name)


async def test_an_image_that_is_missing_is_pulled(
    docker: DockerBackend, heard: Heard, made: Callable[[str], str]
) -> None:
    noise = os.urandom(6 << 20)
    with registry("tools/noise", tar_of({"noise": noise, "etc/passwd": ACCOUNTS})) as name:
        made(name)
        async with started(docker, BoxSpec(image=name), heard) as box:
            assert await run(box, "[ -s /noise ] && echo there") == "there"
    assert f"STATUS$BUILDING_RUNTIME: Pulling {name}..." in heard.messages
    pulled = [step for step in heard.steps if step[0] == "pull"]
    assert pulled[-1][1] == pulled[-1][2]
    assert pulled[-1][1] > len(noise)
    assert [step[1] for step in pulled] == sorted(step[1] for step in pulled)


async def test_an_image_that_nobody_has_is_said_to_be_missing(docker: DockerBackend) -> None:
    with registry("tools/noise", tar_of({})) as name:
        missing = name.replace("noise", "silence")
        with pytest.raises(BadImage, match=f"{missing} is not here and cannot be pulled: ") as refused:
            await docker.start(BoxSpec(image=missing), Silent())
    assert f"`docker pull {missing}`" in str(refused.value)


async def test_a_registry_that_does_not_answer_is_named(docker: DockerBackend) -> None:
    with pytest.raises(BadImage, match=r"cannot be pulled.*refused"):
        await docker.start(BoxSpec(image="127.0.0.1:1/nobody/there"), Silent())


async def test_a_name_that_no_image_can_have_is_refused(docker: DockerBackend) -> None:
    with pytest.raises(BadImage, match="Not A Name"):
        await docker.start(BoxSpec(image="Not A Name"), Silent())


async def test_an_image_is_built_from_a_directory(
    docker: DockerBackend, heard: Heard, made: Callable[[str], str], tmp_path: Path
) -> None:
    context = tmp_path / "context"
    (context / "junk").mkdir(parents=True)
    (context / "junk" / "large").write_text("not wanted")
    (context / "junk" / "small").write_text("wanted")
    (context / ".dockerignore").write_text("# what stays out\njunk/*\n!junk/small\n")
    (context / "Dockerfile").write_text(
        f'FROM {BASE}\nCOPY . /context\nRUN echo built > /result\nUSER nobody\nENTRYPOINT ["/bin/false"]\n'
    )
    async with started(docker, BoxSpec(build=str(context)), heard) as box:
        made((await box.info()).image)
        assert await run(box, "cat /result; cd /context; find . -type f | sort; id -un") == (
            "built\n./.dockerignore\n./Dockerfile\n./junk/small\nroot"
        )
    assert [step for step in heard.steps if step[0] == "build"] == [("build", n, 5) for n in range(1, 6)]
    assert "STATUS$BUILDING_RUNTIME: Step 3/5: RUN echo built > /result" in heard.messages


async def test_a_build_that_fails_tells_the_last_words(docker: DockerBackend, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nRUN echo the reason; exit 7\n")
    with pytest.raises(BadImage, match="code: 7") as failed:
        await docker.start(BoxSpec(build=str(tmp_path)), Silent())
    assert "\nthe reason\n" in str(failed.value)
    with pytest.raises(BadSpec, match="no Dockerfile"):
        await docker.start(BoxSpec(build=str(tmp_path / "nowhere")), Silent())


async def test_an_image_with_a_false_promise_is_refused(
    docker: DockerBackend, engine: RealEngine, made: Callable[[str], str]
) -> None:
    engine.import_image(made("glovebox-test-false:latest"), tar_of({}), "LABEL glovebox.runtime=1")
    with pytest.raises(BadImage, match="says that it has a runtime"):
        await docker.start(BoxSpec(image="glovebox-test-false:latest"), Silent())


async def test_an_image_for_another_machine_is_refused(
    docker: DockerBackend, made: Callable[[str], str]
) -> None:
    other = "arm64" if platform.machine() == "x86_64" else "amd64"
    with registry("tools/other", tar_of({"x": b""}), other) as name:
        made(name)
        with pytest.raises(BadImage, match=f"is for {other}, and the runtime for"):
            await docker.start(BoxSpec(image=name), Silent())


async def test_the_image_of_the_settings_is_used_unless_the_spec_has_one(
    make_docker: MakeBackend, engine: RealEngine, made: Callable[[str], str]
) -> None:
    name = made("glovebox-test-settings:latest")
    engine.ask("POST", f"/images/{BASE}/tag", repo="glovebox-test-settings", tag="latest")
    async with started(make_docker(GLOVEBOX_IMAGE=name), BoxSpec()) as box:
        assert (await box.info()).image == name
