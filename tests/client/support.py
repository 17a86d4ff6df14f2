"""Boxes, a backend and a breakable connection for tests of the client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from glovebox.client.backend import Address, BoxInfo, ProgressReport, State
from glovebox.client.connection.http import Connection
from glovebox.client.runtime import Runtime
from glovebox.client.spec import BoxSpec
from glovebox.errors import NoSuchBox, NotSupported
from glovebox.settings import host
from glovebox.settings.host import HostSettings
from tests.support.running import KEY, RunningBox, announced
from tests.support.waiting import LIMIT


def settings_for(directory: Path, **environ: str) -> HostSettings:
    """What the host's side is told by an environment of its own."""
    return host.load({"HOME": str(directory), **environ})


class OneBox:
    """A backend that has one box, which somebody else looks after."""

    name = "one"

    def __init__(self, url: str, key: str = KEY, workspace: str = "/workspace") -> None:
        self.sandbox = KnownSandbox(Address(url=url, key=key), workspace)
        self.closed = 0

    async def start(self, spec: BoxSpec, report: ProgressReport) -> KnownSandbox:
        return self.sandbox

    async def attach(self, name: str) -> KnownSandbox:
        if name != self.sandbox.name:
            raise NoSuchBox(f"There is no box {name!r}.")
        return self.sandbox

    async def boxes(self) -> list[BoxInfo]:
        return [await self.sandbox.info()]

    async def sweep(self) -> list[str]:
        return []

    async def close(self) -> None:
        self.closed += 1


class KnownSandbox:
    """A box at an address."""

    name = "known"

    def __init__(self, address: Address, workspace: str) -> None:
        self.address = address
        self.next_address = address
        self.workspace = workspace
        self.ports: Mapping[int, str] = {}
        self.state: State = "running"
        self.deleted = 0

    async def info(self) -> BoxInfo:
        return BoxInfo(name=self.name, backend="one", state=self.state)

    async def pause(self) -> None:
        raise NotSupported("This one cannot.")

    async def resume(self) -> None:
        self.state = "running"
        self.address = self.next_address

    async def stop(self) -> None:
        raise NotSupported("This one cannot.")

    async def delete(self) -> None:
        self.deleted += 1

    async def logs(self, *, follow: bool = False) -> AsyncIterator[str]:
        nothing: list[str] = []
        for line in nothing:
            yield line


def runtime_at(url: str, key: str = KEY, *, patience: float = 10.0, timeout: float = 60.0) -> Runtime:
    """A runtime with a box at an address."""
    return Runtime(OneBox(url, key), patience=patience, timeout=timeout)


@contextlib.asynccontextmanager
async def connected(url: str, patience: float = 10.0) -> AsyncIterator[Connection]:
    """A connection over which nothing was asked yet."""
    connection = Connection(Address(url=url, key=KEY), patience=patience)
    try:
        yield connection
    finally:
        await connection.close()


class ServeBackend(OneBox):
    """Starts `glovebox serve` for each box, as a backend of the project would."""

    name = "serve"

    def __init__(self, directory: Path) -> None:
        super().__init__("")
        self._directory = directory
        self.started: list[ServedSandbox] = []

    async def start(self, spec: BoxSpec, report: ProgressReport) -> ServedSandbox:
        number = len(self.started)
        box = Served(self._directory / f"box-{number}", spec.env)
        sandbox = ServedSandbox(box)
        self.started.append(sandbox)
        await asyncio.to_thread(box.start)
        sandbox.address = Address(url=box.url, key=KEY)
        report.progress("start", 1, 1)
        return sandbox


class ServedSandbox(KnownSandbox):
    """A box in a process of its own, until it is deleted."""

    def __init__(self, box: Served) -> None:
        super().__init__(Address(url=""), str(box.workspace))
        self.box = box

    async def pause(self) -> None:
        assert self.box.process is not None
        self.box.process.send_signal(signal.SIGSTOP)

    async def resume(self) -> None:
        assert self.box.process is not None
        self.box.process.send_signal(signal.SIGCONT)

    async def delete(self) -> None:
        await super().delete()
        await asyncio.to_thread(self.box.stop)


