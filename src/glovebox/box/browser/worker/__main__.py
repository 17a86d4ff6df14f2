"""`python -m glovebox.box.browser.worker SETUP`: drives Chromium for a server, over a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire
from glovebox.box.browser.chromium import Setup
from glovebox.box.browser.worker.driver import Driver, NoChromium
from glovebox.box.supervised import spawn
from glovebox.json_codec import decode_json

#: Bytes that wait to be read; with more, pictures are dropped.
_BACKLOG = 8 << 20


class Server:
    """Answers the server that has connected last."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._driver = Driver(setup, self._send)
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Serve until a signal; returns the exit status."""
        ending = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, ending.set)
        try:
            await self._driver.start()
        except NoChromium as error:
            print(error, file=sys.stderr, flush=True)
            return 1
        server = await asyncio.start_unix_server(self._serve, self._setup.socket)
        os.chmod(self._setup.socket, 0o600)
        async with server:
            await ending.wait()
        await self._driver.stop()
        return 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = writer
        self._driver.watch(False)
        self._send(wire.Ready(version=self._driver.version))
        messages = wire.MessageReader(wire.Request)
        with contextlib.suppress(ConnectionError):
            while True:
                self._start(await messages.read(reader))
        writer.close()
        if self._writer is writer:
            self._writer = None
            self._driver.watch(False)

    def _start(self, request: wire.Request) -> None:
        if isinstance(request, wire.Cast):
            self._driver.watch(request.on)
        else:
            spawn(self._tasks, self._answer(request))

    async def _answer(self, request: wire.BrowserStep | wire.Observe | wire.Survey) -> None:
        try:
            match request:
                case wire.BrowserStep():
                    self._send(await self._driver.step(request))
                case wire.Observe():
                    self._send(await self._driver.look(request))
                case wire.Survey():
                    self._send(await self._driver.survey(request))
        except TimeoutError:
            self._send(
                wire.BrowserFailure(id=request.id, text="Browser environment took too long to respond.")
            )
        except (PlaywrightError, NoChromium, ValueError, OSError) as error:
            self._send(wire.BrowserFailure(id=request.id, text=f"{type(error).__name__}: {error}"))

    def _send(self, reply: wire.Reply) -> None:
        writer = self._writer
        if writer is None or writer.is_closing():
            return
        behind = writer.transport.get_write_buffer_size() > _BACKLOG
        if not (behind and isinstance(reply, wire.Frame)):
            writer.write(wire.encode(reply))


def main() -> int:
    """Read the setup, and serve."""
    setup = decode_json(Path(sys.argv[1]).read_bytes(), Setup)
    os.umask(0o022)
    return asyncio.run(Server(setup).run())


if __name__ == "__main__":
    sys.exit(main())
