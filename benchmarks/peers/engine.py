"""The container engine that boxes are started on, and `docker exec` as a peer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from benchmarks.harness import say
from benchmarks.processes import Failed, Unavailable

if TYPE_CHECKING:
    from tests.support.engine import RealEngine

#: With a runtime of its own, and without: the runtime is put into it.
_IMAGES = ("glovebox:latest", "debian:stable-slim", "debian:bookworm-slim")
_LIMIT = 120.0


class Engine:
    """A container engine, and the image that boxes are made from."""

    def __init__(self, real: RealEngine, image: str) -> None:
        self._real, self.image = real, image

    @property
    def has_gvisor(self) -> bool:
        return "runsc" in (self.ask("GET", "/info").get("Runtimes") or {})

    def variables(self) -> dict[str, str]:
        bundle = os.environ.get("GLOVEBOX_BUNDLE", "")
        return {"DOCKER_HOST": self._real.host, **({"GLOVEBOX_BUNDLE": bundle} if bundle else {})}

    def docker(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """A command of the engine's own client. Raises Failed if it fails."""
        options: Any = {"env": {**os.environ, **self.variables()}, "timeout": _LIMIT}
        done = subprocess.run(["docker", *words], capture_output=True, **options)
        if done.returncode:
            raise Failed(f"docker {words[0]}: {done.stderr.decode(errors='replace').strip()[:200]}")
        return done

    def ask(self, method: str, path: str, **query: str) -> Any:
        try:
            return self._real.ask(method, path, **query)
        except AssertionError as error:
            raise Failed(f"the engine refuses: {error}") from error

    def volumes(self) -> set[str]:
        names = {volume["Name"] for volume in self.ask("GET", "/volumes")["Volumes"] or []}
        return {name for name in names if name.startswith("glovebox-runtime-")}


@contextmanager
def find_engine() -> Iterator[Engine]:
    """The engine of DOCKER_HOST or GLOVEBOX_TEST_ENGINE, or a private one; it is left as it was found.

    Raises:
        Unavailable: there is none, or no image.
    """
    import pytest

    with ExitStack() as stack:
        try:
            real = _engine_that_answers(stack)
            engine = Engine(real, _image(real, stack))
        except (pytest.skip.Exception, pytest.fail.Exception, RuntimeError, AssertionError) as problem:
            raise Unavailable(f"no container engine: {str(problem).splitlines()[0]}") from problem
        before = engine.volumes()
        try:
            yield engine
        finally:
            for volume in engine.volumes() - before:
                with suppress(Failed):  # somebody else may be using it by now
                    engine.ask("DELETE", f"/volumes/{volume}")


def _engine_that_answers(stack: ExitStack) -> RealEngine:
    from tests.support.engine import RealEngine, private_engine

    for variable in ("DOCKER_HOST", "GLOVEBOX_TEST_ENGINE"):
        if host := os.environ.get(variable, ""):
            real = RealEngine(host)
            stack.callback(real.close)
            if real.answers():
                return real
    say("no container engine answers; starting a private one")
    return stack.enter_context(private_engine())


def _image(real: RealEngine, stack: ExitStack) -> str:
    from tests.support.engine import BASE, prepared

    for name in (os.environ.get("GLOVEBOX_IMAGE", ""), *_IMAGES, BASE):
        if name and real.has_image(name):
            return name
    say("there is no image to make boxes from; making one")
    real.import_image(BASE, prepared("base"))
    stack.callback(real.remove_image, BASE)
    return BASE


class DockerExec:
    """`docker exec` in a container that does nothing else."""

    name = "docker exec"

    def install(self) -> None:
        if shutil.which("docker") is None:
            raise Unavailable("there is no program docker")

    def version(self) -> str:
        shown = subprocess.run(["docker", "--version"], capture_output=True, text=True).stdout.strip()
        return shown or "of unknown version"

    @contextmanager
    def running(self) -> Iterator[Container]:
        with find_engine() as engine:
            container = engine.docker("run", "--detach", "--init", engine.image, "sleep", "infinity")
            name = container.stdout.decode().strip()
            try:
                yield Container(engine, name)
            finally:
                engine.docker("rm", "--force", "--volumes", name)


class Container:
    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name

    def execute(self, *argv: str) -> bytes:
        """What a program prints."""
        return self._engine.docker("exec", self._name, *argv).stdout
