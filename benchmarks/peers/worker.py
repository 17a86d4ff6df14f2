"""The other end of a pipe: an object in a process of its own whose methods the benchmark calls.

It may run in another interpreter, with another library, so this needs nothing but Python.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from multiprocessing.connection import Connection
from typing import Any


def main(handle: int, module: str, name: str) -> None:
    """Make the object with the arguments that come first, then call its methods until the pipe is closed."""
    pipe = Connection(handle)
    with asyncio.Runner() as runner:
        try:
            served = getattr(importlib.import_module(module), name)(*pipe.recv())
            pipe.send((True, None))
            try:
                while (asked := pipe.recv()) is not None:
                    pipe.send(_answer(runner, served, *asked))
            finally:
                _answer(runner, served, "close", ())
        except (EOFError, BrokenPipeError):  # the benchmark is gone
            pass


def _answer(
    runner: asyncio.Runner, served: object, method: str, arguments: tuple[Any, ...]
) -> tuple[bool, Any]:
    try:
        result = getattr(served, method)(*arguments)
        return True, runner.run(result) if inspect.iscoroutine(result) else result
    except Exception as error:  # noqa: BLE001 - whatever it is, the benchmark reports it
        return False, f"{type(error).__name__}: {error}"[:300]


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
