"""Somebody else who reaches the holder's socket gets nothing, and takes nothing away."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from glovebox.box.terminal.holder import wire
from tests.support.running import wait_until
from tests.survival.mortal import MortalBox, mortal_box
from tests.survival.test_restart import holder_of
from tests.survival.test_survival import Asked, alive

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

_PIDFD_GETFD = 438


@pytest.fixture
def box(tmp_path: Path) -> Iterator[MortalBox]:
    with mortal_box(tmp_path) as started:
        started.execute("run", command="X=kept")
        yield started


def connect(box: MortalBox) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.relpath(box.state / "holder.sock"))
    connection.settimeout(20)
    return connection


def turned_away(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def secret(box: MortalBox) -> bytes:
    return (box.state / "holder.secret").read_bytes()


def say_nothing(box: MortalBox) -> socket.socket:
    return connect(box)


def say_garbage(box: MortalBox) -> socket.socket:
    connection = connect(box)
    connection.sendall(os.urandom(200))
    return connection


def promise_a_lot(box: MortalBox) -> socket.socket:
    connection = connect(box)
    connection.sendall(wire.HEADER.pack(wire.HELLO, 0, 1 << 30) + b"x" * 10_000)
    return connection


def guess(box: MortalBox) -> socket.socket:
    connection = connect(box)
    connection.sendall(wire.frame(wire.HELLO, 0, b"0" * 32))
    return connection


def give_orders(box: MortalBox) -> socket.socket:
    connection = connect(box)
    connection.sendall(wire.frame(wire.QUIT))
    return connection


def know_the_secret(box: MortalBox) -> socket.socket:
    connection = connect(box)
    connection.sendall(wire.frame(wire.HELLO, 0, secret(box)))
    return connection


def pass_the_lock_of_another(box: MortalBox) -> socket.socket:
    connection = connect(box)
    with open(box.state / "lock", "rb") as lock:
        socket.send_fds(connection, [wire.frame(wire.HELLO, 0, secret(box))], [lock.fileno()])
    return connection


def make_a_lock(box: MortalBox) -> socket.socket:
    connection = connect(box)
    with open(box.directory / "another-lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        socket.send_fds(connection, [wire.frame(wire.HELLO, 0, secret(box))], [lock.fileno()])
    return connection


def pass_many_descriptors(box: MortalBox) -> socket.socket:
    connection = connect(box)
    with open(os.devnull, "rb") as file:
        socket.send_fds(connection, [b"?"], [file.fileno()] * 200)
    return connection


ATTEMPTS: list[Callable[[MortalBox], socket.socket]] = [
    say_nothing,
    say_garbage,
    promise_a_lot,
    guess,
    give_orders,
    know_the_secret,
    pass_the_lock_of_another,
    make_a_lock,
    pass_many_descriptors,
]


def test_nobody_takes_the_place_of_a_server(box: MortalBox) -> None:
    asked = Asked(box, "echo began; until [ -e go ]; do sleep 0.02; done; echo $X; (exit 7)")
    wait_until(lambda: box.get("/sessions/main").json()["command"] is not None, what="the command")
    shell = box.get("/sessions/main").json()["pid"]
    holder = holder_of(shell)
    descriptors = Path(f"/proc/{holder}/fd")
    with ExitStack() as connections:
        for attempt in ATTEMPTS:
            connection = connections.enter_context(closing(attempt(box)))
            if attempt is not say_nothing and attempt is not pass_many_descriptors:
                assert turned_away(connection), attempt
        (box.workspace / "go").touch()
        asked.after_kill()
        assert asked.answer is not None
        assert asked.answer["content"] == "began\nkept"
        assert asked.answer["extras"]["metadata"]["exit_code"] == 7
        assert box.execute("run", command="echo $X")["content"] == "kept"
        assert box.get("/sessions/main").json()["pid"] == shell
        assert len(list(descriptors.iterdir())) < 30
    began = time.monotonic()
    box.stop()
    assert time.monotonic() - began < 15
    assert not alive(holder)
    assert not alive(shell)


def test_a_crowd_at_the_door_keeps_nobody_out(box: MortalBox) -> None:
    shell = box.get("/sessions/main").json()["pid"]
    holder = holder_of(shell)
    with ExitStack() as crowd:
        for _ in range(200):
            crowd.enter_context(closing(connect(box)))
        assert box.execute("run", command="echo $X")["content"] == "kept"
        assert len(os.listdir(f"/proc/{holder}/fd")) < 60
        box.kill()
        for _ in range(50):
            crowd.enter_context(closing(connect(box)))
        box.start()
        assert box.execute("run", command="echo $X")["content"] == "kept"
        assert box.get("/sessions/main").json()["pid"] == shell


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_not_even_heard(box: MortalBox) -> None:
    """Where the state directory lets others through, which it does not."""
    for directory in (box.state, *box.state.parents[:3]):
        directory.chmod(directory.stat().st_mode | 0o011)
    (box.state / "holder.sock").chmod(0o666)
    program = (
        "import os, socket, sys\n"
        "lock = os.open(sys.argv[2], os.O_RDONLY)\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        "connection.connect(sys.argv[1])\n"
        "try:\n"
        "    socket.send_fds(connection, [bytes.fromhex(sys.argv[3])], [lock])\n"
        "    print(connection.recv(100))\n"
        "except (BrokenPipeError, ConnectionResetError):\n"
        "    print(b'')\n"
    )
    hello = wire.frame(wire.HELLO, 0, secret(box)).hex()
    os.chmod(box.state / "lock", 0o600)
    box.kill()  # now it could be the next server
    result = subprocess.run(
        [sys.executable, "-c", program, "holder.sock", "lock", hello],
        cwd=box.state,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout == "b''\n"
    box.state.chmod(0o700)
    box.start()
    assert box.execute("run", command="echo $X")["content"] == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can break the connections of others")
def test_a_server_that_loses_its_connection_finds_its_shells_again(box: MortalBox) -> None:
    box.kill()
    box.start()  # from now on it is connected by the socket in the directory
    asked = Asked(box, "echo began; until [ -e go ]; do sleep 0.02; done; echo $X; (exit 7)")
    wait_until(lambda: box.get("/sessions/main").json()["command"] is not None, what="the command")
    shell = box.get("/sessions/main").json()["pid"]
    assert box.process is not None
    break_connection(box.process.pid, holder_of(shell))
    (box.workspace / "go").touch()
    asked.after_kill()
    assert asked.answer is not None
    assert asked.answer["content"] == "began\nkept"
    assert asked.answer["extras"]["metadata"]["exit_code"] == 7
    assert box.execute("run", command="echo $X")["content"] == "kept"
    assert box.get("/sessions/main").json()["pid"] == shell


def break_connection(server: int, holder: int) -> None:
    """Shut the socket between two processes down, by way of a copy of it."""
    pidfd = os.pidfd_open(server)
    broken = 0
    for name in os.listdir(f"/proc/{server}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if not os.readlink(f"/proc/{server}/fd/{name}").startswith("socket:"):
                continue
        copy = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, int(name), 0)
        if copy < 0:
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=copy) as connection:
            told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if struct.unpack("3i", told)[0] == holder:
                connection.shutdown(socket.SHUT_RDWR)
                broken += 1
                break
    os.close(pidfd)
    if not broken:
        pytest.skip("descriptors of others cannot be had here")
