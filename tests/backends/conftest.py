"""The places where boxes live, each with what the tests of the contract need to know of it."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from glovebox.client.backend import Backend, BoxInfo, Sandbox, Silent
from glovebox.client.spec import BoxSpec
from glovebox.settings import host
from tests.hub.hubs import running_hub
from tests.hub.window_client import opened_window
from tests.support.running import running_box, wait_until

ROOT = Path(__file__).parents[2]
PROCESS = "glovebox.backends.process.backend:ProcessBackend"
REMOTE = "glovebox.backends.remote:RemoteBackend"
DOCKER = "glovebox.backends.docker.backend:DockerBackend"
VSCODE = "glovebox.backends.vscode:VSCodeBackend"
#: Places with boxes that somebody else has started.
FOUND = ("remote", "vscode")

#: What another client does: it runs `act(backend, spec)` with the backend of a place.
CLIENT = """
import asyncio, importlib, sys
from msgspec import json
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec
from glovebox.settings import host

{act}

module, _, name = sys.argv[1].partition(":")
backend = getattr(importlib.import_module(module), name)(host.load())
asyncio.run(act(backend, json.decode(sys.argv[2], type=BoxSpec)))
"""


@dataclass
class Place:
    """A kind of place, and what a client there is told."""

    kind: str
    backend: str
    environ: dict[str, str]
    #: What every spec has here.
    common: dict[str, Any] = field(default_factory=dict)
    made: list[Backend] = field(default_factory=list)
    #: Tells boxes of this test from those that others have in the same place.
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def make(self) -> Backend:
        """A backend, as another client would make it."""
        module, _, name = self.backend.partition(":")
        backend: Backend = getattr(importlib.import_module(module), name)(host.load(self.environ))
        self.made.append(backend)
        return backend

    def spec(self, **fields: Any) -> BoxSpec:
        """A spec for a box here."""
        labels = {} if self.kind in FOUND else {**fields.pop("labels", {}), "test": self.mark}
        return BoxSpec(**{"start_limit": 60.0, "labels": labels, **self.common, **fields})

    async def boxes(self) -> list[BoxInfo]:
        """The boxes of this test, as another client sees them."""
        found = await self.make().boxes()
        return [info for info in found if self.kind in FOUND or info.labels.get("test") == self.mark]

    @contextlib.contextmanager
    def client(self, act: str, spec: BoxSpec) -> Iterator[subprocess.Popen[str]]:
        """Another client that does something; it is killed at the end."""
        import msgspec

        process = subprocess.Popen(
            [sys.executable, "-c", CLIENT.format(act=act), self.backend, msgspec.json.encode(spec).decode()],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self.environ,
        )
        assert process.stdout is not None
        with process.stdout:
            try:
                yield process
            finally:
                process.kill()
                process.wait()


def environment(directory: Path) -> dict[str, str]:
    """What the tester's shell has, with directories of the test's own."""
    inherited = {name: value for name, value in os.environ.items() if name != "SESSION_API_KEY"}
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        path = directory / variable.lower()
        path.mkdir(exist_ok=True)
        inherited[variable] = str(path)
    return inherited


@pytest_asyncio.fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """The place of the kind that a test is run for; whatever a test leaves there is removed, and told."""
    kind: str = request.param
    environ = environment(tmp_path)
    with contextlib.ExitStack() as stack:
        if kind == "docker":
            place = _docker(request, environ)
        elif kind == "remote":
            box = stack.enter_context(running_box(tmp_path / "box"))
            place = Place(kind, REMOTE, {**environ, "GLOVEBOX_URL": box.url, "SESSION_API_KEY": box.key})
        elif kind == "vscode":
            place = _vscode(stack, tmp_path, environ)
        else:
            common = {"isolation": "bubblewrap"} if kind == "bubblewrap" else {}
            place = Place(kind, PROCESS, environ, common)
        try:
            yield place
        finally:
            left = await _cleared(place) if kind not in FOUND else []
            for backend in place.made:
                await backend.close()
        assert not left, f"the test has left {left}"


async def _cleared(place: Place) -> list[str]:
    names = [info.name for info in await place.boxes()]
    for name in names:
        await (await place.make().attach(name)).delete()
    return names


def _docker(request: pytest.FixtureRequest, environ: dict[str, str]) -> Place:
    try:
        engine = request.getfixturevalue("engine")
    except pytest.FixtureLookupError:
        pytest.skip("the plugin tests.support.engine is not loaded")
    return Place("docker", DOCKER, {**environ, **engine.environ})


def _vscode(stack: contextlib.ExitStack, directory: Path, environ: dict[str, str]) -> Place:
    """A window that works on a real directory, at a real hub."""
    folder, home = directory / "folder", directory / "hub"
    folder.mkdir()
    home.mkdir()
    hub = stack.enter_context(running_hub(home))
    stack.enter_context(opened_window(hub.url, hub.key, folder))
    return Place("vscode", VSCODE, {**environ, "GLOVEBOX_HUB_URL": hub.url, "GLOVEBOX_HUB_KEY": hub.key})


@pytest_asyncio.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Place]:
    """The place for tests of plain processes; what one that fails has left is removed."""
    place = Place("process", PROCESS, environment(tmp_path))
    yield place
    await _cleared(place)
    for backend in place.made:
        await backend.close()


@contextlib.asynccontextmanager
async def started(backend: Backend, spec: BoxSpec) -> AsyncIterator[Sandbox]:
    """A box that is deleted at the end."""
    sandbox = await backend.start(spec, Silent())
    try:
        yield sandbox
    finally:
        await sandbox.delete()


def client_of(sandbox: Sandbox) -> httpx.AsyncClient:
    """A client that knows the key."""
    return httpx.AsyncClient(
        base_url=sandbox.address.url,
        headers={"X-Session-API-Key": sandbox.address.key},
        timeout=60,
        trust_env=False,
    )


async def run(sandbox: Sandbox, command: str) -> str:
    """The output of a command that must succeed."""
    async with client_of(sandbox) as client:
        action = {"action": "run", "args": {"command": command, "blocking": True}, "timeout": 60}
        answer = await client.post("/execute_action", json={"action": action})
    assert answer.status_code == 200, answer.text
    observation = answer.json()
    assert observation["extras"]["metadata"]["exit_code"] == 0, observation
    content: str = observation["content"]
    return content


def killed(pid: int) -> None:
    """Kill a process and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_there(pid), what=f"the end of {pid}")


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def mentioning(directory: Path) -> list[int]:
    """The processes that have to do with a directory: by command line, environment or working directory."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid() or not is_there(int(path.name)):
            continue
        try:
            told = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
            told += os.fsencode((path / "cwd").readlink())
        except OSError:
            continue
        if os.fsencode(directory) in told:
            found.append(int(path.name))
    return found
