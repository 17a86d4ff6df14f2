"""The process that drives Chromium: started as the sandbox user, found again after a restart, and asked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from glovebox.box.browser import wire
from glovebox.box.browser.wire import Setup
from glovebox.box.services import Keeper, ServiceProcess
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
_RETRY = 0.02
_SETUP = "setup.json"
#: A page that goes on drawing while nobody reads must not fill the memory.
_BUFFER = 1 << 20

_decode_setup = json_decoder(Setup).decode

#: Hears what nobody asked for.
Listener = Callable[[wire.Frame | wire.Crashed], None]


class BrowserProcess:
    """A process that runs and listens, until it does not."""

    def __init__(
        self,
        kept: ServiceProcess,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        version: str,
        listener: Listener,
    ) -> None:
        self.kept = kept
        self.version = version
        #: Done when it cannot be asked any more.
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = reader
        self._writer = writer
        self._listener = listener
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[wire.Reply]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, keeper: Keeper, threads: Threads, setup: Setup, command: Sequence[str], listener: Listener
    ) -> BrowserProcess:
        """Start one and wait until it can be asked; a process that an earlier server left is taken over.

        Raises:
            BrowserError: it does not start.
        """
        if left := keeper.kept(NAME):
            with contextlib.suppress(OSError, BrowserError):
                if await threads.run(_setup_of, left) == _placed(setup, left.directory):
                    return await cls._connect(left, listener, _REJOIN_LIMIT)
            await left.close()
        arguments = [*command, "{directory}/" + _SETUP]
        try:
            kept = await keeper.keep(NAME, arguments, files={_SETUP: msgspec.json.encode(setup)})
        except OSError as error:
            raise BrowserError(f"The browser's process could not be started: {error}") from error
        try:
            return await cls._connect(kept, listener, _EVALUATION_LIMIT if setup.evaluation else START_LIMIT)
        except (BrowserError, asyncio.CancelledError):
            await kept.close()
            raise

    @classmethod
    async def _connect(cls, kept: ServiceProcess, listener: Listener, limit: float) -> BrowserProcess:
        path = os.path.join(kept.directory, "s")
        deadline = asyncio.get_running_loop().time() + limit
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(path, limit=_BUFFER)
                break
            except (FileNotFoundError, ConnectionRefusedError) as error:
                # It listens when Chromium runs; there is nothing to be told by before that.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(kept.exited), _RETRY)
                if kept.exited.done() or asyncio.get_running_loop().time() > deadline:
                    raise BrowserError(await _why(kept, limit)) from error
        try:
            async with asyncio.timeout(limit):
                ready = await wire.Reader(wire.Reply).read(reader)
        except (TimeoutError, ConnectionError) as error:
            writer.close()
            raise BrowserError(await _why(kept, limit)) from error
        return cls(kept, reader, writer, ready.version, listener)

    async def step(self, actions: str, *, as_text: bool, raw: bool) -> wire.Seen | wire.TextReply:
        """Have calls carried out.

        Raises:
            BrowserError: nothing can be seen.
        """
        reply = await self._ask(
            wire.BrowserStep(id=next(self._ids), actions=actions, as_text=as_text, raw=raw)
        )
        if isinstance(reply, wire.Seen | wire.TextReply):
            return reply
        raise _unexpected(reply)

    async def look(self, kind: Literal["png", "jpeg"]) -> wire.Picture:
        """How the active page looks.

        Raises:
            BrowserError: that cannot be seen.
        """
        reply = await self._ask(wire.Observe(id=next(self._ids), format=kind))
        if isinstance(reply, wire.Picture):
            return reply
        raise _unexpected(reply)

    async def survey(self) -> wire.OpenTabs:
        """Which pages are open.

        Raises:
            BrowserError: that cannot be said.
        """
        reply = await self._ask(wire.Survey(id=next(self._ids)))
        if isinstance(reply, wire.OpenTabs):
            return reply
        raise _unexpected(reply)

    async def _ask(self, request: wire.BrowserStep | wire.Observe | wire.Survey) -> wire.Reply:
        """Ask, and wait for the answer.

        Raises:
            BrowserError: it could not be done, or the process has ended.
        """
        answer: asyncio.Future[wire.Reply] = asyncio.get_running_loop().create_future()
        self._asked[request.id] = answer
        try:
            self._writer.write(wire.framed(request))
            ends: list[asyncio.Future[Any]] = [answer, self.lost]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise BrowserError(f"The browser's process has ended: {await _last_words(self.kept)}")
            reply = answer.result()
        finally:
            self._asked.pop(request.id, None)
        if isinstance(reply, wire.BrowserFailure):
            raise BrowserError(reply.text)
        return reply

    def cast(self, on: bool) -> None:
        """Begin or end to hear of every change of the active page."""
        if not self.lost.done():
            self._writer.write(wire.framed(wire.Cast(on=on)))

    async def disconnect(self) -> None:
        """Leave it alone; it may run on."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()

    async def close(self) -> None:
        await self.disconnect()
        await self.kept.close()

    async def _read(self) -> None:
        messages = wire.Reader(wire.Reply)
        try:
            while True:
                reply = await messages.read(self._reader)
                if isinstance(reply, wire.Frame | wire.Crashed):
                    self._listener(reply)
                elif not isinstance(reply, wire.Ready):
                    answer = self._asked.get(reply.id)
                    if answer is not None and not answer.done():
                        answer.set_result(reply)
        except (ConnectionError, OSError):
            if not self.lost.done():
                self.lost.set_result(None)


def _unexpected(reply: wire.Reply) -> BrowserError:
    return BrowserError(f"The browser's process answered with {type(reply).__name__}.")


def _placed(setup: Setup, directory: str) -> Setup:
    """A setup as it is written."""
    text = msgspec.json.encode(setup).replace(b"{directory}", os.fsencode(directory))
    return _decode_setup(text)


def _setup_of(kept: ServiceProcess) -> Setup | None:
    try:
        return _decode_setup(read_file(os.path.join(kept.directory, _SETUP)))
    except (msgspec.DecodeError, ValueError):
        return None


async def _why(kept: ServiceProcess, limit: float) -> str:
    """Why it does not listen."""
    if not kept.exited.done():
        return f"The browser did not start within {limit:.0f} s. It printed: {await _last_words(kept)}"
    return f"The browser did not start: {await _last_words(kept)}"


async def _last_words(kept: ServiceProcess) -> str:
    printed = (await kept.printed(4000)).strip()
    if "No module named 'playwright'" in printed and "pip install" not in printed:
        return "Playwright is not installed. Install it: pip install 'glovebox-runtime[browser]'."
    if "Traceback (most recent call last)" in printed:
        printed = printed.rpartition("\n")[2]
    return printed[-1500:] or "it printed nothing"
