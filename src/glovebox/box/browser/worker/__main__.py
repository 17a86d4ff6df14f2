"""`python -m glovebox.box.browser.worker SETUP`: drives Chromium for whoever connects to its socket."""

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
from glovebox.decoding import decode_json

#: Pictures that a watcher has not read yet are not worth keeping.
_BACKLOG = 8 << 20


class Server:
    """Serves one server at a time: the newest that has connected."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._driver = Driver(setup, self._tell)
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Serve until told to end: the exit status."""
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
        self._tell(wire.Ready(version=self._driver.version))
        messages = wire.Reader(wire.Request)
        with contextlib.suppress(ConnectionError):
            while True:
                self._start(await messages.read(reader))
        writer.close()
        if self._writer is writer:
            self._writer = None
            self._driver.watch(False)

    def _start(self, asked: wire.Request) -> None:
        if isinstance(asked, wire.Cast):
            self._driver.watch(asked.on)
            return
        task = asyncio.get_running_loop().create_task(self._answer(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, asked: wire.BrowserStep | wire.Observe | wire.Survey) -> None:
        try:
            match asked:
                case wire.BrowserStep():
                    self._tell(await self._driver.step(asked))
                case wire.Observe():
                    self._tell(await self._driver.look(asked))
                case wire.Survey():
                    self._tell(await self._driver.survey(asked))
        except TimeoutError:
            self._tell(wire.BrowserFailure(id=asked.id, text="Browser environment took too long to respond."))
        except (PlaywrightError, NoChromium, ValueError, OSError) as error:
            self._tell(wire.BrowserFailure(id=asked.id, text=f"{type(error).__name__}: {error}"))

    def _tell(self, reply: wire.Reply) -> None:
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
