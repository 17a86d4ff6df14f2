"""Starts the process of a holder, or connects to one that runs. The holder itself does not load this."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import glovebox
from glovebox.box.terminal.holder import wire
from glovebox.box.terminal.holder.listener import SECRET, SOCKET
from glovebox.linux import processes
from glovebox.linux.limits import give_back_limit

#: How many seconds a holder may take to end when it has lost its server, and when it is unreachable.
_END_LIMIT = 3.0
_UNREACHABLE_END_LIMIT = 10.0
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from glovebox.box.terminal.holder.main import main; main()"
)


def end_unreachable(directory: str) -> None:
    """End the holder of a state directory whose socket is gone: its shells are of no use. Blocks."""
    for pid in processes.pids():
        with contextlib.suppress(OSError):
            if not _holds(pid, directory):
                continue
            ended = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(ended, signal.SIGTERM)
                wait = select.poll()
                wait.register(ended, select.POLLIN)
                if not wait.poll(_UNREACHABLE_END_LIMIT * 1000):
                    signal.pidfd_send_signal(ended, signal.SIGKILL)
            finally:
                os.close(ended)


def _holds(pid: int, directory: str) -> bool:
    mine = {_START.encode(), os.fsencode(directory)} <= set(processes.arguments(pid))
    # In another container the same path is another directory.
    return mine and os.path.samefile(f"/proc/{pid}/root{directory}", directory)


class HolderProcess:
    """A holder that waits for its orders, and ends if this process does before it has them."""

    def __init__(self, directory: str = "") -> None:
        """Start it without waiting for it. Blocks a little.

        `directory` is the state directory, if that is known; it identifies the process for others.

        Raises:
            OSError: no process can be started.
        """
        self.connection, theirs = socket.socketpair()
        root = str(Path(glovebox.__file__).parent.parent)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, root, directory],
                stdin=theirs.fileno(),
                # Until it knows its log, errors go to the standard error of this process.
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        give_back_limit(self.process.pid)  # before it has orders, so every shell inherits it

    def order(self, arguments: list[str]) -> None:
        """Send it the orders, once; see `wire.BEGIN`."""
        self.connection.sendall(wire.frame(wire.BEGIN, 0, wire.fields(*arguments)))

    def close(self) -> None:
        self.connection.close()
        self.process.wait()


def connect(directory: str, lock: int) -> socket.socket | None:
    """A connection to the holder of a state directory, if there is one. Blocks."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        # Through a descriptor, as the path of a socket is limited to 107 bytes.
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
        finally:
            os.close(descriptor)
        socket.send_fds(connection, [wire.frame(wire.HELLO, 0, _read_secret(directory))], [lock])
    except OSError:
        connection.close()
        return None
    connection.setblocking(False)
    return connection


def write_secret(directory: str, secret: str) -> None:
    """Leave the holder's secret for the next server."""
    path = os.path.join(directory, SECRET)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
        file.write(secret)


def _read_secret(directory: str) -> bytes:
    try:
        with open(os.path.join(directory, SECRET), "rb") as file:
            return file.read()
    except FileNotFoundError:  # of an older version, which says so itself
        return b""


def wait_for(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a holder that has ended everything or lost its server. Blocks."""
    try:
        process.wait(_END_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
