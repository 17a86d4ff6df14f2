"""The process that drives Chromium: started as the sandbox user, found again after a restart, and asked."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from glovebox.box.browser import wire
from glovebox.box.browser.chromium import Setup
from glovebox.box.services import Keeper, ServiceProcess
from glovebox.box.supervised import Streams, adopt_process, connect, keep_process, until_ready
from glovebox.box.threads import Threads
from glovebox.errors import BrowserError
from glovebox.json_codec import json_decoder
from glovebox.state_files import read_file

NAME = "browser"
#: Machines can be very busy.
START_LIMIT = 60.0
#: Some tasks log in at several sites first.
_EVALUATION_LIMIT = 200.0
_REJOIN_LIMIT = 5.0
_SETUP = "setup.json"
#: A page that goes on drawing while its pictures are not read must not fill the memory.
_BUFFER = 1 << 20

_decode_setup = json_decoder(Setup).decode

#: Gets what the process sends without a request.
Listener = Callable[[wire.Frame | wire.Crashed], None]


class BrowserProcess:
    """A process that runs and listens, until it is lost. Its requests raise BrowserError if they fail."""

    def __init__(self, kept: ServiceProcess, streams: Streams, version: str, listener: Listener) -> None:
        self.kept = kept
        self.version = version
        #: Done when it cannot be asked any more.
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader, self._writer = streams
        self._listener = listener
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[wire.Reply]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, keeper: Keeper, threads: Threads, setup: Setup, command: Sequence[str], listener: Listener
    ) -> BrowserProcess:
        """Adopt the process of an earlier server, or start one and wait until it can be asked.

        Raises:
            BrowserError: it does not start.
        """

        async def rejoin(left: ServiceProcess) -> BrowserProcess | None:
            same = await threads.run(_read_setup, left) == _fill_in(setup, left.directory)
            return await cls._connect(left, listener, _REJOIN_LIMIT) if same else None

        if adopted := await adopt_process(keeper.kept(NAME), rejoin):
            return adopted
        arguments = [*command, "{directory}/" + _SETUP]
        try:
            kept = await keep_process(keeper, NAME, arguments, files={_SETUP: msgspec.json.encode(setup)})
        except OSError as error:
            raise BrowserError(f"The browser's process could not be started: {error}") from error
        limit = _EVALUATION_LIMIT if setup.evaluation else START_LIMIT
        return await until_ready(cls._connect(kept, listener, limit), kept.close)

    @classmethod
    async def _connect(cls, kept: ServiceProcess, listener: Listener, limit: float) -> BrowserProcess:
        try:
            reader, writer = await connect(kept, "s", limit, _BUFFER)  # it listens when Chromium runs
            try:
                async with asyncio.timeout(limit):
                    ready = await wire.MessageReader(wire.Reply).read(reader)
            except OSError:
                writer.close()
                raise
        except OSError as error:
            raise BrowserError(await _describe_failure(kept, limit)) from error
        return cls(kept, (reader, writer), ready.version, listener)

    async def step(self, actions: str, *, as_text: bool, raw: bool) -> wire.Seen | wire.TextReply:
        step = wire.BrowserStep(id=next(self._ids), actions=actions, as_text=as_text, raw=raw)
        reply: wire.Seen | wire.TextReply = await self._ask(step, wire.Seen, wire.TextReply)
        return reply

    async def look(self, kind: Literal["png", "jpeg"]) -> wire.Picture:
        picture: wire.Picture = await self._ask(wire.Observe(id=next(self._ids), format=kind), wire.Picture)
        return picture

    async def survey(self) -> wire.OpenTabs:
        tabs: wire.OpenTabs = await self._ask(wire.Survey(id=next(self._ids)), wire.OpenTabs)
        return tabs

    async def _ask(self, request: wire.BrowserStep | wire.Observe | wire.Survey, *kinds: type) -> Any:
        """Send a request, and wait for a reply of these kinds.

        Raises:
            BrowserError: it failed, or the process has ended.
        """
        answer: asyncio.Future[wire.Reply] = asyncio.get_running_loop().create_future()
        self._asked[request.id] = answer
        try:
            self._writer.write(wire.encode(request))
            ends: list[asyncio.Future[Any]] = [answer, self.lost]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise BrowserError(f"The browser's process has ended: {await _last_output(self.kept)}")
            reply = answer.result()
        finally:
            self._asked.pop(request.id, None)
        if isinstance(reply, wire.BrowserFailure):
            raise BrowserError(reply.text)
        if not isinstance(reply, kinds):
            raise BrowserError(f"The browser's process answered with {type(reply).__name__}.")
        return reply

    def cast(self, on: bool) -> None:
        """Begin or end a screencast."""
        if not self.lost.done():
            self._writer.write(wire.encode(wire.Cast(on=on)))

    async def disconnect(self) -> None:
        """Close the connection; the process may run on."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()

    async def close(self) -> None:
        self._lose()
        await self.disconnect()
        await self.kept.close()

    async def _read(self) -> None:
        messages = wire.MessageReader(wire.Reply)
        try:
            while True:
                reply = await messages.read(self._reader)
                if isinstance(reply, wire.Frame | wire.Crashed):
                    self._listener(reply)
                elif not isinstance(reply, wire.Ready):
                    answer = self._asked.get(reply.id)
                    if answer is not None and not answer.done():
                        answer.set_result(reply)
        except OSError:
            self._lose()

    def _lose(self) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


def _fill_in(setup: Setup, directory: str) -> Setup:
    """A setup as the keeper writes it for a process with that directory."""
    return _decode_setup(msgspec.json.encode(setup).replace(b"{directory}", os.fsencode(directory)))


def _read_setup(kept: ServiceProcess) -> Setup | None:
    try:
        return _decode_setup(read_file(os.path.join(kept.directory, _SETUP)))
    except (msgspec.DecodeError, ValueError):
        return None


async def _describe_failure(kept: ServiceProcess, limit: float) -> str:
    """Why a process does not listen."""
    if not kept.exited.done():
        return f"The browser did not start within {limit:.0f} s. It printed: {await _last_output(kept)}"
    return f"The browser did not start: {await _last_output(kept)}"


async def _last_output(kept: ServiceProcess) -> str:
    printed = (await kept.printed(4000)).strip()
    if "No module named 'playwright'" in printed and "pip install" not in printed:
        return "Playwright is not installed. Install it: pip install 'glovebox-runtime[browser]'."
    if "Traceback (most recent call last)" in printed:
        printed = printed.rpartition("\n")[2]
    return printed[-1500:] or "it printed nothing"
