"""`glovebox attach`: a session of a box in the caller's own terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedOK,
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
)

from glovebox.cli.options import FAILED, USAGE, Commands, add_parser, add_target_arguments
from glovebox.cli.terminal import STDIN, STDOUT, ScreenModes, raw_terminal, window_size, write_all
from glovebox.errors import SettingsError

EXAMPLES = """\
examples:
  glovebox attach                          take over the main shell of the box on 127.0.0.1:8000
  glovebox attach --watch                  only look on; the agent keeps the shell
  glovebox attach play                     the box that is called so, whatever it is made of
  glovebox attach --session build          another session
  SESSION_API_KEY=... glovebox attach --url https://box.example.org
                                           a box elsewhere, with its key

Ctrl-] detaches. The shell and what runs in it go on, and the agent has it again.
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "attach",
        help="take over or watch a session of a box",
        description="Attach this terminal to a session of a box. While you have taken it over, an agent's "
        "commands for it are refused.",
        examples=EXAMPLES,
    )
    add_target_arguments(parser)
    parser.add_argument("--session", default="main", metavar="NAME", help="Which session. Default: main.")
    parser.add_argument("--watch", action="store_true", help="Only watch; do not take the session over.")
    parser.add_argument(
        "--escape",
        default="^]",
        metavar="KEY",
        type=_escape,
        help="The key that detaches. Default: ^], Ctrl-].",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.watch and not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("glovebox: attach needs a terminal. Without one, use --watch.", file=sys.stderr)
        return USAGE
    from glovebox.cli import backends

    return backends.finish(_attach(arguments))


async def _attach(arguments: argparse.Namespace) -> int:
    from glovebox.cli.backends import target_address

    box = await target_address(arguments)
    problem = await attach(
        address_of(box.url, arguments.session, watch=arguments.watch),
        box.key,
        session=arguments.session,
        watch=arguments.watch,
        escape=arguments.escape,
    )
    if problem:
        print(f"glovebox: {problem}", file=sys.stderr)
    return FAILED if problem else 0


def _escape(text: str) -> bytes:
    """The byte of a key: one character, or ^ and one for a key pressed with Ctrl."""
    if len(text) == 2 and text[0] == "^" and "@" <= text[1].upper() <= "_":
        return bytes([ord(text[1].upper()) & 0x1F])
    if len(text) == 1 and text.isascii():
        return text.encode()
    raise argparse.ArgumentTypeError(f"{text!r} is not a key; write for example ^] for Ctrl-]")


def address_of(url: str, session: str, *, watch: bool) -> str:
    """The WebSocket address of a session.

    Raises:
        SettingsError: the address is not valid.
    """
    from urllib.parse import quote, urlsplit

    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"{url!r} is not an address of a box; write for example http://127.0.0.1:8000")
    scheme = "wss" if parts.scheme == "https" else "ws"
    path = f"{parts.path.rstrip('/')}/sessions/{quote(session, safe='')}/attach"
    return f"{scheme}://{parts.netloc}{path}" + ("" if watch else "?take=true")


#: Seconds of silence after which the output of a shell that has ended is complete.
_LAST_WORDS = 0.3
_INTERRUPT = b"\x03"


async def attach(
    address: str, key: str, *, session: str, watch: bool, escape: bytes, until_exit: bool = False
) -> str | None:
    """Attach this terminal, perhaps only until the shell has ended; the problem, if there was one."""
    attached = _Attached(session, watch, escape, until_exit)
    with raw_terminal() if sys.stdin.isatty() else contextlib.nullcontext():
        problem = await attached.run(address, key)
        attached.screen.reset()
    if problem is None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(f"\n[{attached.ending}]", file=sys.stderr)
    return problem