class Served:
    """A server process that can be killed and started again at the same address."""

    def __init__(self, directory: Path, env: Mapping[str, str] | None = None, *flags: str) -> None:
        self.directory = directory
        self.workspace = directory / "workspace"
        self.workspace.mkdir(parents=True)
        self.process: subprocess.Popen[str] | None = None
        self.url = ""
        self._env = dict(env or {})
        self._flags = flags
        self._port = "0"

    def start(self) -> None:
        """Serve."""
        inherited = {name: value for name, value in os.environ.items() if name != "SESSION_API_KEY"}
        inherited |= self._env
        inherited |= {
            "HOME": str(self.directory),
            "SESSION_API_KEY": KEY,
            "GLOVEBOX_VIEWER_URL_FILE": str(self.directory / "viewer-url"),
        }
        command = [sys.executable, "-m", "glovebox", "serve", self._port]
        self.process = subprocess.Popen(
            [*command, "--working-dir", str(self.workspace), *self._flags],
            stdout=subprocess.PIPE,
            text=True,
            env=inherited,
        )
        self.url = announced(self.process)
        self._port = str(urlsplit(self.url).port)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it. Idempotent."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(LIMIT)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def kill(self) -> None:
        """End it without a chance to do anything."""
        self.stop(signal.SIGKILL)


@contextlib.contextmanager
def served(directory: Path, *flags: str) -> Iterator[Served]:
    """A box that serves until the end."""
    box = Served(directory, None, *flags)
    try:
        box.start()
        yield box
        if box.process is None:  # whatever the killed one held has to be ended, too
            box.start()
    finally:
        box.stop()


@dataclass
class Cut:
    """After how many bytes, to the box or from it, a connection is cut; None for never."""

    to_box: int | None = None
    from_box: int | None = None


@dataclass
class Cutter:
    """A proxy that cuts connections. Each takes the next of `cuts`; without one it is left alone."""

    url: str = ""
    cuts: list[Cut] = field(default_factory=list)
    connections: int = 0
    #: Everything that boxes said.
    heard: bytearray = field(default_factory=bytearray)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._writers) // 2

    def beyond(self, count: int) -> bool:
        """Whether there were more connections than so many."""
        return self.connections > count

    def cut(self) -> None:
        """Cut all that there are."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, box: str) -> None:
        # Whoever counts connections may cut this one at once, before it goes any further.
        self._writers.add(writer)
        self.connections += 1
        cut = self.cuts.pop(0) if self.cuts else Cut()
        parts = urlsplit(box)
        try:
            box_reader, box_writer = await asyncio.open_connection(parts.hostname, parts.port)
        except OSError:
            self._writers.discard(writer)
            writer.transport.abort()
            return
        both = {writer, box_writer}
        self._writers |= both
        try:
            await asyncio.gather(
                _copy(reader, box_writer, cut.to_box), _copy(box_reader, writer, cut.from_box, self.heard)
            )
        except (OSError, EOFError):
            pass
        finally:
            self._writers -= both
            for end in both:
                end.transport.abort()


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    most: int | None,
    heard: bytearray | None = None,
) -> None:
    """Hand bytes on; either end that is over ends the connection."""
    copied = 0
    while most is None or copied < most:
        piece = await reader.read(65536 if most is None else most - copied)
        if not piece:
            break
        copied += len(piece)
        if heard is not None:
            heard += piece
        writer.write(piece)
        await writer.drain()
    if most == 0:
        await reader.read(1)
    raise EOFError


@contextlib.asynccontextmanager
async def cutter(box: str, *cuts: Cut) -> AsyncIterator[Cutter]:
    """A proxy before a box."""
    proxy = Cutter(cuts=list(cuts))
    server = await asyncio.start_server(lambda r, w: proxy.pass_on(r, w, box), "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()


@contextlib.asynccontextmanager
async def talking(answer: bytes) -> AsyncIterator[str]:
    """A server that says the same to everybody, whatever it is asked; its address."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def said(status: str, body: bytes, *headers: str) -> bytes:
    """An answer of such a server."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture
async def runtime(box: RunningBox) -> AsyncIterator[Runtime]:
    """A runtime with the shared box, its shell in a fresh directory."""
    async with runtime_at(box.url) as connected:
        yield connected
