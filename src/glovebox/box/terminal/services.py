"""Processes of other plugins in the holder, where they survive the server as shells do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence

import msgspec

from glovebox.box.terminal.account import Account
from glovebox.box.terminal.holder.process_tree import MARK
from glovebox.box.terminal.holder.wire import HeldTerminal, ShellSpec
from glovebox.box.terminal.holder_client import HeldChannel, HolderClient
from glovebox.box.terminal.output.log import LogFiles
from glovebox.box.terminal.survival.state_directory import StateDirectory
from glovebox.box.threads import Threads
from glovebox.errors import OutputGone
from glovebox.json_codec import json_decoder
from glovebox.linux.processes import send_signal
from glovebox.protocol.base import Message
from glovebox.state_files import read_document, write_document

#: Prefix of their names in the holder.
PREFIX = "kept-"
_PLACE = "{directory}"
_RECORD = "process.json"
#: With an empty standard input instead of the terminal.
_WITHOUT_INPUT = ("/bin/sh", "-c", 'exec "$@" </dev/null', "sh")
#: With named pipes as standard input and output; the empty line is a sign that both are open.
_WITH_PIPES = (
    "/bin/sh", "-c", 'exec <"$1/in" >"$1/out"; shift; echo; exec "$@"', "sh", _PLACE,
)  # fmt: skip


class _Record(Message):
    """The information on a process for the next server."""

    directory: str


_decode = json_decoder(_Record).decode


class KeptProcess:
    """A process in the holder."""

    def __init__(self, keeper: ProcessKeeper, name: str, directory: str) -> None:
        self.name = name
        self.directory = directory
        self.exited: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._keeper = keeper
        self._channel: HeldChannel | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._channel.pid if self._channel else 0

    def connect(self, channel: HeldChannel) -> None:
        self._channel = channel

    def received(self, data: bytes, offset: int) -> None:
        """Ignore output, which is in the log."""

    def hung_up(self, status: int | None) -> None:
        if not self.exited.done():
            self.exited.set_result(status)

    def signal(self, number: int) -> None:
        if self.pid and not self.exited.done():
            send_signal(-self.pid, number)

    async def printed(self, most: int = 4096) -> str:
        """The last bytes of its output, as text."""
        return await self._keeper.threads.run(self._tail, most) if self._channel else ""

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.signal(signal.SIGTERM)
        if self._channel is not None:
            await self._channel.close()
        await self._keeper.threads.run(shutil.rmtree, self.directory, ignore_errors=True)
        await self._keeper.forget(self.name)

    def _tail(self, most: int) -> str:
        assert self._channel is not None
        files, end = self._channel.files, self._channel.position
        data = bytearray()
        offset = max(files.begin, end - most)
        with contextlib.suppress(OutputGone):
            while offset < end and (piece := files.fetch(offset, end - offset)):
                data += piece
                offset += len(piece)
        return data.decode("utf-8", "replace").replace("\r\n", "\n")


class HolderAccess(msgspec.Struct, frozen=True):
    """The holder, and what the processes of one user start with there."""

    holder: HolderClient
    state: StateDirectory
    account: Account
    environment: Mapping[str, str]
    working_dir: str
    threads: Threads


class ProcessKeeper:
    """Starts processes of one user in the holder, and adopts those of an earlier server."""

    def __init__(self, access: HolderAccess) -> None:
        self.threads = access.threads
        self._holder = access.holder
        self._state = access.state
        self._account = access.account
        self._environment = {name: value for name, value in access.environment.items() if name != "TERM"}
        self._working_dir = access.working_dir
        self._processes: dict[str, KeptProcess] = {}

    async def keep(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        pipes: bool = False,
    ) -> KeptProcess:
        """Start a process.

        Raises:
            OSError: it could not be started.
        """
        if name in self._processes:
            raise FileExistsError(f"There is a process {name!r} already.")
        log, directory = await self.threads.run(self._prepare, name, files or {}, pipes)

        def placed(text: str) -> str:
            return text.replace(_PLACE, directory)

        process = self._processes[name] = KeptProcess(self, name, directory)
        account = self._account
        own = {key: placed(value) for key, value in (environment or {}).items()}
        spec = ShellSpec(
            name=PREFIX + name,
            arguments=[*map(placed, _WITH_PIPES if pipes else _WITHOUT_INPUT), *map(placed, arguments)],
            environment={**self._environment, **account.variables, **own, MARK: PREFIX + name},
            cwd=cwd or self._working_dir,
            rows=24,
            columns=80,
            uid=account.uid if account.switch else None,
            gid=account.gid if account.switch else None,
            groups=account.groups if account.switch else (),
            plain=True,
        )
        try:
            process.connect(await self._holder.open(spec, log, directory, process))
        except (OSError, asyncio.CancelledError):
            del self._processes[name]
            await asyncio.shield(self.threads.run(shutil.rmtree, directory, ignore_errors=True))
            raise
        return process

    def kept(self, name: str) -> KeptProcess | None:
        return self._processes.get(name)

    def names(self) -> list[str]:
        return list(self._processes)

    def state_file(self, name: str) -> str | None:
        """The path of a file for the next server, in the state directory; None if that is temporary."""
        return os.path.join(self._state.path, name) if self._state.persistent else None

    async def adopt(self, held: HeldTerminal) -> None:
        """Take over a process of an earlier server; one without a record is ended."""
        name = held.name.removeprefix(PREFIX)
        record = await self.threads.run(self._read_record, name)
        if record is None:
            self._holder.end(held)
            await self.threads.run(self._state.forget_kept, name)
            return
        process = self._processes[name] = KeptProcess(self, name, record.directory)
        process.connect(self._holder.adopt(held, self._log(name), process, held.end))

    async def close(self) -> None:
        await asyncio.gather(*(process.close() for process in list(self._processes.values())))

    async def forget(self, name: str) -> None:
        self._processes.pop(name, None)
        await self.threads.run(self._state.forget_kept, name)

    def _log(self, name: str) -> str:
        return os.path.join(self._state.kept(name), "log")

    def _prepare(self, name: str, files: Mapping[str, bytes], pipes: bool) -> tuple[LogFiles, str]:
        """Make the directories of a process: for its log, and its own. Blocks."""
        log = LogFiles.find(self._log(name))
        # Not in the state directory, which other users cannot enter; and short, for sockets in it.
        directory = tempfile.mkdtemp(prefix="glovebox-")
        made = [directory]
        for file, data in files.items():
            path = os.path.join(directory, file)
            made.append(path)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
                opened.write(data.replace(_PLACE.encode(), os.fsencode(directory)))
        for end in ("in", "out") if pipes else ():
            made.append(os.path.join(directory, end))
            os.mkfifo(made[-1], 0o600)
        if self._account.switch:
            for path in made:
                os.chown(path, self._account.uid, self._account.gid)
        record = os.path.join(self._state.kept(name), _RECORD)
        write_document(record, msgspec.json.encode(_Record(directory=directory)))
        return log, directory

    def _read_record(self, name: str) -> _Record | None:
        return read_document(os.path.join(self._state.kept(name), _RECORD), self._state.path, _decode)
