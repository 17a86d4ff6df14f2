"""Boxes in containers, of Docker Engine or Podman."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from glovebox.backends import owners
from glovebox.backends.docker import wire
from glovebox.backends.docker.config import (
    API_PORT,
    BACKEND,
    BOX,
    HOME,
    KEEP,
    LAYERS,
    OWNER,
    PREFIX,
    VSCODE_PORT,
    ContainerPlan,
    box_info,
    check,
    container_config,
    host_ports,
    published_url,
    state_of,
)
from glovebox.backends.docker.containers import create, inspect, list_containers, remove
from glovebox.backends.docker.engine import GREETING_LIMIT, Engine, EngineRefused, open_engine
from glovebox.backends.docker.images import has_runtime, prepare_image
from glovebox.backends.docker.mounts import Mounts, make_layers, mounts_for, remove_layers
from glovebox.backends.docker.runtime_volume import (
    FILLING,
    STARTER,
    VOLUME,
    RuntimeVolume,
    check_architecture,
    fill,
    runtime_volume,
)
from glovebox.backends.docker.sandbox import DockerSandbox
from glovebox.backends.startup import finish, undoable
from glovebox.client.backend import BoxInfo, ProgressReport
from glovebox.client.spec import BoxSpec, checked_name
from glovebox.errors import BackendError, BadImage, BadSpec, EngineUnavailable, NoSuchBox
from glovebox.settings.host import HostSettings

log = logging.getLogger(__name__)

#: Seconds for the first answer of an engine and of a registry where containers are only the default.
_PING_LIMIT = 1.0
_REGISTRY_LIMIT = 5.0
#: Seconds after the first start until the sweep, so that the new box is not delayed.
_SWEEP_AFTER = 0.1
#: Unused runtimes that are kept: a user may switch between versions.
KEPT_RUNTIMES = 2
#: Seconds after which layers without a container are removed. A start makes them right after its container.
_FORGOTTEN = 3600.0


class _Incomplete(BackendError):
    """The volume with the runtime is empty or incomplete."""


class DockerBackend:
    """Starts boxes in containers. It connects to an engine when one is first needed."""

    name = BACKEND

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._engine: Engine | None = None
        self._opening = asyncio.Lock()
        self._runtime: RuntimeVolume | None = None
        self._filling = asyncio.Lock()
        self._sweeping: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        #: How often this backend has filled the volume.
        self._fillings = 0

    async def start(self, spec: BoxSpec, report: ProgressReport) -> DockerSandbox:
        """Start a box. Its image is pulled or built if necessary, and gets a runtime if it has none.

        Boxes whose client is gone are removed afterwards, once.

        Raises:
            BackendError: it could not be started; the text says why and what to do.
        """
        sandbox = await self._start(spec, report)
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())
        return sandbox

    async def _start(self, spec: BoxSpec, report: ProgressReport) -> DockerSandbox:
        engine = await self._open()
        check(spec, is_remote=engine.is_remote, is_podman=engine.is_podman)
        name = checked_name(spec.name) if spec.name else secrets.token_hex(6)
        image_name, image = await prepare_image(engine, self._settings, spec, report)
        runtime = None if has_runtime(image) else await self._runtime_for(image_name, image, report)
        plan = self._plan(engine, spec, name, image_name, runtime)
        fillings = self._fillings
        try:
            return await self._run(engine, spec, plan)
        except _Incomplete:
            if runtime is None:
                raise BadImage(
                    f"The image {image_name} says that it has a runtime in {HOME}, but there is none. "
                    "Build it again, or take away its label glovebox.runtime."
                ) from None
        async with self._filling:
            if fillings == self._fillings:  # else another start has filled it meanwhile
                await fill(engine, runtime, image_name, report)
                self._fillings += 1
        return await self._run(engine, spec, plan)

    async def find_problem(self, report: ProgressReport, *, with_image: bool) -> str:
        """Why boxes of the default image cannot be started here, in a few words; empty if they can.

        The image is pulled and the runtime made if need be. Without `with_image`, only the engine is asked.
        """
        try:
            engine = await self._open(_PING_LIMIT)
            if with_image:
                name, image = await prepare_image(
                    engine, self._settings, BoxSpec(), report, registry_limit=_REGISTRY_LIMIT
                )
                if not has_runtime(image):
                    await self._runtime_for(name, image, report)
        except EngineUnavailable:
            return "No container engine answers"
        except BackendError as error:
            return str(error).partition("\n")[0].rstrip(".")
        return ""

    async def attach(self, name: str) -> DockerSandbox:
        engine = await self._open()
        container = PREFIX + checked_name(name)
        try:
            found = await inspect(engine, container)
        except EngineRefused as error:
            if error.status_code == 404:
                raise NoSuchBox(f"There is no box {name!r}.") from error
            raise
        if BOX not in found.labels:
            raise NoSuchBox(f"There is no box {name!r}: the container {container} is somebody else's.")
        return DockerSandbox(engine, found)

    async def boxes(self) -> list[BoxInfo]:
        """All boxes of this engine, oldest first."""
        engine = await self._open()
        found = [_listed(engine, container) for container in await list_containers(engine, BOX)]
        return sorted(found, key=lambda box: box.created)

    async def sweep(self) -> list[str]:
        """Remove boxes whose client is gone, unless they are kept, and what else such clients left."""
        engine = await self._open()
        removed = []
        for container in await _orphans(engine):
            labels = container.labels or {}
            await remove(engine, container.id)
            await asyncio.to_thread(remove_layers, labels.get(LAYERS, ""), PREFIX + labels[BOX])
            removed.append(labels[BOX])
        for container in await list_containers(engine, FILLING):
            if owners.is_gone((container.labels or {}).get(OWNER, "")):
                await remove(engine, container.id)
        await _sweep_runtimes(engine)
        existing = {
            PREFIX + (container.labels or {})[BOX] for container in await list_containers(engine, BOX)
        }
        await asyncio.to_thread(_sweep_layers, self._overlays, existing)
        return removed

    async def orphans(self) -> list[str]:
        """The names of the boxes that `sweep` would remove."""
        return [(container.labels or {})[BOX] for container in await _orphans(await self._open())]

    async def _sweep(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SWEEP_AFTER):
                await self._closing.wait()
        try:
            await self.sweep()
        except BackendError as error:
            log.warning("Boxes of clients that are gone may be left over: %s", error)

    async def close(self) -> None:
        self._closing.set()
        if self._sweeping is not None:
            await self._sweeping
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    @property
    def _overlays(self) -> Path:
        return Path(self._settings.overlays or self._settings.state / "overlays").absolute()

    async def _open(self, limit: float = GREETING_LIMIT) -> Engine:
        async with self._opening:
            if self._engine is None:
                self._engine = await open_engine(self._settings, limit)
            return self._engine

    async def _runtime_for(self, name: str, image: wire.Image, report: ProgressReport) -> RuntimeVolume:
        if self._runtime is None:
            self._runtime = await runtime_volume(self._settings, report)
        check_architecture(name, image, self._runtime)
        return self._runtime

    def _plan(
        self, engine: Engine, spec: BoxSpec, name: str, image: str, runtime: RuntimeVolume | None
    ) -> ContainerPlan:
        wanted = mounts_for(
            spec, PREFIX + name, self._overlays, is_remote=engine.is_remote, is_podman=engine.is_podman
        )
        api_port, vscode_port = API_PORT, VSCODE_PORT
        if spec.network == "host":
            # Nothing is published, so the engine chooses no ports.
            api_port, vscode_port = _free_ports(spec, is_remote=engine.is_remote)
        return ContainerPlan(
            name=name,
            key=spec.key or secrets.token_urlsafe(32),
            image=image,
            program=STARTER if runtime else f"{HOME}/bin/glovebox",
            mounts=Mounts(
                binds=wanted.binds,
                mounts=(*wanted.mounts, *((runtime.mount(),) if runtime else ())),
                layers=wanted.layers,
            ),
            api_port=api_port,
            vscode_port=vscode_port,
        )

    async def _run(self, engine: Engine, spec: BoxSpec, plan: ContainerPlan) -> DockerSandbox:
        """Create and start the container; nothing of it is left if that fails."""

        async def undo(container: str) -> None:
            try:
                await remove(engine, container)
            except BackendError as error:
                log.warning("the container %s may be left over: %s", plan.container, error)
            await asyncio.to_thread(remove_layers, plan.mounts.layers, plan.container)

        container = await undoable(create(engine, plan.container, container_config(spec, plan)), undo)
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(lambda: finish(undo(container)))
            if plan.mounts.layers:
                await asyncio.to_thread(make_layers, plan.mounts, spec)
            await _start(engine, container, plan)
            for network in spec.networks:
                await _join(engine, container, network)
            sandbox = DockerSandbox(engine, await inspect(engine, container))
            await sandbox.wait_until_alive(spec.start_limit)
            unfinished.pop_all()
        return sandbox


async def _start(engine: Engine, container: str, plan: ContainerPlan) -> None:
    try:
        await engine.request("POST", f"/containers/{container}/start")
    except EngineRefused as error:
        words = str(error)
        if plan.program in words:
            raise _Incomplete(words) from error
        if "already allocated" in words or "address already in use" in words:
            raise BadSpec(f"A port of the host that the box should have is taken: {words}") from error
        if "network" in words and error.status_code == 404:
            raise BadSpec(f"There is no such network: {words}") from error
        raise BackendError(f"The engine does not start the container {plan.container}: {words}") from error


async def _join(engine: Engine, container: str, network: str) -> None:
    try:
        await engine.request("POST", f"/networks/{network}/connect", body={"Container": container})
    except EngineRefused as error:
        raise BadSpec(f"The box cannot join the network {network}: {error}") from error


def _listed(engine: Engine, container: wire.ContainerSummary) -> BoxInfo:
    labels = container.labels or {}
    where = {port.private: (port.ip, str(port.public)) for port in container.ports or () if port.public}
    own = list(host_ports(labels).values())
    at = where.get(API_PORT) or (own[0] if own else None)
    url = published_url(engine, *at) if at else ""
    return box_info(labels, state_of(container.state), url)


def _free_ports(spec: BoxSpec, *, is_remote: bool) -> tuple[int, int]:
    """Ports of the host for the API and VS Code that are free now; those of another host are not known."""
    if is_remote:
        return spec.port or API_PORT, VSCODE_PORT
    family = socket.AF_INET6 if ":" in spec.publish_address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one, socket.socket(family, socket.SOCK_STREAM) as two:
        for probe in (one, two):
            try:
                probe.bind((spec.publish_address, 0))
            except OSError as error:
                raise BadSpec(
                    f"This host does not have the address {spec.publish_address}: {error}"
                ) from error
        return spec.port or one.getsockname()[1], two.getsockname()[1]


async def _orphans(engine: Engine) -> list[wire.ContainerSummary]:
    """The containers of boxes whose client is gone, unless they are kept."""
    found = []
    for container in await list_containers(engine, BOX):
        labels = container.labels or {}
        if labels.get(KEEP) != "true" and owners.is_gone(labels.get(OWNER, "")):
            found.append(container)
    return found


async def _sweep_runtimes(engine: Engine) -> None:
    filters = msgspec.json.encode({"label": [VOLUME], "dangling": ["true"]}).decode()
    found = await engine.get(wire.Volumes, "/volumes", query={"filters": filters})
    unused = sorted(found.volumes or (), key=lambda volume: volume.created_at, reverse=True)
    for volume in unused[KEPT_RUNTIMES:]:
        try:
            await engine.request("DELETE", f"/volumes/{volume.name}")
        except EngineRefused as error:  # it is in use again
            log.debug("the volume %s stays: %s", volume.name, error)


def _sweep_layers(overlays: Path, existing: set[str]) -> None:
    """Remove layers whose container is gone."""
    try:
        found = [path for path in overlays.iterdir() if path.name.startswith(PREFIX)]
    except FileNotFoundError:
        return
    for path in found:
        if path.name not in existing and time.time() - path.stat().st_mtime > _FORGOTTEN:
            remove_layers(str(path), path.name)
