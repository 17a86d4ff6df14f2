"""The container engine that is measured with: one that answers, or one of this run's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.competitors import Say, Unavailable
from benchmarks.load import LoadError

if TYPE_CHECKING:
    from tests.support.engine import RealEngine

#: With a runtime of its own. OpenHands can start it, too.
OWN_IMAGE = "glovebox:latest"
#: Without: the runtime is put into it.
_PLAIN_IMAGES = ("debian:stable-slim", "debian:bookworm-slim")
_RUNTIMES = "glovebox-runtime-"
_RUNTIME_LABEL = "glovebox.runtime"
_LABEL = "benchmark"


class Engine:
    """A container engine, and the image that boxes are made from."""

    def __init__(self, real: RealEngine, image: str) -> None:
        self._real = real
        self.host = real.host
        self.image = image

    @property
    def has_own_image(self) -> bool:
        """Whether the image brings a runtime, and what OpenHands starts."""
        about = self._ask("GET", f"/images/{self.image}/json")
        return _RUNTIME_LABEL in (about["Config"]["Labels"] or {})

    def variables(self) -> dict[str, str]:
        """By which clients find it."""
        given = {"GLOVEBOX_BUNDLE": os.environ.get("GLOVEBOX_BUNDLE", "")}
        return {"DOCKER_HOST": self.host, **{name: value for name, value in given.items() if value}}

    def version(self) -> str:
        """What it is."""
        about = self._ask("GET", "/version")
        return f"{about.get('Platform', {}).get('Name') or 'Docker Engine'} {about['Version']}"

    def moments(self, container: str, since: float, until: float) -> dict[str, float]:
        """When a container was created and when it was started, in seconds since 1970."""
        filters = json.dumps({"container": [container], "event": ["create", "start"]})
        told = self._ask(
            "GET", "/events", since=f"{since - 1:.6f}", until=f"{until + 1:.6f}", filters=filters
        )
        events = [told] if isinstance(told, dict) else map(json.loads, str(told).splitlines())
        return {event["Action"]: event["timeNano"] / 1e9 for event in events}

    def processes(self, mark: str) -> set[psutil.Process]:
        """All processes in the containers of a client."""
        found: set[psutil.Process] = set()
        for container in self._containers(mark):
            if container["State"] != "running":
                continue
            table = self._ask("GET", f"/containers/{container['Id']}/top", ps_args="-eo pid")
            for (pid,) in table["Processes"]:
                if psutil.pid_exists(int(pid)):
                    found.add(psutil.Process(int(pid)))
        return found

    def remove_containers(self, mark: str) -> None:
        """Remove what a client has left: stopped containers, or those of one that was killed."""
        for container in self._containers(mark):
            with suppress(LoadError):  # one that removes itself is being removed, or gone
                self._ask("DELETE", f"/containers/{container['Id']}", force="1", v="1")

    def _containers(self, mark: str) -> list[Any]:
        filters = json.dumps({"label": [f"{_LABEL}={mark}"]})
        found: list[Any] = self._ask("GET", "/containers/json", all="1", filters=filters)
        return found

    def _ask(self, method: str, path: str, **query: str) -> Any:
        try:
            return self._real.ask(method, path, **query)
        except AssertionError as error:
            raise LoadError(f"the engine refuses: {error}") from error


@contextmanager
def found_engine(say: Say) -> Iterator[Engine]:
    """The engine of DOCKER_HOST or GLOVEBOX_TEST_ENGINE, or a private one; it is left as it was found.

    Raises:
        Unavailable: there is none, or no image.
    """
    import pytest
    from tests.support.engine import BASE

    with ExitStack() as stack:
        try:
            real = _answering(stack, say)
            image = _image(real, BASE, stack, say)
        except (pytest.skip.Exception, pytest.fail.Exception, RuntimeError, AssertionError) as problem:
            raise Unavailable(f"no container engine: {str(problem).splitlines()[0]}") from problem
        before = _runtimes(real)
        try:
            yield Engine(real, image)
        finally:
            for volume in _runtimes(real) - before:
                # Somebody else may be using it by now.
                with suppress(AssertionError):
                    real.ask("DELETE", f"/volumes/{volume}")


def _answering(stack: ExitStack, say: Say) -> RealEngine:
    from tests.support.engine import RealEngine, private_engine

    for variable in ("DOCKER_HOST", "GLOVEBOX_TEST_ENGINE"):
        if host := os.environ.get(variable, ""):
            real = RealEngine(host)
            stack.callback(real.close)
            if real.answers():
                return real
    say("boxes: no container engine answers; starting a private one")
    return stack.enter_context(private_engine())


def _image(real: RealEngine, base: str, stack: ExitStack, say: Say) -> str:
    from tests.support.engine import prepared

    for name in (os.environ.get("GLOVEBOX_IMAGE", ""), OWN_IMAGE, base, *_PLAIN_IMAGES):
        if name and real.has_image(name):
            return name
    say("boxes: there is no image to make boxes from; making one")
    real.import_image(base, prepared("base"))
    stack.callback(real.remove_image, base)
    return base


def _runtimes(real: RealEngine) -> set[str]:
    volumes = real.ask("GET", "/volumes")["Volumes"] or []
    return {volume["Name"] for volume in volumes if volume["Name"].startswith(_RUNTIMES)}
