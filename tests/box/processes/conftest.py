from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.running import RunningBox

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def client(shared_box: RunningBox) -> httpx.Client:
    return shared_box.client


@pytest.fixture
def run(client: httpx.Client) -> Call:
    """Run a program to its end."""

    def run(**asked: Any) -> dict[str, Any]:
        return answered(client.post("/exec", json=asked), 200)

    return run


@pytest.fixture
def start(client: httpx.Client) -> Call:
    """Start a program."""

    def start(**asked: Any) -> dict[str, Any]:
        return answered(client.post("/processes", json=asked), 201)

    return start


@pytest.fixture
def wait(client: httpx.Client) -> Callable[[str], dict[str, Any]]:
    """Wait until a process has ended."""

    def wait(process: str) -> dict[str, Any]:
        ended = answered(client.post(f"/processes/{process}/wait", json={"timeout": 60}), 200)
        assert ended["state"] == "ended", ended
        return ended

    return wait


def answered(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body
