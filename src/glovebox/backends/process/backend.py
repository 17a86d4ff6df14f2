"""Boxes that are processes of this machine, with bubblewrap around them or not."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack

from glovebox.backends import owners
from glovebox.backends.process import bubblewrap
from glovebox.backends.process.blocking import done
from glovebox.backends.process.checking import completed
from glovebox.backends.process.records import BoxDirectory, Record, Records
from glovebox.backends.process.sandbox import NAME, ProcessSandbox, adopt, delete
from glovebox.client.backend import BoxInfo, Report, RuntimeStatus
from glovebox.client.spec import BoxSpec
from glovebox.errors import NoSuchBox
from glovebox.settings.host import HostSettings

log = logging.getLogger(__name__)


class ProcessBackend:
    """Starts `glovebox serve` for each box, and knows boxes by their directories."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._records = Records(settings.state)
        self._sweeping: set[asyncio.Task[list[str]]] = set()

    @property
    def name(self) -> str:
        """Its name."""
        return NAME

    async def start(self, spec: BoxSpec, report: Report) -> ProcessSandbox:
        """Start a box.

        Raises:
            BackendError: it cannot be; the text says why and what to do.
        """
        spec = await done(completed, spec)
        if spec.isolation:
            log.info("%s: %s", spec.name, bubblewrap.SHARED)
            report.status(RuntimeStatus.STARTING_RUNTIME, bubblewrap.SHARED, "warning")
        self._sweep_later()
        record = Record(spec=spec, owner=owners.this_process(), created=time.time())
        directory = self._records.of(record)
        sandbox = ProcessSandbox(directory, record, self._settings)
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(done, delete, directory)
            await done(self._records.create, record)
            await sandbox.start()
            unfinished.pop_all()
        return sandbox

    async def attach(self, name: str) -> ProcessSandbox:
        """The box of that name; one whose client is gone is this client's from now on.

        Raises:
            NoSuchBox: there is none.
        """
        return await done(self._attach, name)

    async def boxes(self) -> list[BoxInfo]:
        """All boxes of this user."""
        found = []
        for directory in await done(self._records.directories):
            try:
                record = await done(directory.read)
            except NoSuchBox:  # deleted meanwhile
                continue
            found.append(await ProcessSandbox(directory, record, self._settings).info())
        return sorted((info for info in found if info.state != "missing"), key=lambda info: info.created)

    async def sweep(self) -> list[str]:
        """Remove boxes whose client is gone and that are not to be kept; their names."""
        directories = await done(self._records.directories)
        swept = await asyncio.gather(*(done(_swept, directory) for directory in directories))
        return [directory.name for directory, is_swept in zip(directories, swept, strict=True) if is_swept]

    async def close(self) -> None:
        """Wait for what is being swept."""
        if self._sweeping:
            await asyncio.wait(self._sweeping)

    def _attach(self, name: str) -> ProcessSandbox:
        directory = self._records.find(name)
        with directory.locked() as record:
            record = adopt(directory, record)
        return ProcessSandbox(directory, record, self._settings)

    def _sweep_later(self) -> None:
        """What others left behind must not delay a start."""
        task = asyncio.create_task(self.sweep())
        self._sweeping.add(task)
        task.add_done_callback(self._sweeping.discard)


def _swept(directory: BoxDirectory) -> bool:
    """Whether a box was left behind and is removed now. Blocks."""
    try:
        record = directory.read()
    except NoSuchBox:
        return False
    if record.spec.keep or not owners.is_gone(record.owner):
        return False
    delete(directory)
    return True