class _Attached:
    def __init__(self, session: str, watch: bool, escape: bytes, until_exit: bool) -> None:
        self._session = session
        self._until_exit = until_exit
        self._shell: int | None = None
        self._exited = False
        self._watch = watch
        self._escape = escape
        self._leave = asyncio.Event()
        self._keys: asyncio.Queue[bytes | str] = asyncio.Queue()
        self.screen = ScreenModes()
        self._greeted = False
        self.ending = f"detached from {session}"

    async def run(self, address: str, key: str) -> str | None:
        """Until detached or disconnected; the problem, if there was one."""
        headers = {"X-Session-API-Key": key} if key else None
        try:
            socket = await connect(
                address, additional_headers=headers, proxy=None, max_size=None, compression=None
            )
        except InvalidStatus as error:
            return self._refusal(error)
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI) as error:
            where = address.partition("/sessions/")[0].replace("ws", "http", 1)
            return f"no box answers at {where} ({error}). Start one with: glovebox serve"
        async with socket:
            with self._listening():
                return await self._serve(socket)

    async def _serve(self, socket: ClientConnection) -> str | None:
        reading = asyncio.create_task(self._show(socket))
        sending = asyncio.create_task(self._send(socket))
        leaving = asyncio.create_task(self._leave.wait())
        tasks: list[asyncio.Task[Any]] = [reading, sending, leaving]
        await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return None if reading.cancelled() else reading.result()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Handle keys, changes of the window size, and signals that end this process."""
        loop = asyncio.get_running_loop()
        ends = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        for number in ends:
            loop.add_signal_handler(number, self._leave.set)
        loop.add_signal_handler(signal.SIGWINCH, self._resize)
        if sys.stdin.isatty():
            loop.add_reader(STDIN, self._read_keys)
        try:
            yield
        finally:
            loop.remove_reader(STDIN)
            for number in (*ends, signal.SIGWINCH):
                loop.remove_signal_handler(number)

    def _read_keys(self) -> None:
        try:
            keys = os.read(STDIN, 65_536)
        except OSError:
            keys = b""
        keys, found, _ = keys.partition(self._escape)
        if keys and not self._watch:
            self._keys.put_nowait(keys)
        if found or not keys or (self._watch and _INTERRUPT in keys):
            self._leave.set()

    def _resize(self) -> None:
        size = window_size()
        if size and not self._watch:
            resize = {"type": "resize", "rows": size[0], "columns": size[1]}
            self._keys.put_nowait(json.dumps(resize))

    async def _send(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.send(await self._keys.get())

    async def _show(self, socket: ClientConnection) -> str | None:
        try:
            while True:
                # The last output of a shell may come after the message that it has ended.
                async with asyncio.timeout(_LAST_WORDS if self._exited else None):
                    received = await socket.recv()
                if isinstance(received, bytes):
                    self.screen.note(received)
                    # A terminal that is stopped with Ctrl-S must not stop the answers to pings.
                    await asyncio.to_thread(write_all, STDOUT, received)
                    continue
                message = json.loads(received)
                if message["type"] == "closed" and message["code"] == "session_ended":
                    self.ending = message["reason"]
                    return None
                if message["type"] in ("closed", "refused"):
                    return self._problem(message)
                if message["type"] == "state":
                    self._note_shell(message["session"]["pid"])
                if message["type"] == ("state" if self._watch else "taken"):
                    self._greet()
        except TimeoutError:
            self.ending = "the shell has ended"
            return None
        except ConnectionClosedOK:
            return "the box closed the connection"
        except ConnectionClosed as error:
            if error.rcvd is not None and error.rcvd.code == 1012:
                self.ending = "the box was stopped"
                return None
            return f"the connection to the box was lost ({error})"

    def _note_shell(self, pid: int | None) -> None:
        """Note the end of the shell that was attached to."""
        before, self._shell = self._shell, pid
        if self._until_exit and before is not None and pid != before:
            self._exited = True

    def _greet(self) -> None:
        if not self._greeted:
            self._greeted = True
            doing = "watching" if self._watch else "attached to"
            print(f"[{doing} {self._session}; {_name(self._escape)} detaches]\r", file=sys.stderr)
            self._resize()

    def _problem(self, message: dict[str, str]) -> str:
        if message["code"] == "session_taken":
            return f"{message['reason']} Use --watch to look on."
        return message["reason"]

    def _refusal(self, error: InvalidStatus) -> str:
        code = error.response.headers.get("X-Glovebox-Error", "")
        if code == "invalid_api_key":
            return "the key is missing or wrong. Set SESSION_API_KEY, or use --session-api-key-file."
        said = error.response.body.decode(errors="replace")
        return f"the box refused ({error.response.status_code} {code}): {said}"


def _name(escape: bytes) -> str:
    return f"Ctrl-{chr(escape[0] | 0x40)}" if escape[0] < 0x20 else escape.decode()
