"""No page reaches the box or a file outside the workspace, whatever way it tries."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from glovebox.box.browser.chromium import find_chromium
from tests.box.browser.pages import Browser
from tests.box.browser.test_addresses import OWN_PAGES
from tests.support.running import RunningBox, running_box
from tests.support.waiting import LIMIT

#: Everything a script can ask a server with; each puts down what came of it.
TRIES = """<!doctype html><title>Tries</title><output id=said></output><script>
const box = "BOX", told = [];
const tell = (what) => { told.push(what); said.value = told.sort().join(" "); };
fetch(`http://${box}/alive`, {mode: "no-cors"}).then(() => tell("fetched"), () => tell("no-fetch"));
fetch(`http://${box}/execute_action`, {method: "POST", mode: "no-cors", body: "{}"})
  .then(() => tell("posted"), () => tell("no-post"));
const socket = new WebSocket(`ws://${box}/sessions/default/attach`);
socket.onopen = () => tell("socket"); socket.onerror = () => tell("no-socket");
const source = new EventSource(`http://${box}/events`);
source.onopen = () => tell("events"); source.onerror = () => { source.close(); tell("no-events"); };
const image = new Image(); image.onload = () => tell("image"); image.onerror = () => tell("no-image");
image.src = `http://${box}/alive`;
const script = document.createElement("script");
script.onload = () => tell("script"); script.onerror = () => tell("no-script");
script.src = `http://${box}/alive`; document.head.append(script);
const code = `fetch("http://${box}/alive", {mode: "no-cors"})
  .then(() => postMessage("worker"), () => postMessage("no-worker"))`;
const worker = new Worker(URL.createObjectURL(new Blob([code])));
worker.onmessage = (event) => tell(event.data);
navigator.sendBeacon(`http://${box}/alive`, "x");
</script>"""
#: How a page may lead to another.
WAYS = {
    "/link": "<a href='TARGET'>Go</a>",
    "/blank": "<a href='TARGET' target=_blank>Go</a>",
    "/open": "<button onclick='window.open(`TARGET`)'>Go</button>",
    "/location": "<button onclick='location = `TARGET`'>Go</button>",
    "/form": "<form action='TARGET'><button>Go</button></form>",
    "/frame": "<iframe src='TARGET'></iframe>",
    "/meta": "<meta http-equiv=refresh content='0;url=TARGET'>",
}
PDF_VIEWER = "chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai/index.html"
REFUSED = "no-events no-fetch no-image no-post no-script no-socket no-worker"


class Page(BaseHTTPRequestHandler):
    """Serves one page for everything, or leads to the box."""

    box = ""

    def do_GET(self) -> None:
        way, _, target = self.path.partition("?")
        if way in ("/to-the-box", "/redirect"):
            self.send_response(302)
            self.send_header("Location", target or f"http://{self.box}/alive")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.document().encode())

    def document(self) -> str:
        if self.path == "/frames":
            return f"<title>Frames</title><iframe src='http://{self.box}/alive'></iframe>"
        if self.path == "/form":
            return f"<form action='http://{self.box}/alive'><button>Send</button></form>"
        way, _, target = self.path.partition("?")
        return WAYS.get(way, TRIES).replace("BOX", self.box).replace("TARGET", target)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def open_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box without a key, which only the browser's own rules protect."""
    with running_box(tmp_path_factory.mktemp("open") / "workspace", key="") as box:
        yield box


