"""A container engine, asked without any library: whether it is there, and what it says of itself."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glovebox.settings.host import HostSettings

_QUICK = 0.5
_PATIENT = 5.0
_LARGEST = 16 << 20


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine may answer: a socket of this machine, or a host and a port."""

    address: str

    @property
    def socket_path(self) -> str:
        """The path of its socket; empty if it is reached over the network."""
        return self.address.removeprefix("unix://") if self.address.startswith("unix://") else ""

    def answers(self) -> bool:
        """Whether it is there, asked in a hurry."""
        try:
            return self._ask("/_ping", _QUICK)[0] == 200
        except (OSError, ValueError):
            return False

    def get(self, path: str) -> Any:
        """What it says, decoded.

        Raises:
            OSError: it cannot be reached.
            ValueError: it does not answer as an engine does.
        """
        status, body = self._ask(path, _PATIENT)
        if status != 200:
            raise ValueError(f"the answer to {path} was {status}: {body[:200].decode(errors='replace')}")
        return json.loads(body)

    def _ask(self, path: str, seconds: float) -> tuple[int, bytes]:
        with self._connect(seconds) as connection:
            # HTTP/1.0: the answer is neither in chunks nor followed by anything.
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
            received = bytearray()
            while len(received) < _LARGEST and (piece := connection.recv(65_536)):
                received += piece
        head, _, body = bytes(received).partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise ValueError("what answers there is not a container engine")
        return int(words[1]), body

    def _connect(self, seconds: float) -> socket.socket:
        if self.socket_path:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(seconds)
                connection.connect(self.socket_path)
            except OSError:
                connection.close()
                raise
            return connection
        host, _, port = self.address.partition("://")[2].rstrip("/").rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{self.address!r} is neither unix:///path nor tcp://host:port")
        return socket.create_connection((host.strip("[]"), int(port)), seconds)


def candidates(settings: HostSettings) -> Iterator[EngineAddress]:
    """Where an engine may be: where the environment says, or else in the usual places."""
    if settings.engine:
        yield EngineAddress(settings.engine)
        return
    paths = ["/var/run/docker.sock"]
    if own := settings.environment.get("XDG_RUNTIME_DIR"):
        paths += [f"{own}/docker.sock", f"{own}/podman/podman.sock"]
    for path in (*paths, "/run/podman/podman.sock", f"{settings.home}/.docker/run/docker.sock"):
        yield EngineAddress(f"unix://{path}")


def is_usable(settings: HostSettings) -> bool:
    """Whether boxes can be containers: an engine answers."""
    return any(engine.answers() for engine in candidates(settings))
