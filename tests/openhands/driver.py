# mypy: disable-error-code="import-not-found"
"""Drives runtimes of OpenHands and writes down what they did. Runs in OpenHands' interpreter.

    python -m tests.openhands.driver PLAN RESULT

The plan says which kinds of runtime; the result is, for each, what every check returned.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def main(plan_file: str, result_file: str) -> None:
    plan = json.loads(Path(plan_file).read_text())
    sys.path[:0] = plan["paths"]
    begun = time.monotonic()
    from tests.openhands import checks, life

    outcome: dict[str, Any] = {"import": time.monotonic() - begun}
    for kind in plan["kinds"]:
        begun = time.monotonic()
        folder = Path(plan["folder"]) / kind
        folder.mkdir()
        with variables(plan["environment"].get(kind, {})), connected(plan, kind) as (runtime, statuses):
            stage = checks.Stage(runtime, folder, Path(plan["mcp_server"]), plan["python"], statuses)
            outcome[kind] = {"connect": time.monotonic() - begun}
            outcome[kind] |= {check.__name__: attempt(check, stage) for check in checks.COMMON}
        outcome[kind]["seconds"] = time.monotonic() - begun
    begun = time.monotonic()
    first = plan["kinds"][0]
    with variables(plan["environment"].get(first, {})):
        outcome["life"] = {
            name: attempt(getattr(life, name), lambda **more: made(plan, first, **more))
            for name in plan["life"]
        }
    outcome["life"]["seconds"] = time.monotonic() - begun
    Path(result_file).write_text(json.dumps(outcome, default=str))


@contextmanager
def variables(wanted: dict[str, str]) -> Iterator[None]:
    """An environment with these in it, for a while."""
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name)
            os.environ.update({name: before[name]} if name in before else {})


def attempt(check: Callable[[Any], object], with_what: object) -> dict[str, Any]:
    """What a check returned, or why it broke off."""
    begun = time.monotonic()
    try:
        return {"saw": check(with_what), "seconds": time.monotonic() - begun}
    except Exception:  # noqa: BLE001 - whatever it is, the other checks go on
        return {"broke": traceback.format_exc()}


@contextmanager
def connected(plan: dict[str, Any], kind: str) -> Iterator[tuple[Any, list[str]]]:
    from openhands.utils.async_utils import call_async_from_sync

    with variables(plan["connecting"].get(kind, {})):
        runtime, statuses = made(plan, kind)
        call_async_from_sync(runtime.connect, 180)
    try:
        yield runtime, statuses
    finally:
        runtime.close()


def made(plan: dict[str, Any], kind: str, sid: str = "", **more: Any) -> tuple[Any, list[str]]:
    """A runtime that is not yet connected, as OpenHands makes one, and the statuses it tells."""
    from openhands.core.config import load_openhands_config
    from openhands.core.setup import create_runtime

    if kind == "local":
        replace_server(plan["serve"])
    config = load_openhands_config(set_logging_levels=False, config_file=plan["config"][kind])
    for name, value in more.pop("sandbox", {}).items():
        setattr(config.sandbox, name, value)
    runtime = create_runtime(config, sid=f"{plan['sid']}-{sid or kind}", **more)
    statuses: list[str] = []
    runtime.status_callback = lambda level, status, message: statuses.append(status.value)
    return runtime, statuses


def replace_server(serve: list[str]) -> None:
    """The stock local runtime with another program for its server, and nothing else changed."""
    from openhands.runtime.impl.local import local_runtime
    from openhands.runtime.utils.command import get_action_execution_server_startup_command as stock

    def command(**arguments: Any) -> list[str]:
        own: list[str] = stock(**arguments)
        return [*serve, *own[own.index(str(arguments["server_port"])) :]]

    local_runtime.get_action_execution_server_startup_command = command


if __name__ == "__main__":
    main(*sys.argv[1:])
