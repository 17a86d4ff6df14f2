"""People see what the agent's browser shows."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.box.browser.pages import Browser
from tests.support.running import RunningBox, running_box
from tests.support.waiting import LIMIT

BLUE = "data:text/html,<title>Blue</title><body style='background:rgb(0,0,255)'>"
RED = "data:text/html,<title>Red</title><body style='background:rgb(255,0,0)'>"


def colour(picture: bytes) -> tuple[int, int, int]:
    """The colour in the middle."""
    with Image.open(io.BytesIO(picture)) as image:
        assert image.size == (1280, 720)
        pixel = image.convert("RGB").getpixel((640, 360))
    assert isinstance(pixel, tuple)
    return pixel[0], pixel[1], pixel[2]


def close_to(seen: tuple[int, int, int], wanted: tuple[int, int, int]) -> bool:
    return all(abs(one - other) < 16 for one, other in zip(seen, wanted, strict=True))


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_the_active_page_can_be_looked_at(browser_box: RunningBox, kind: str) -> None:
    Browser(browser_box).go(BLUE)
    answer = browser_box.client.get("/browser/screenshot", params={"format": kind})
    assert answer.headers["content-type"] == f"image/{kind}"
    assert close_to(colour(answer.content), (0, 0, 255))


def test_an_unknown_format_is_refused(browser_box: RunningBox) -> None:
    Browser(browser_box).go(BLUE)
    answer = browser_box.client.get("/browser/screenshot", params={"format": "bmp"})
    assert answer.status_code == 422
    assert answer.headers["X-Glovebox-Error"] == "request_invalid"


@pytest.mark.parametrize("path", ["/browser/screenshot", "/browser/screencast"])
def test_before_the_first_page_there_is_nothing_to_see(tmp_path: Path, path: str) -> None:
    with running_box(tmp_path / "ws") as box:
        answer = box.client.get(path)
        assert answer.status_code == 409
        assert answer.headers["X-Glovebox-Error"] == "browser_not_started"
        assert box.client.get("/browser").json()["state"] == "stopped"


def next_frame(lines: Any, url: str) -> dict[str, Any]:
    """The next picture of that page."""
    for line in lines:
        if line.startswith("data: "):
            frame: dict[str, Any] = json.loads(line.removeprefix("data: "))
            if frame["url"] == url:
                return frame
    raise AssertionError("the screencast has ended")


def test_a_screencast_shows_every_change(browser_box: RunningBox) -> None:
    browser = Browser(browser_box)
    browser.go(BLUE)
    with watching(browser_box) as answer:
        lines = answer.iter_lines()
        frame = next_frame(lines, BLUE)
        assert close_to(colour(base64.b64decode(frame["image"])), (0, 0, 255))
        assert (frame["width"], frame["height"]) == (1280, 720)
        browser.act("new_tab()")
        browser.go(RED)
        frame = next_frame(lines, RED)
        while not close_to(colour(base64.b64decode(frame["image"])), (255, 0, 0)):
            frame = next_frame(lines, RED)
        browser.act("tab_close()")
        assert next_frame(lines, BLUE)


def test_two_people_can_watch(browser_box: RunningBox) -> None:
    browser = Browser(browser_box)
    browser.go(BLUE)
    with watching(browser_box) as first:
        next_frame(first.iter_lines(), BLUE)
        with watching(browser_box) as second:
            browser.go(RED)
            assert next_frame(second.iter_lines(), RED)
        browser.go(BLUE)
    assert not browser.go(RED).error


def watching(box: RunningBox) -> Any:
    """A screencast, on a connection of its own."""
    headers = {"X-Session-API-Key": box.key}
    return httpx.stream(
        "GET", f"{box.url}/browser/screencast", headers=headers, timeout=LIMIT, trust_env=False
    )


def test_dialogs_are_told_as_events(browser_box: RunningBox) -> None:
    Browser(browser_box).go("data:text/html,<script>confirm('Really?')</script>")
    headers = {"X-Session-API-Key": browser_box.key}
    with httpx.stream(
        "GET", f"{browser_box.url}/events?kinds=browser", headers=headers, timeout=20, trust_env=False
    ) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and "Really?" in line:
                told = json.loads(line.removeprefix("data: "))
                break
    assert told["what"] == "confirm dismissed"
