"""The port of a box that is still starting."""

from __future__ import annotations

import socket

import pytest

from glovebox.errors import StartupError
from glovebox.server.port import address_of, bind
from tests.support.waiting import LIMIT


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
