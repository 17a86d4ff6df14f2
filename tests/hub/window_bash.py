"""Terminals of a window that tests make: a real bash on a real terminal for each session."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import tempfile
import termios
from collections.abc import Callable, Mapping

from glovebox.protocol.window import RunEnded

#: Printed by the shell whenever it is ready for a command: how the last one ended, and where it is now.
_READY = re.compile(rb"\x1b\]777;(\d+);([^\x07]*)\x07")
_BEGINNING = b"\x1b]777;"


class Bash:
    """A shell that keeps its state from one command to the next."""

    def __init__(self, cwd: str, env: Mapping[str, str]) -> None:
        self._cwd = cwd
        self._env = env
        self._printed: Callable[[str], None] | None = None
        self._ended: asyncio.Future[RunEnded] | None = None
        self._held = b""

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return self._ended is not None

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._terminal, inside = pty.openpty()
        modes = termios.tcgetattr(inside)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(inside, termios.TCSANOW, modes)

        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        environment = {**os.environ, "PS1": "", "PS2": "", "TERM": "xterm", **self._env}
        environment["PROMPT_COMMAND"] = r'printf "\e]777;%s;%s\a" "$?" "$PWD"'
        os.set_blocking(self._terminal, False)
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        loop.add_reader(self._terminal, self._read)
        self._process = await asyncio.create_subprocess_exec(
            "bash", "--norc", "--noprofile", "--noediting", "-i",
            stdin=inside, stdout=inside, stderr=inside, cwd=self._cwd, env=environment,
            start_new_session=True, preexec_fn=take_terminal,
        )  # fmt: skip
        os.close(inside)
        await self._ended
        self._ended = None

    async def run(self, command: str, printed: Callable[[str], None]) -> RunEnded:
        """Run a command; its output is told as it comes."""
        with tempfile.NamedTemporaryFile("w", prefix="command-", delete=False) as file:
            file.write(command + "\n")
        self._printed = printed
        self._ended = asyncio.get_running_loop().create_future()
        os.write(self._terminal, f". {file.name}\n".encode())
        try:
            return await self._ended
        finally:
            self._ended = self._printed = None
            os.unlink(file.name)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._terminal, text.encode())

    async def close(self) -> None:
        """End the shell and what runs in it."""
        with contextlib.suppress(ProcessLookupError):
            # What runs in the foreground has a group of its own, and is hung up on as by a real terminal.
            group = os.tcgetpgrp(self._terminal) if self._terminal >= 0 else 0
            if group > 0:  # there is none once the shell has ended, and 0 would be the tests' own
                os.killpg(group, signal.SIGHUP)
            os.kill(self._process.pid, signal.SIGHUP)
        try:
            await asyncio.wait_for(self._process.wait(), 2)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._gone()

    def _read(self) -> None:
        try:
            data = self._held + os.read(self._terminal, 65536)
        except OSError:  # nobody has the other side any more
            self._gone()
            return
        while ready := _READY.search(data):
            self._tell(data[: ready.start()])
            data = data[ready.end() :]
            self._done(RunEnded(exit_code=int(ready[1]), cwd=os.fsdecode(ready[2])))
        # A mark may come in two pieces.
        begins = data.rfind(_BEGINNING[:1])
        held = begins >= 0 and (data[begins:].startswith(_BEGINNING) or _BEGINNING.startswith(data[begins:]))
        self._held = data[begins:] if held else b""
        self._tell(data[:begins] if held else data)

    def _tell(self, data: bytes) -> None:
        if data and self._printed is not None:
            self._printed(data.decode("utf-8", "replace"))

    def _done(self, how: RunEnded) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(how)

    def _gone(self) -> None:
        if self._terminal >= 0:
            asyncio.get_running_loop().remove_reader(self._terminal)
            os.close(self._terminal)
            self._terminal = -1
            self.ended = True
        asyncio.get_running_loop().create_task(self._tell_end())

    async def _tell_end(self) -> None:
        code = await self._process.wait()
        self._done(RunEnded(exit_code=code if code >= 0 else 128 - code, cwd="", shell_ended=True))

    #: Whether the shell has ended.
    ended = False


class Terminals:
    """The shells of a window, by session."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = env or {}
        self._shells: dict[str, Bash] = {}

    async def shell(self, session: str, cwd: str) -> Bash:
        """The shell of a session, started if there is none."""
        shell = self._shells.get(session)
        if shell is None or shell.ended:
            shell = Bash(cwd, self._env)
            await shell.start()
            self._shells[session] = shell
        return shell

    def find(self, session: str) -> Bash | None:
        """The shell of a session."""
        shell = self._shells.get(session)
        return None if shell is None or shell.ended else shell

    async def end(self, session: str) -> None:
        """End the shell of a session."""
        shell = self._shells.pop(session, None)
        if shell is not None:
            await shell.close()

    async def close(self) -> None:
        """End all."""
        for session in list(self._shells):
            await self.end(session)
