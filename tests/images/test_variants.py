"""The images with more in them, each doing what it is for. GLOVEBOX_TEST_VARIANTS=1 chooses them."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator

import httpx
import pytest
from PIL import Image

from tests.images.containers import STOCK, Container, container
from tests.support.engine import RealEngine
from tests.support.running import wait_until

pytestmark = pytest.mark.skipif(
    not os.environ.get("GLOVEBOX_TEST_VARIANTS"),
    reason="building these images takes minutes: set GLOVEBOX_TEST_VARIANTS=1",
)

KEY = "a-key-for-this-test"
API, EDITOR = 8000, 8001
COLOUR = (18, 52, 86)
PAGE = f"""<!DOCTYPE html><meta charset="utf-8"><title>Inside</title><body style="background: rgb{COLOUR}">
<h1>Grüße, 世界</h1><button onclick="this.textContent = 'Pressed'">Press</button>"""
SITE = "http://127.0.0.1:8765/page.html"


@pytest.fixture(scope="module")
def browsing(engine: RealEngine, browser_image: str) -> Iterator[Container]:
    """A box with Chromium, started as OpenHands does, that serves a page to itself."""
    command = [word for word in STOCK if word != "--no-enable-browser"]
    with container(engine, browser_image, command) as started:
        wait_until(started.answers, 60, "the box")
        started.execute("write", path="/workspace/page.html", content=PAGE)
        started.run("python3 -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 &")
        assert "Inside" in started.run(f"curl -fsS --retry 50 --retry-delay 1 --retry-connrefused {SITE}")
        yield started


@pytest.fixture(scope="module")
def editing(engine: RealEngine, vscode_image: str) -> Iterator[Container]:
    """A box with VS Code, started by what the image itself says."""
    variables = {"port": str(API), "VSCODE_PORT": str(EDITOR)}
    with container(engine, vscode_image, None, ports=(API, EDITOR), key=KEY, **variables) as started:
        wait_until(started.answers, 60, "the box")
        yield started


def test_pages_are_opened_seen_and_acted_on(browsing: Container) -> None:
    opened = browsing.observe("browse_interactive", browser_actions=f'goto("{SITE}")')
    assert opened["extras"]["url"] == SITE
    assert not opened["extras"]["error"], opened
    assert "heading 'Grüße, 世界'" in opened["content"]
    kind, _, data = opened["extras"]["screenshot"].partition(",")
    assert kind == "data:image/png;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    assert picture.getpixel((picture.width - 5, picture.height - 5)) == COLOUR
    number = opened["content"].partition("] button 'Press'")[0].rpartition("[")[2]
    pressed = browsing.observe("browse_interactive", browser_actions=f'click("{number}")')
    assert "button 'Pressed'" in pressed["content"]


def test_the_browser_is_not_roots(browsing: Container) -> None:
    browsing.observe("browse_interactive", browser_actions=f'goto("{SITE}")')
    assert browsing.run("ps -eo user=,comm= | grep chromium | sort -u") == "openhan+ chromium"


def test_the_editor_loads_for_whoever_has_the_token(editing: Container) -> None:
    token = editing.client.get("/vscode/connection_token").json()["token"]
    assert token, editing.client.get("/plugins/vscode").text
    address = editing.address(EDITOR)
    with httpx.Client(base_url=address, trust_env=False, timeout=60, follow_redirects=True) as client:
        assert client.get("/").status_code == 403
        assert client.get("/?tkn=wrong").status_code == 403
        page = client.get("/", params={"tkn": token, "folder": "/workspace"})
        assert page.status_code == 200
        assert "vscode-workbench-web-configuration" in page.text
        script = page.text.partition('<script type="module" src="')[2].partition('"')[0]
        code = client.get(script)
        assert code.status_code == 200
        assert len(code.content) > 1e6


def test_the_editor_is_not_roots(editing: Container) -> None:
    token = editing.client.get("/vscode/connection_token").json()["token"]
    assert httpx.get(f"{editing.address(EDITOR)}/?tkn={token}", trust_env=False).status_code == 302
    node = "/openhands/.openvscode-server/node"
    assert (
        editing.run(f"ps -eo user=,args= | grep -F '{node} ' | grep -v grep | cut -d' ' -f1 | sort -u")
        == "openhan+"
    )
