"""Web servers on loopback with the pages of this directory and some that no file can be."""

from __future__ import annotations

import contextlib
import mimetypes
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.support.waiting import LIMIT

PAGES = Path(__file__).parent / "pages"
#: What stands in a page for the address of the server that is another site to the browser.
OTHER_SITE = b"OTHER_SITE"


class Answer(NamedTuple):
    """What is sent for a path that is no file."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


def page(title: str, body: str) -> Answer:
    """A small page."""
    return Answer(f"<!doctype html><title>{title}</title><body>{body}".encode())


def attachment(body: bytes, content_type: str, name: str) -> Answer:
    """A file to keep instead of a page to show."""
    return Answer(body, content_type, headers=(("Content-Disposition", f'attachment; filename="{name}"'),))


def button(label: str, script: str) -> str:
    """A button that runs a script; `said` is a place to put text."""
    return f"<button onclick='{script}'>{label}</button>"


_SAID = "<p>Said: <output id=said>nothing</output></p>"
_MANY = "".join(f"<p>Paragraph {n} <a href=#{n}>link {n}</a></p>" for n in range(5000))

MADE = {
    "/waiting": page(
        "Waiting", button("Usable", 'said.value = "used"') + _SAID + "<img src=/never alt=Never>"
    ),
    "/redirect": Answer(b"", status=302, headers=(("Location", "/plain.html"),)),
    "/redirect-loop": Answer(b"", status=302, headers=(("Location", "/redirect-loop"),)),
    "/download": attachment(b"a,b\n1,2\n", "text/csv", "table.csv"),
    "/download-odd-name": attachment(b"odd", "application/octet-stream", "../../odd name.bin"),
    "/downloading": page("Downloading", "<a href=/download>Table</a> <a href=/download-odd-name>Odd</a>"),
    "/nothing": Answer(b"", status=204),
    "/broken": Answer(b"<title>Broken</title><p>It broke.", status=500),
    "/many": page("Many", _MANY),
    "/asking": page(
        "Asking",
        button("Alert", 'alert("Look!"); said.value = "told"')
        + button("Confirm", 'said.value = confirm("Sure?")')
        + button("Prompt", 'said.value = prompt("Who?", "nobody")')
        + button("Again", 'for (let n = 0; n < 5; n++) alert(n); said.value = "five"')
        + _SAID,
    ),
    "/staying": page(
        "Staying",
        button("Stay", "onbeforeunload = event => event.preventDefault()") + "<a href=/plain.html>Leave</a>",
    ),
    "/opening": page(
        "Opening",
        "<a href=/plain.html target=_blank>New tab</a>"
        + button("Pop up", 'open("/frame_inner.html", "", "width=300,height=200")')
        + button("Pop up and close", 'open("/plain.html").close()'),
    ),
    "/busy": page(
        "Busy", button("Loop", "for (;;);") + button("Later", "setTimeout(() => { for (;;); }, 0)")
    ),
}


class Server(ThreadingHTTPServer):
    """A site. What it never answers is let go when it closes."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, other: str) -> None:
        super().__init__((host, 0), Handler)
        self.address = f"http://{host}:{self.server_port}"
        self.other = other.encode()
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers with a page, or as the path says."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/never":
            self.server.closing.wait()
            self.close_connection = True
        elif path == "/slow":
            # Long enough to be seen loading, short enough to be waited for.
            self.server.closing.wait(1.5)
            self.answer(page("Slow", "<p>Came late.</p>"))
        else:
            self.answer(MADE.get(path) or self.file(path))

    def file(self, path: str) -> Answer:
        found = PAGES / path.lstrip("/")
        if found.parent != PAGES or not found.is_file():
            return Answer(b"<title>Missing</title><p>No such page.", status=404)
        kind = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
        return Answer(found.read_bytes().replace(OTHER_SITE, self.server.other), kind)

    def answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a browser that goes elsewhere hangs up
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what a test shows is what failed."""


@contextlib.contextmanager
def serving(host: str = "127.0.0.1", other: str = "") -> Iterator[str]:
    """The address of a running site. `other` is the address that its pages know as the other site's."""
    server = Server(host, other)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(LIMIT)
