"""Cells of one server, asked one at a time."""

from __future__ import annotations

from benchmarks.competitors import Unavailable
from benchmarks.load import LoadError, Request, exchange
from benchmarks.openhands import OpenHands
from benchmarks.servers import Target

#: A server may lose an answer here and there; how many it loses is counted elsewhere.
_TRIES = 3


def ask(target: Target, request: Request) -> None:
    """Send a request until its answer is right.

    Raises:
        LoadError: it never is.
    """
    answer: tuple[int, bytes] = (0, b"")
    for _ in range(_TRIES):
        try:
            answer = exchange(target.site.address, request.raw)
        except OSError as error:
            raise LoadError(f"no answer to a cell: {error}") from error
        if request.accepts(*answer):
            return
    text = answer[1][:200].decode(errors="replace")
    raise LoadError(f"wrong answer to a cell: HTTP {answer[0]} {text}")


def first_cell(target: Target) -> None:
    """Wait until a first cell is answered.

    Raises:
        Unavailable: it is not.
    """
    try:
        ask(target, OpenHands(target.site).cell("print(1)", "1"))
    except LoadError as problem:
        raise Unavailable(str(problem)) from problem
