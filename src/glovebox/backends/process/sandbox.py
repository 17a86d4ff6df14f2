"""One box that is a process of this machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from msgspec import structs

from glovebox.backends import owners
from glovebox.backends.process import process_tree, server_process
from glovebox.backends.process.records import BoxDirectory, BoxRecord, in_thread
from glovebox.client.backend import Address, BoxInfo, State
from glovebox.client.spec import VSCODE_PORT
from glovebox.errors import DeadlineExceeded, NoSuchBox
from glovebox.settings.host import HostSettings

NAME = "process"
_ANNOUNCED = re.compile(r"^Glovebox serves .* on (http://\S+) \(ready in \d+ ms\)$", re.MULTILINE)
#: Seconds between looks at a log.
_PAUSE = 0.01
_FOLLOW_PAUSE = 0.05
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


class ProcessSandbox:
    """A box and its directory. Several clients of a user may use the same box."""

    def __init__(self, directory: BoxDirectory, record: BoxRecord, settings: HostSettings) -> None:
        self._directory = directory
        self._settings = settings
        self._record = record

    @property
    def name(self) -> str:
        return self._directory.name

    @property
    def address(self) -> Address:
        return Address(url=self._record.url, key=self._record.spec.key)

    @property
    def workspace(self) -> str:
        if self._record.is_isolated:
            return self._record.spec.workspace_in_box
        return str(server_process.workspace_of(self._directory, self._record))

    @property
    def ports(self) -> Mapping[int, str]:
        host = _reachable(self._record.spec.publish_address)
        spec = self._record.spec
        vscode = spec.env.get(VSCODE_PORT, "") if "vscode" in spec.plugins else ""
        ports = [*spec.ports, *([int(vscode)] if vscode.isdecimal() else ())]
        return {port: f"http://{host}:{port}" for port in ports}

    async def info(self) -> BoxInfo:
        try:
            self._record = await in_thread(self._directory.read)
        except NoSuchBox:
            return BoxInfo(name=self.name, backend=NAME, state="missing")
        record, spec = self._record, self._record.spec
        state = _state(record)
        return BoxInfo(
            name=self.name,
            backend=NAME,
            state=state,
            url=record.url if state in ("running", "paused") else "",
            workspace=self.workspace,
            created=record.created,
            keep=spec.keep,
            labels=spec.labels,
        )

    async def start(self) -> None:
        offset = await in_thread(self._spawn)
        limit = self._record.spec.start_limit
        try:
            async with asyncio.timeout(limit):
                url = await self._wait_for_url(offset)
        except TimeoutError:
            words = await in_thread(server_process.last_words, self._directory.log, offset)
            raise DeadlineExceeded(
                f"The box did not answer within {limit:g} seconds. Its last words:\n{words or '(none)'}"
            ) from None
        self._record = await in_thread(self._note, url)

    async def pause(self) -> None:
        await in_thread(self._pause)

    async def resume(self) -> None:
        """Continue, or start it again with the same workspace, name and key; after `stop` with new shells."""
        if not await in_thread(self._go_on):
            await self.start()

    async def stop(self) -> None:
        await in_thread(self._stop)

    async def delete(self) -> None:
        await in_thread(delete, self._directory)

    async def logs(self, *, follow: bool = False) -> AsyncIterator[str]:
        offset, rest = 0, b""
        while True:
            record = await in_thread(self._directory.read)
            ended = not process_tree.is_running(
                record.main
            )  # checked before reading, so that no line is missed
            data = await in_thread(server_process.read_log, self._directory.log, offset)
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
            if ended or not follow:
                break
            if not data:
                await asyncio.sleep(_FOLLOW_PAUSE)
        if rest:
            yield rest.decode(errors="replace")

    def _spawn(self) -> int:
        """Start the server; the offset of its output in the log."""
        with self._directory.locked() as record:
            if not record.spec.workspace:
                self._directory.workspace.mkdir(mode=0o700, exist_ok=True)
            log = self._directory.log
            offset = log.stat().st_size if log.exists() else 0
            self._record = server_process.spawn(self._directory, record, self._settings)
        return offset

    def _note(self, url: str) -> BoxRecord:
        with self._directory.locked() as record:
            record = structs.replace(record, url=url)
            self._directory.write(record)
        return record

    def _pause(self) -> None:
        with self._directory.locked() as record:
            if process_tree.is_running(record.main):
                process_tree.pause(self._directory, record)

    def _go_on(self) -> bool:
        """Continue stopped processes; whether the server runs."""
        with self._directory.locked() as record:
            if record.paused:
                record = process_tree.go_on(self._directory, record)
            self._record = adopt(self._directory, record)
            return process_tree.is_running(record.main)

    def _stop(self) -> None:
        with self._directory.locked() as record:
            process_tree.end(self._directory, record)
            self._directory.write(structs.replace(record, url="", paused=()))

    async def _wait_for_url(self, offset: int) -> str:
        """The address that the server prints when it is ready."""
        directory, main = self._directory, self._record.main
        while True:
            ended = not process_tree.is_running(main)
            text = (await in_thread(server_process.read_log, directory.log, offset)).decode(errors="replace")
            if found := _ANNOUNCED.search(text):
                parts = urlsplit(found[1])
                return f"http://{_reachable(parts.hostname or '')}:{parts.port}"
            if ended:
                await in_thread(process_tree.reap, self._record.child)
                words = await in_thread(server_process.last_words, directory.log, offset)
                raise server_process.death(words, self._record.is_isolated)
            await asyncio.sleep(_PAUSE)


def adopt(directory: BoxDirectory, record: BoxRecord) -> BoxRecord:
    """Become the owner of a box whose client is gone, so that it is not swept. Blocks."""
    if owners.is_gone(record.owner):
        record = structs.replace(record, owner=owners.this_process())
        directory.write(record)
    return record


def delete(directory: BoxDirectory) -> None:
    """End a box and remove its directory, if it exists. Blocks."""
    try:
        with directory.locked() as record:
            process_tree.end(directory, record)
            directory.remove()
    except NoSuchBox:
        return


def _state(record: BoxRecord) -> State:
    if not process_tree.is_running(record.main):
        return "stopped" if record.main or owners.is_gone(record.owner) else "starting"
    if record.paused:
        return "paused"
    return "running" if record.url else "starting"


def _reachable(host: str) -> str:
    """The address to connect to for one to listen on."""
    host = _ANYWHERE.get(host, host)
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
