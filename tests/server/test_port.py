"""The port of a box that is still starting."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glovebox.errors import StartupError
from glovebox.server.port import address_of, bind
from tests.support.waiting import LIMIT, wait_until

DOCS = Path(__file__).parents[2] / "docs"
CLAIM = "a client that connects while the box starts waits, and is answered when the box is ready"
#: `glovebox serve` on a slow disk: the largest import of the start ends when a file exists.
SLOW_START = """
import os, sys, time

class SlowDisk:
    @staticmethod
    def find_spec(name, path=None, target=None):
        while name == "glovebox.server.run" and not os.path.exists(sys.argv[1]):
            time.sleep(0.01)

sys.meta_path.insert(0, SlowDisk)
from glovebox.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def test_who_calls_before_anybody_answers_can_wait() -> None:
    with (
        bind("127.0.0.1", 0, "serve") as listener,
        socket.create_connection(listener.getsockname(), timeout=LIMIT) as caller,
    ):
        caller.sendall(b"GET /alive")
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(100) == b"GET /alive"


def test_a_port_that_is_taken_is_refused_at_once() -> None:
    with bind("127.0.0.1", 0, "serve") as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            StartupError, match=f"Cannot listen on 127.0.0.1 port {port}: .*glovebox hub PORT"
        ):
            bind("127.0.0.1", port, "hub")


def test_an_address_is_a_url() -> None:
    with bind("::1", 0, "serve") as listener:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"http://[::1]:{port}"
        assert address_of(listener, "127.0.0.1") == f"http://127.0.0.1:{port}"


@contextmanager
def slow_box(directory: Path, port: int) -> Iterator[Path]:
    """A box that starts, and becomes ready once the file exists whose path this gives."""
    may_start = directory / "may-start"
    environment = {**os.environ, "GLOVEBOX_VIEWER_URL_FILE": os.devnull, "HOME": str(directory)}
    command = [sys.executable, "-c", SLOW_START, str(may_start), "serve", str(port)]
    process = subprocess.Popen(
        [*command, "--working-dir", str(directory / "ws")], stdout=subprocess.DEVNULL, env=environment
    )
    try:
        yield may_start
    finally:
        may_start.touch()
        process.terminate()
        process.wait(LIMIT)


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def test_who_connects_while_a_box_starts_waits_as_the_documentation_says(tmp_path: Path) -> None:
    for page in ("api.md", "operations.md"):
        assert CLAIM in (DOCS / page).read_text(encoding="utf-8"), page
    with bind("127.0.0.1", 0, "serve") as listener:
        port = listener.getsockname()[1]
    with slow_box(tmp_path, port) as may_start:
        wait_until(lambda: is_open(port), what="the port")
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as caller:
            caller.sendall(b"GET /alive HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            caller.setblocking(False)
            with pytest.raises(BlockingIOError):  # the box cannot be ready yet
                caller.recv(1)
            may_start.touch()
            caller.settimeout(LIMIT)
            answer = b"".join(iter(lambda: caller.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b'{"status":"ok"}')