@pytest.fixture(scope="module")
def attacker(open_box: RunningBox) -> Iterator[str]:
    handler = type("Attack", (Page,), {"box": urlsplit(open_box.url).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(LIMIT)


def test_scripts_of_a_page_cannot_reach_the_box(open_box: RunningBox, attacker: str) -> None:
    browser = Browser(open_box)
    browser.go(f"{attacker}/tries")
    for _ in range(20):
        seen = browser.act("noop(200)")
        if seen.tree.count("no-") >= 7 or REFUSED in seen.tree:
            break
    assert f"StaticText '{REFUSED}'" in seen.tree


@pytest.mark.parametrize("path", ["to-the-box", "frames", "form"])
def test_no_page_leads_to_the_box(open_box: RunningBox, attacker: str, path: str) -> None:
    browser = Browser(open_box)
    seen = browser.act(f'goto("{attacker}/{path}")')
    if path == "form":
        seen = browser.act("click(<button 'Send'>)")
    assert "status" not in seen.tree
    assert "chrome-error://" in seen.content


def names() -> list[str]:
    own = {"localhost", "127.0.0.1", "[::1]", "0.0.0.0", "x.localhost", "2130706433", "[::ffff:127.0.0.1]"}
    own |= {socket.gethostname()}
    own |= {address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}  # type: ignore[misc]
    return sorted(own)


@pytest.mark.parametrize("name", names())
def test_going_to_the_box_is_refused_under_every_name(open_box: RunningBox, name: str) -> None:
    port = urlsplit(open_box.url).port
    browser = Browser(open_box)
    seen = browser.act(f'goto("http://{name}:{port}/alive")')
    assert seen.error == f"ValueError: Port {port} is closed to the browser: the box's own API listens there."
    seen = browser.read(f"http://{name}:{port}/alive")
    assert "is closed to the browser" in seen.content


def test_chromium_calls_nobody_by_itself(tmp_path: Path) -> None:
    """Whatever it asks for goes through a proxy that writes it down."""
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def handle(self) -> None:
            asked.append(self.rfile.readline().decode("latin-1"))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    chromium = tmp_path / "chromium"
    found = find_chromium("", os.environ["PATH"])
    chromium.write_text(
        f'#!/bin/sh\nexec {found} "$@" --proxy-server=http://127.0.0.1:{server.server_port}\n'
    )
    chromium.chmod(0o755)
    with running_box(tmp_path / "ws", "--chromium", str(chromium)) as box:
        Browser(box).go("data:text/html,<h1>Quiet</h1>")
        Browser(box).act("noop(4000)")
        assert asked == []
        Browser(box).act('goto("http://site.example/")')
        assert asked, "the proxy is not used"
        assert "site.example" in asked[0]
    server.shutdown()
    server.server_close()
    thread.join(LIMIT)


# Pages of Chromium itself.


@pytest.mark.attack
@pytest.mark.parametrize("url", OWN_PAGES)
def test_pages_of_the_browser_itself_are_not_shown(browser_box: RunningBox, url: str) -> None:
    browser = Browser(browser_box)
    browser.go("about:blank")
    seen = browser.act(f"goto({url!r})")
    assert "is closed to the browser" in seen.error
    assert seen.url == "about:blank"
    assert browser.read(url).error
    assert browser.act("noop(0)").url == "about:blank"


@pytest.mark.attack
@pytest.mark.parametrize("way", ["link", "blank", "open", "location", "form", "frame", "redirect", "meta"])
@pytest.mark.parametrize(
    "url", ["chrome://version", "about:version", "devtools://devtools/bundled/inspector.html", PDF_VIEWER]
)
def test_no_page_leads_to_one_of_the_browser_itself(
    open_box: RunningBox, attacker: str, url: str, way: str
) -> None:
    browser = Browser(open_box)
    browser.act(f'goto("{attacker}/{way}?{url}")')
    if way in ("link", "blank"):
        browser.act("click(<link 'Go'>)")
    elif way in ("open", "location", "form"):
        browser.act("click(<button 'Go'>)")
    for page in browser.act("noop(200)").extras["open_pages_urls"]:
        assert page.startswith(("http://", "about:blank", "chrome-error://chromewebdata/"))
    while len(browser.act("noop(0)").extras["open_pages_urls"]) > 1:
        browser.act("tab_close()")


# Files.


@pytest.fixture
def files(browser_box: RunningBox, tmp_path: Path) -> Path:
    """A directory in the workspace with pages that want to know more."""
    place = browser_box.workspace / tmp_path.name
    place.mkdir()
    secret = tmp_path / "secret.html"
    secret.write_text("<h1>Secret</h1>")
    (place / "good.html").write_text("<h1>Good</h1>")
    (place / "framing.html").write_text(f"<h1>Framing</h1><iframe src='{secret.as_uri()}'></iframe>")
    (place / "leading.html").write_text(
        f"<a href='{secret.as_uri()}'>Same</a> <a href='{secret.as_uri()}' target=_blank>Other</a>"
    )
    os.symlink(secret, place / "link.html")
    return place


def test_files_of_the_workspace_are_shown(browser_box: RunningBox, files: Path) -> None:
    browser = Browser(browser_box)
    assert browser.go((files / "good.html").as_uri()).bid("heading 'Good'")
    assert "Good" in browser.read((files / "good.html").as_uri()).text


@pytest.mark.parametrize("name", ["link.html", "../../secret", "/etc/passwd"])
def test_other_files_are_not_shown(browser_box: RunningBox, files: Path, name: str) -> None:
    browser = Browser(browser_box)
    url = f"file://{name}" if name.startswith("/") else f"{files.as_uri()}/{name}"
    for address in (url, f"view-source:{url}"):
        seen = browser.act(f'goto("{address}")')
        assert "is outside the workspace" in seen.error
        assert "Secret" not in seen.content
        assert "root:" not in seen.content


def test_a_page_of_the_workspace_cannot_show_other_files(browser_box: RunningBox, files: Path) -> None:
    browser = Browser(browser_box)
    seen = browser.go((files / "framing.html").as_uri())
    assert seen.bid("heading 'Framing'")
    assert "Secret" not in seen.tree
    for link in ("Same", "Other"):
        browser.go((files / "leading.html").as_uri())
        tabs = len(browser.act("noop(0)").extras["open_pages_urls"])
        seen = browser.act(f"click(<link '{link}'>)")
        assert "Secret" not in browser.act("noop(300)").tree
        if len(seen.extras["open_pages_urls"]) > tabs:
            browser.act("tab_close()")
