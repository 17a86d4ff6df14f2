"""A stock OpenHands with containers: its own Docker runtime, unchanged, and the runtime of this project."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.openhands import test_stock
from tests.openhands.conftest import Drive, Seen, seen
from tests.support.engine import RealEngine

pytestmark = pytest.mark.timeout(400)
SETTINGS = """
runtime_container_image = "{image}"
runtime_binding_address = "127.0.0.1"
"""


@pytest.fixture(scope="session")
def runtime_image(engine: RealEngine) -> str:
    """An image that has the runtime, and stands in for one of OpenHands' own."""
    image = os.environ.get("GLOVEBOX_TEST_IMAGE", "glovebox:latest")
    if not engine.has_image(image):
        pytest.skip(f"There is no image {image} at {engine}: make image, or set GLOVEBOX_TEST_IMAGE.")
    return image


@pytest.fixture(scope="session")
def contained(drive: Drive, engine: RealEngine, runtime_image: str) -> Iterator[dict[str, Any]]:
    """What happened to runtimes whose boxes are containers."""
    sid = f"test-{secrets.token_hex(4)}"
    try:
        yield drive(
            "container",
            "docker",
            life=("one", "reopened"),
            sid=sid,
            environment={"DOCKER_HOST": engine.host},
            python="/usr/bin/python3",
            sandbox=SETTINGS.format(image=runtime_image),
            as_openhands=True,
        )
    finally:
        for thing in left_of(engine, sid):
            engine.ask("DELETE", f"/containers{thing.removeprefix('container ')}", force="1")


def left_of(engine: RealEngine, sid: str) -> list[str]:
    return [thing for thing in engine.things() if sid in thing]


@pytest.fixture(params=["container", "docker"])
def stock(request: pytest.FixtureRequest, contained: dict[str, Any]) -> Seen:
    """What the checks saw that every runtime has to pass."""
    return seen(contained[request.param])


@pytest.mark.parametrize(
    "check", [name for name in dir(test_stock) if name.startswith("test_")], ids=lambda name: name[5:]
)
def test_a_container_passes(stock: Seen, check: str) -> None:
    getattr(test_stock, check)(stock)


def test_only_the_stock_runtime_leaves_a_container(engine: RealEngine, contained: dict[str, Any]) -> None:
    sid = contained["sid"]
    assert left_of(engine, sid) == [f"container /openhands-runtime-{sid}-docker"]


def test_commands_run_as_the_user_openhands(stock: Seen) -> None:
    metadata = stock("shell")["echo"]["extras"]["metadata"]
    assert (metadata["username"], metadata["working_dir"]) == ("openhands", "/workspace")


def test_the_box_wants_its_key_and_goes_on_after_a_pause(contained: dict[str, Any]) -> None:
    saw = seen(contained["life"])("one")
    assert saw == {"guarded": [403, 200], "paused": "still\nfile", "repeated": {"lost": 1, "log": "once"}}


def test_a_conversation_is_opened_again_with_its_files_until_it_is_deleted(contained: dict[str, Any]) -> None:
    saw = seen(contained["life"])("reopened")
    assert (saw["seen"], saw["same key"], saw["after the other closed"]) == ("kept", True, "lives")
    assert saw["deleted"][0] == "AgentRuntimeDisconnectedError"
