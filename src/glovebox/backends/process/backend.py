"""Boxes that are processes of this machine, with bubblewrap around them or not."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import secrets
import socket
import time
from contextlib import AsyncExitStack
from typing import get_args

from msgspec import structs

from glovebox.backends import owners
from glovebox.backends.process import bubblewrap
from glovebox.backends.process.records import BUBBLEWRAP, BoxDirectory, BoxRecord, BoxRecords, in_thread
from glovebox.backends.process.sandbox import NAME, ProcessSandbox, adopt, delete
from glovebox.client.backend import BoxInfo, ProgressReport, RuntimeStatus
from glovebox.client.spec import VSCODE_PORT, BoxSpec, Isolation, checked_name
from glovebox.errors import BadSpec, NoIsolation, NoSuchBox, NotSupported
from glovebox.settings.host import HostSettings

log = logging.getLogger(__name__)

NOT_ISOLATED = "This box is NOT isolated: its commands can do all that you can (isolation none)"


class ProcessBackend:
    """Starts `glovebox serve` for each box, and finds boxes by their directories."""

    def __init__(self, settings: HostSettings, why: str = "") -> None:
        """`why` says why boxes are processes where the caller has not chosen that."""
        self._settings = settings
        self._why = why
        self._records = BoxRecords(settings.state)
        self._sweeping: set[asyncio.Task[list[str]]] = set()

    @property
    def name(self) -> str:
        return NAME

    async def start(self, spec: BoxSpec, report: ProgressReport) -> ProcessSandbox:
        try:
            spec = await in_thread(complete_spec, spec, self._settings)
            return await self._start(spec, report)
        except NoIsolation as error:
            if self._why:
                raise NoIsolation(f"{self._why}. {error}") from error
            raise

    async def _start(self, spec: BoxSpec, report: ProgressReport) -> ProcessSandbox:
        self._sweep_later()
        record = BoxRecord(spec=spec, owner=owners.this_process(), created=time.time())
        directory = self._records.of(record)
        sandbox = ProcessSandbox(directory, record, self._settings)
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(in_thread, delete, directory)
            await in_thread(self._records.create, record)
            await sandbox.start()
            warning = bubblewrap.SHARED if record.is_isolated else NOT_ISOLATED
            if self._why:
                warning = f"{self._why}: {warning}"
            log.info("%s: %s", spec.name, warning)
            report.status(RuntimeStatus.STARTING_RUNTIME, warning, "warning")
            unfinished.pop_all()
        return sandbox

    async def attach(self, name: str) -> ProcessSandbox:
        """The box of that name; this client becomes its owner if the old one is gone."""
        return await in_thread(self._attach, name)

    async def boxes(self) -> list[BoxInfo]:
        found = []
        for directory in await in_thread(self._records.directories):
            try:
                record = await in_thread(directory.read)
            except NoSuchBox:  # deleted meanwhile
                continue
            found.append(await ProcessSandbox(directory, record, self._settings).info())
        return sorted((info for info in found if info.state != "missing"), key=lambda info: info.created)

    async def sweep(self) -> list[str]:
        """Remove boxes whose client is gone, unless they are kept; their names."""
        directories = await in_thread(self._records.directories)
        swept = await asyncio.gather(*(in_thread(_sweep, directory) for directory in directories))
        return [directory.name for directory, is_swept in zip(directories, swept, strict=True) if is_swept]

    async def orphans(self) -> list[str]:
        """The names of the boxes that `sweep` would remove."""
        directories = await in_thread(self._records.directories)
        return [directory.name for directory in directories if await in_thread(_is_orphan, directory)]

    async def close(self) -> None:
        """Wait until the sweep in the background has ended."""
        if self._sweeping:
            await asyncio.wait(self._sweeping)

    def _attach(self, name: str) -> ProcessSandbox:
        directory = self._records.find(name)
        with directory.locked() as record:
            record = adopt(directory, record)
        return ProcessSandbox(directory, record, self._settings)

    def _sweep_later(self) -> None:
        """Sweep in the background, so that the start is not delayed."""
        task = asyncio.create_task(self.sweep())
        self._sweeping.add(task)
        task.add_done_callback(self._sweeping.discard)


def _sweep(directory: BoxDirectory) -> bool:
    """Remove a box if it is an orphan; whether it was. Blocks."""
    is_orphan = _is_orphan(directory)
    if is_orphan:
        delete(directory)
    return is_orphan


def _is_orphan(directory: BoxDirectory) -> bool:
    try:
        record = directory.read()
    except NoSuchBox:
        return False
    return not record.spec.keep and bool(owners.is_gone(record.owner))


#: Fields for containers only, with their names in messages.
_CONTAINERS_ONLY = {
    "image": "image",
    "build": "image to be built",
    "network": "network",
    "networks": "networks",
    "runtime": "container runtime",
    "memory": "limit of memory",
    "cpus": "limit of CPUs",
    "pids": "limit of processes",
}


def complete_spec(spec: BoxSpec, settings: HostSettings) -> BoxSpec:
    """A spec with its name, its key, its isolation and absolute paths.

    Raises:
        BadSpec: it is not valid.
        NotSupported: only containers can do it.
    """
    for field, what in _CONTAINERS_ONLY.items():
        if getattr(spec, field):
            raise NotSupported(
                f"A box that is a process has no {what} ({field}). Leave it out, or use the backend docker."
            )
    spec = structs.replace(spec, isolation=_isolation(spec, settings))
    if spec.isolation == BUBBLEWRAP:
        bubblewrap.find_program()
    _check_volumes(spec)
    _check_user(spec)
    for inside, outside in spec.ports.items():
        if outside not in (0, inside):
            raise NotSupported(
                f"A box that is a process shares this machine's ports: {inside} cannot be {outside} here."
            )
    if "--log-json" in spec.arguments:
        raise BadSpec("Leave out --log-json: where the box listens is read from what it prints for people.")
    return structs.replace(
        spec,
        name=checked_name(spec.name or f"box-{secrets.token_hex(4)}"),
        key=spec.key or secrets.token_urlsafe(32),
        workspace=_directory(spec.workspace) if spec.workspace else "",
        env=_with_vscode_port(spec),
    )


def _isolation(spec: BoxSpec, settings: HostSettings) -> Isolation:
    for kind in get_args(Isolation):
        if kind == (spec.isolation or settings.isolation):
            return kind or BUBBLEWRAP
    raise BadSpec(f"GLOVEBOX_ISOLATION is {settings.isolation!r}; it can be bubblewrap or none.")


def _with_vscode_port(spec: BoxSpec) -> dict[str, str]:
    """The environment, with a port for VS Code chosen here, so that the host knows it."""
    if "vscode" not in spec.plugins or spec.env.get(VSCODE_PORT, "0") != "0":
        return spec.env
    family = socket.AF_INET6 if ":" in spec.publish_address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((spec.publish_address, 0))
        except OSError as error:
            raise BadSpec(f"The box cannot be reached at {spec.publish_address}: {error}") from error
        return {**spec.env, VSCODE_PORT: str(probe.getsockname()[1])}


def _check_volumes(spec: BoxSpec) -> None:
    if spec.volumes and spec.isolation != BUBBLEWRAP:
        raise NotSupported(
            "A box that is not isolated sees the files of this machine as they are, so it has no volumes. "
            'Leave them out, or use isolation="bubblewrap" or the backend docker.'
        )
    for mount in spec.volumes:
        if not mount.is_bind:
            raise NotSupported(f"Only containers have named volumes: {mount.source}. Name a directory.")
        if not mount.target.startswith("/"):
            raise BadSpec(f"{mount.target} is no absolute path, so nothing can be mounted there.")
        if not os.path.exists(mount.source):
            raise BadSpec(f"{mount.source} does not exist, so it cannot be mounted.")
        if not mount.is_overlay and mount.mode not in ("rw", "ro"):
            raise BadSpec(f"{mount.mode!r} is no mode of a mount: use rw, ro or overlay.")


def _check_user(spec: BoxSpec) -> None:
    if not spec.user:
        return
    try:
        uid = pwd.getpwnam(spec.user).pw_uid
    except KeyError:
        raise BadSpec(
            f"There is no user {spec.user!r} on this machine, and a box that is a process makes none."
        ) from None
    if uid == os.geteuid():
        return
    if spec.isolation == BUBBLEWRAP:
        raise NotSupported(
            "In bubblewrap, commands can run as the user who starts the box only. Leave the user out, or use "
            'isolation="none" or the backend docker.'
        )
    if os.geteuid() != 0:
        raise BadSpec(f"Only root can start a box whose commands run as {spec.user!r}.")
    if not spec.workspace:
        raise BadSpec(f"Name a workspace that {spec.user!r} can enter: a fresh one is for its owner only.")


def _directory(path: str) -> str:
    absolute = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(absolute):
        raise BadSpec(f"The workspace {absolute} is no directory. Make it first, or leave it out.")
    return absolute
