"""Starts the process of a holder. The holder itself does not load this."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import glovebox
from glovebox.box.descriptors import give_back_limit
from glovebox.box.terminal.holder import wire

_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from glovebox.box.terminal.holder.main import main; main()"
)


class HolderProcess:
    """A process that is about to hold shells. It outlives this one if its orders say so.

    It loads what it needs and waits for its orders. If nobody is left to give them, it ends.
    """

    def __init__(self, directory: str = "") -> None:
        """Start it, without waiting for anything. Blocks a little.

        `directory` is what it will work in, if that is known: by it others know whose process it is.

        Raises:
            OSError: there is no process to be had.
        """
        self.connection, theirs = socket.socketpair()
        root = str(Path(glovebox.__file__).parent.parent)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, root, directory],
                stdin=theirs.fileno(),
                # What goes wrong before it knows its log is told to whoever started this process.
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        give_back_limit(self.process.pid)  # before it has orders, so every shell inherits it

    def order(self, arguments: list[str]) -> None:
        """Tell it what to hold shells with, and where; once."""
        self.connection.sendall(wire.frame(wire.BEGIN, 0, wire.fields(*arguments)))

    def close(self) -> None:
        """Let go of it, and wait for its end unless somebody else did."""
        self.connection.close()
        self.process.wait()
