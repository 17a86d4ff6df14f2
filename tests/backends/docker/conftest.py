from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from glovebox.backends.docker.backend import DockerBackend
from glovebox.backends.docker.sandbox import DockerSandbox
from glovebox.client.backend import Level, ProgressReport, RuntimeStatus, Silent
from glovebox.client.spec import BoxSpec
from glovebox.settings import host
from tests.backends.conftest import environment
from tests.support.engine import RealEngine

_NOBODY = Silent()
#: The accounts of an image that has nothing else.
ACCOUNTS = b"root:x:0:0:root:/root:/bin/sh\n"


class Heard:
    """A report that remembers what it has heard."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.steps: list[tuple[str, int, int | None]] = []

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None:
        """Remember it."""
        self.messages.append(f"{status}: {message}")

    def progress(self, step: str, done: int, total: int | None) -> None:
        """Remember it."""
        self.steps.append((step, done, total))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def untouched(engine: RealEngine) -> Iterator[None]:
    """Sees that a test leaves nothing with the engine."""
    before = engine.things()
    yield
    assert engine.things() == before


@pytest.fixture
def environ(engine: RealEngine, tmp_path: Path) -> dict[str, str]:
    """What a client finds in its environment."""
    return {**environment(tmp_path), **engine.environ}


@contextlib.asynccontextmanager
async def started(
    backend: DockerBackend, spec: BoxSpec, report: ProgressReport = _NOBODY
) -> AsyncIterator[DockerSandbox]:
    """A box that is deleted at the end."""
    box = await backend.start(spec, report)
    try:
        yield box
    finally:
        await box.delete()


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """Files as a tar."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


MakeBackend = Callable[..., DockerBackend]


@pytest_asyncio.fixture
async def make_docker(untouched: None, environ: dict[str, str]) -> AsyncIterator[MakeBackend]:
    """Makes backends, each as another client would, with variables of their own."""
    made: list[DockerBackend] = []

    def make(**variables: str) -> DockerBackend:
        made.append(DockerBackend(host.load({**environ, **variables})))
        return made[-1]

    yield make
    for backend in made:
        await backend.close()


@pytest.fixture
def docker(make_docker: MakeBackend) -> DockerBackend:
    """The backend that most tests need."""
    return make_docker()
