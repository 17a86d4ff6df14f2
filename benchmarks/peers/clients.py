"""Host clients as the benchmark sees them, and the container engine they start containers on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.harness import OWN, REFERENCE, SWEREX, say
from benchmarks.peers.library import Worker
from benchmarks.peers.server import cache_folder
from benchmarks.processes import Failed

if TYPE_CHECKING:
    from tests.support.engine import RealEngine

#: With a runtime of its own. OpenHands can start it, too.
OWN_IMAGE = "glovebox:latest"
#: Without: the runtime is put into it.
_PLAIN_IMAGES = ("debian:stable-slim", "debian:bookworm-slim")
#: Where the libraries of clients are installed, and the classes of `host_clients` for them.
_LIBRARIES_OF = {
    OWN: (Path(sys.prefix), "GloveboxClient"),
    REFERENCE: (cache_folder() / "openhands", "OpenHandsClient"),
    SWEREX: (cache_folder() / "swerex", "SweRexClient"),
}
#: Where a container has libraries that its image may lack, and modules of Python that need such libraries.
_LIBRARIES = "/opt/benchmark-libraries"
_MODULES = ("_ssl", "_hashlib", "_ctypes", "_bz2", "_lzma", "_uuid", "_sqlite3", "zlib")
#: Those of the C library are the image's own.
_C_LIBRARY = ("libc.so", "libm.so", "ld-linux", "libpthread", "libdl", "librt", "libpython", "linux-vdso")


class Engine:
    """A container engine, and the image that boxes are made from."""

    def __init__(self, real: RealEngine, image: str) -> None:
        self._real, self.image = real, image

    @property
    def has_own_image(self) -> bool:
        """Whether the image brings a runtime, and what OpenHands starts."""
        return "glovebox.runtime" in (
            self._ask("GET", f"/images/{self.image}/json")["Config"]["Labels"] or {}
        )

    def version(self) -> str:
        about = self._ask("GET", "/version")
        return f"{about.get('Platform', {}).get('Name') or 'Docker Engine'} {about['Version']}"

    def variables(self) -> dict[str, str]:
        bundle = os.environ.get("GLOVEBOX_BUNDLE", "")
        return {"DOCKER_HOST": self._real.host, **({"GLOVEBOX_BUNDLE": bundle} if bundle else {})}

    def times(self, container: str, since: float, until: float) -> dict[str, float]:
        """When a container was created and started, in seconds since 1970."""
        filters = json.dumps({"container": [container], "event": ["create", "start"]})
        window = {"since": f"{since - 1:.6f}", "until": f"{until + 1:.6f}"}
        found = self._ask("GET", "/events", filters=filters, **window)
        events = [found] if isinstance(found, dict) else map(json.loads, str(found).splitlines())
        return {event["Action"]: event["timeNano"] / 1e9 for event in events}

    def processes(self, mark: str) -> set[psutil.Process]:
        found: set[psutil.Process] = set()
        for container in self._containers(mark):
            if container["State"] == "running":
                table = self._ask("GET", f"/containers/{container['Id']}/top", ps_args="-eo pid")
                pids = (int(pid) for (pid,) in table["Processes"])
                found |= {psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)}
        return found

    def remove_containers(self, mark: str) -> None:
        for container in self._containers(mark):
            with suppress(Failed):  # one that removes itself is being removed, or gone
                self._ask("DELETE", f"/containers/{container['Id']}", force="1", v="1")

    def _containers(self, mark: str) -> list[Any]:
        filters = json.dumps({"label": [f"benchmark={mark}"]})
        return list(self._ask("GET", "/containers/json", all="1", filters=filters))

    def _ask(self, method: str, path: str, **query: str) -> Any:
        try:
            return self._real.ask(method, path, **query)
        except AssertionError as error:
            raise Failed(f"the engine refuses: {error}") from error


@contextmanager
def find_engine() -> Iterator[Engine]:
    """The engine of DOCKER_HOST or GLOVEBOX_TEST_ENGINE, or a private one; it is left as it was found.

    Raises:
        Failed: there is none, or no image.
    """
    import pytest

    with ExitStack() as stack:
        try:
            real = _engine_that_answers(stack)
            image = _image(real, stack)
        except (pytest.skip.Exception, pytest.fail.Exception, RuntimeError, AssertionError) as problem:
            raise Failed(f"no container engine: {str(problem).splitlines()[0]}") from problem
        before = _volumes(real)
        try:
            yield Engine(real, image)
        finally:
            for volume in _volumes(real) - before:
                with suppress(AssertionError):  # somebody else may be using it by now
                    real.ask("DELETE", f"/volumes/{volume}")


def _engine_that_answers(stack: ExitStack) -> RealEngine:
    from tests.support.engine import RealEngine, private_engine

    for variable in ("DOCKER_HOST", "GLOVEBOX_TEST_ENGINE"):
        if host := os.environ.get(variable, ""):
            real = RealEngine(host)
            stack.callback(real.close)
            if real.answers():
                return real
    say("boxes: no container engine answers; starting a private one")
    return stack.enter_context(private_engine())


def _image(real: RealEngine, stack: ExitStack) -> str:
    from tests.support.engine import BASE, prepared

    for name in (os.environ.get("GLOVEBOX_IMAGE", ""), OWN_IMAGE, BASE, *_PLAIN_IMAGES):
        if name and real.has_image(name):
            return name
    say("boxes: there is no image to make boxes from; making one")
    real.import_image(BASE, prepared("base"))
    stack.callback(real.remove_image, BASE)
    return BASE


def _volumes(real: RealEngine) -> set[str]:
    names = {volume["Name"] for volume in real.ask("GET", "/volumes")["Volumes"] or []}
    return {name for name in names if name.startswith("glovebox-runtime-")}


def client_variables(folder: Path, engine: Engine | None) -> dict[str, str]:
    """Variables of a client: nothing of the user's own, and the engine."""
    return {
        "XDG_STATE_HOME": str(folder / "state"),
        # What is put into images is made once, and then kept with what else was installed.
        "XDG_CACHE_HOME": str(cache_folder()),
        "USER": "root" if os.getuid() == 0 else os.environ.get("USER", "openhands"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or its start would depend on the network
        "LOG_LEVEL": "ERROR",
        **(engine.variables() if engine else {}),
    }


class Client(Worker):
    """A client library in the interpreter that it is installed for."""

    def __init__(self, name: str, engine: Engine | None, made: tuple[str, str] | None = None) -> None:
        folder, default = _LIBRARIES_OF[name]
        self.python, self.engine = folder / "bin" / "python", engine
        module, kind = made or ("benchmarks.peers.host_clients", default)
        super().__init__(name, self.python, module, kind)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **client_variables(self.folder, self.engine)}

    def end_boxes(self) -> None:
        if not self.has_ended:  # otherwise they are ended with the rest of its processes
            self.ask("end")
        if self.engine:
            self.engine.remove_containers(self.mark)

    def boxes(self) -> set[psutil.Process]:
        """All processes of its boxes, also those in containers, but not the client."""
        found = {process for process in self.processes() if process.pid != self.pid}
        # If there are containers, the client's own processes are programs to reach them.
        return (self.engine.processes(self.mark) if self.engine else set()) or found

    def close(self) -> None:
        super().close()
        if self.engine:
            self.engine.remove_containers(self.mark)


def mount_arguments(python: Path, stack: ExitStack) -> Sequence[str]:
    """Arguments of `docker run` that let an image of a kindred Linux run what an environment holds."""
    environment, interpreter = python.parent.parent, python.resolve().parent.parent
    copies = Path(tempfile.mkdtemp(prefix="glovebox-bench-"))
    stack.callback(shutil.rmtree, copies, ignore_errors=True)
    for module in _MODULES:
        for extension in interpreter.glob(f"lib/python3*/lib-dynload/{module}.*.so"):
            shown = subprocess.run(["ldd", str(extension)], capture_output=True, text=True).stdout
            for line in shown.splitlines():
                name, arrow, path = line.partition(" => ")
                if arrow and path.startswith("/") and not name.strip().startswith(_C_LIBRARY):
                    shutil.copy(path.split()[0], copies)
    search = os.pathsep.join((str(environment / "bin"), "/usr/local/bin", "/usr/bin", "/bin"))
    return (
        *(f"--volume={folder}:{folder}:ro" for folder in (environment, interpreter)),
        *(
            f"--volume={copies}:{_LIBRARIES}:ro",
            f"--env=LD_LIBRARY_PATH={_LIBRARIES}",
            f"--env=PATH={search}",
        ),
    )
