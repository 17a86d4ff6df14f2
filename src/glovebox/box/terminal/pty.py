"""A bash on a pseudo-terminal that this process owns."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping

from glovebox.box.terminal import processes
from glovebox.box.terminal.account import Account
from glovebox.box.terminal.channel import Receiver
from glovebox.box.threads import Threads

_READ_SIZE = 65_536
#: Bytes taken in one turn of the event loop; others want a turn too.
_READ_LIMIT = 262_144
#: How long a shell and its jobs may take to end by themselves.
_GRACE = 0.5
_RESET = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)


class Pty:
    """An interactive bash with its own session and controlling terminal."""

    def __init__(
        self, process: subprocess.Popen[bytes], master: int, receiver: Receiver, threads: Threads
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._master = master
        self._receiver = receiver
        self._threads = threads
        self._unsent = bytearray()
        self._exited = asyncio.Event()
        self._told = False
        self._released = False
        os.set_blocking(master, False)
        self._loop.add_reader(master, self._read)
        self._watch()

    @classmethod
    async def open(
        cls,
        *,
        rcfile: str,
        cwd: str,
        environment: Mapping[str, str],
        account: Account,
        size: tuple[int, int],
        receiver: Receiver,
        threads: Threads,
    ) -> Pty:
        """Start a bash; `size` is rows and columns. A directory that cannot be entered becomes the home.

        Raises:
            OSError: no bash could be started.
        """
        process, master = await threads.run(
            _spawn, rcfile, cwd, {**environment, **account.variables}, account, size
        )
        return cls(process, master, receiver, threads)

    @property
    def pid(self) -> int:
        """The shell's process id, which is also its session's."""
        return self._process.pid

    def write(self, data: bytes) -> None:
        """Type something; what the terminal does not take now waits."""
        if self._released:
            return
        if not self._unsent:
            data = data[self._send(data) :]
        if data:
            if not self._unsent:
                self._loop.add_writer(self._master, self._flush)
            self._unsent += data

    async def close(self) -> None:
        """Hang up, then kill what is left of the session and the shell's descendants."""
        ended = self._exited.is_set()
        relatives = await self._threads.run(processes.family, self.pid, ended=ended)
        self._release()
        if not self._exited.is_set():
            self._process.send_signal(signal.SIGHUP)
            self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await self._exited.wait()
        if not self._exited.is_set():
            self._process.kill()
        await self._exited.wait()
        others = [process for process in relatives if process.pid != self.pid]
        if others and await self._threads.run(processes.alive, others):
            late = await self._threads.run(processes.family, self.pid, ended=True)
            await self._threads.run(processes.end, [*others, *late])

    def _release(self) -> None:
        if not self._released:
            self._released = True
            self._stop_reading()
            self._loop.remove_writer(self._master)
            os.close(self._master)

    def _stop_reading(self) -> None:
        self._loop.remove_reader(self._master)

    def _send(self, data: bytes) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody will read it any more

    def _flush(self) -> None:
        del self._unsent[: self._send(bytes(self._unsent[:_READ_SIZE]))]
        if not self._unsent:
            self._loop.remove_writer(self._master)

    def _read(self) -> None:
        pieces: list[bytes] = []
        size = 0
        hung_up = False
        while size < _READ_LIMIT:
            try:
                piece = os.read(self._master, _READ_SIZE)
            except BlockingIOError:
                break
            except OSError:  # EIO: no process has the terminal open any more
                piece = b""
            if not piece:
                hung_up = True
                break
            pieces.append(piece)
            size += len(piece)
        if pieces:
            self._receiver.received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if hung_up and not self._released:
            self._stop_reading()
            # The exit status follows at once, unless the program closed its terminal and runs on.
            self._loop.call_later(_GRACE, self._tell, None)

    def _watch(self) -> None:
        """Learn of the exit without anybody asking for it."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(self._process.pid)
                self._loop.add_reader(descriptor, self._exit, descriptor)
                return
        threading.Thread(target=self._wait, name="terminal-wait", daemon=True).start()

    def _wait(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop may be gone by then
            self._loop.call_soon_threadsafe(self._exit)

    def _exit(self, descriptor: int | None = None) -> None:
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        status = self._process.wait()
        self._exited.set()
        if not self._released:
            self._read()
            self._release()
        self._tell(status if status >= 0 else 128 - status)

    def _tell(self, status: int | None) -> None:
        if not self._told:
            self._told = True
            self._receiver.hung_up(status)


def _spawn(
    rcfile: str, cwd: str, environment: dict[str, str], account: Account, size: tuple[int, int]
) -> tuple[subprocess.Popen[bytes], int]:
    # Without the small program that makes a terminal a session's own, Python code runs after the fork.
    setsid = shutil.which("setsid", path=environment.get("PATH")) if sys.platform == "linux" else None
    helper = [setsid, "-c"] if setsid and not _ignored_signals() else []
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as afterwards:
        master, slave = os.openpty()
        on_failure.callback(os.close, master)
        afterwards.callback(os.close, slave)
        termios.tcsetwinsize(slave, size)
        if account.switch:
            os.fchown(slave, account.uid, -1)
        process = subprocess.Popen(
            [*helper, "bash", "--rcfile", rcfile],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=next((path for path in (cwd, environment.get("HOME", "")) if os.path.isdir(path)), "/"),
            env=environment,
            user=account.uid if account.switch else None,
            group=account.gid if account.switch else None,
            extra_groups=account.groups if account.switch else None,
            preexec_fn=None if helper else _own_session,
        )
        on_failure.pop_all()
    return process, master


def _ignored_signals() -> list[signal.Signals]:
    """Signals that a shell would find ignored, as under `nohup`, and that its jobs must get."""
    return [number for number in _RESET if signal.getsignal(number) is signal.SIG_IGN]


def _own_session() -> None:
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
