"""Clients in processes of their own: what they are asked, and how they answer.

Each runs in the interpreter that its library is installed for, so this needs nothing but Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

#: Where boxes are started.
PROCESS = "process"
BUBBLEWRAP = "bubblewrap"
CONTAINER = "container"
POOL = "container from the warm pool"

#: How a client is used: from a coroutine, or by a caller that blocks.
ASYNC, SYNC = "async", "sync"


@dataclass(frozen=True)
class Means:
    """What a client needs to know of this run."""

    folder: Path
    #: Whatever it starts carries it, so that it is found.
    mark: str
    #: For containers; empty if there are none.
    image: str = ""
    #: Of the reference: whether its server has plugins, as its users start it.
    has_plugins: bool = True
    #: Of SWE-ReX: arguments of `docker run` that put it into the image.
    docker_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Begun:
    """A box that has answered a first command."""

    #: Since 1970: when its client was made, when it was connected, when it had its answer.
    made: float
    connected: float
    answered: float
    #: Where it answers; empty if there is nothing between.
    url: str = ""
    key: str = ""
    workspace: str = ""
    name: str = ""

    @property
    def seconds(self) -> float:
        """From the client to the answer."""
        return self.answered - self.made


@dataclass(frozen=True)
class Failure:
    """Why there is no answer."""

    text: str


@dataclass
class Stopwatch:
    """The moments of a start."""

    made: float = field(default_factory=time.time)
    connected: float = 0.0

    def connect(self) -> None:
        """It is connected now."""
        self.connected = time.time()

    def answer(self, said: str, wanted: str, **known: str) -> Begun:
        """It has said something now.

        Raises:
            RuntimeError: that is not what it was asked to say.
        """
        answered = time.time()
        if said.strip() != wanted:
            raise RuntimeError(f"wrong answer to a first command: {said[:100]!r}")
        return Begun(self.made, self.connected, answered, **known)


class Peer(Protocol):
    """A client library, as far as it is measured."""

    def begin(self, kind: str) -> Begun:
        """Start a box and have it answer a command. It stays until `end`."""

    def crowd(self, kind: str, number: int) -> float:
        """Start so many at once; the seconds until all have answered. They stay until `end`."""

    def commands(self, number: int, way: str) -> list[float]:
        """Run `true` so many times in the box that was begun last; the milliseconds of each."""

    def output(self, command: str) -> str:
        """What a command prints in the box that was begun last."""

    def copy_in(self, source: str, directory: str, is_tree: bool) -> float:
        """Copy into a directory of that box; the seconds."""

    def copy_out(self, directory: str) -> tuple[float, str]:
        """Copy a directory out of that box; the seconds, and where the archive is."""

    def end(self) -> None:
        """End all boxes."""


def serve(make: Callable[[Means], Peer], handle: int) -> None:
    """Say when it is ready, then answer until the other side says or is at its end."""
    pipe = Connection(handle)
    try:
        peer = make(pipe.recv())
        pipe.send(None)
        try:
            while (asked := pipe.recv()) is not None:
                pipe.send(_answer(peer, *asked))
        finally:
            peer.end()
    except (EOFError, BrokenPipeError):  # the benchmark is gone
        pass


def _answer(peer: Peer, verb: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return getattr(peer, verb)(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, the benchmark is to hear of it
        return Failure(f"{type(error).__name__}: {error}"[:300])
