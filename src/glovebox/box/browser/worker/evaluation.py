"""The process that drives the browser while an agent is evaluated on a task of BrowserGym.

It takes the place of the ordinary one: `python -m glovebox.box.browser.worker.evaluation SETUP_FILE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from socket import AF_UNIX, socket
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from glovebox.box.browser import wire
from glovebox.box.browser.chromium import Setup
from glovebox.box.browser.wire import (
    BrowserFailure,
    BrowserStep,
    Cast,
    Observe,
    Ready,
    Reply,
    Request,
    Survey,
    TextReply,
)
from glovebox.json_codec import decode_json

if TYPE_CHECKING:
    from types import FrameType

    from glovebox.box.browser.worker.gym_task import Task

_PREFIX = "browsergym/"
_INSTALL_CORE = "pip install 'glovebox-runtime[browsergym]'"
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_END_SECONDS = 5
_ENDED = "The evaluation cannot go on, its browser has ended. "
#: The most characters of the line that says why a task could not be started.
_LONGEST_REASON = 1000


class CannotStart(Exception):
    """A task cannot be started; the text says why, in one line."""


class Package(NamedTuple):
    """Where tasks come from."""

    #: A part of the names of its tasks.
    mark: str
    module: str
    install: str


#: The first whose mark fits is taken.
PACKAGES = (
    Package("visualwebarena", "browsergym.visualwebarena", "pip install browsergym-visualwebarena==0.13.3"),
    Package("webarena", "browsergym.webarena", "pip install browsergym-webarena==0.13.3"),
    Package("miniwob", "browsergym.miniwob", _INSTALL_CORE),
)


def main() -> None:
    """Start the task, then answer the server until a signal."""
    setup = decode_json(Path(sys.argv[1]).read_bytes(), Setup)
    for number in _ENDING:
        signal.signal(number, _end)
    try:
        task = start(setup)
    except CannotStart as reason:
        sys.exit(str(reason))
    try:
        _serve(task, setup.socket)
    finally:
        task.close()


def start(setup: Setup) -> Task:
    """Start the task that a setup names, and its browser.

    Raises:
        CannotStart: there is no such task, or something that it needs is missing.
    """
    name = setup.evaluation if setup.evaluation.startswith(_PREFIX) else _PREFIX + setup.evaluation
    package = next((one for one in PACKAGES if one.mark in name), None)
    if package is None:
        raise CannotStart(f"Unsupported browsergym eval env: {name}")
    try:
        from glovebox.box.browser.worker.gym_task import FAILURES, Task
    except ImportError as error:
        raise _missing(name, _INSTALL_CORE, error) from error
    try:
        import_module(package.module)
        return Task(name, setup)
    except ImportError as error:
        raise _missing(name, package.install, error) from error
    except FAILURES as error:
        raise CannotStart(_in_one_line(f"{name} cannot be started: {_describe(error)}")) from error


def _missing(name: str, install: str, error: ImportError) -> CannotStart:
    return CannotStart(
        _in_one_line(f"{name} needs something that is missing ({error}). Install it: {install}")
    )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REASON]


def _end(number: int, _: FrameType | None) -> NoReturn:
    for one in _ENDING:
        signal.signal(one, signal.SIG_IGN)  # the browser is being ended: once is enough
    # Closing it may hang; it ends with this process too.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
    signal.alarm(_END_SECONDS)
    sys.exit(128 + number)


def _serve(task: Task, path: str) -> NoReturn:
    servers: queue.SimpleQueue[socket] = queue.SimpleQueue()
    with socket(AF_UNIX) as listener:
        inherited = os.umask(0o177)
        listener.bind(path)
        os.umask(inherited)
        listener.listen()
        greeting = (listener, task.version, servers)
        threading.Thread(target=_greet, args=greeting, daemon=True).start()
        while True:
            with servers.get() as connection:
                _converse(task, connection)


def _greet(listener: socket, version: str, servers: queue.SimpleQueue[socket]) -> None:
    """Greet servers at once, even while a step of an earlier one still runs."""
    while True:
        connection, _ = listener.accept()
        with contextlib.suppress(ConnectionError):
            connection.sendall(wire.encode(Ready(version=version)))
            servers.put(connection)


def _converse(task: Task, connection: socket) -> None:
    """Answer a server until it hangs up."""
    requests = wire.MessageReader(Request)
    with contextlib.suppress(ConnectionError):
        while True:
            request: Request = requests.receive(connection)
            if not isinstance(request, Cast):  # there is no screencast
                connection.sendall(wire.encode(answer(task, request)))


def answer(task: Task, request: BrowserStep | Observe | Survey) -> Reply:
    """The reply to a request."""
    from glovebox.box.browser.worker.gym_task import FAILURES

    try:
        match request:
            case BrowserStep(actions="GET_EVAL_GOAL"):
                return TextReply(id=request.id, text=task.goal.text, images=task.goal.images)
            case BrowserStep(actions="GET_EVAL_REWARDS"):
                return TextReply(id=request.id, text=json.dumps(task.rewards))
            case BrowserStep():
                return task.step(request)
            case Observe():
                return task.look(request)
            case Survey():
                return task.survey(request)
    except FAILURES as error:
        text = wire.replace_surrogates(_describe(error))
        return BrowserFailure(id=request.id, text=_ENDED + text if task.ended else text)


if __name__ == "__main__":
    main()
