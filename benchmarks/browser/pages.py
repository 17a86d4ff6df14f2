"""The pages that are visited, and a server for them on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Elements of the large page, its `html`, `head`, `title`, `body` and `ul` included.
LARGE = 10_000

#: A heading, some text, a list, a link, a form: all that a step needs.
_SMALL_PAGE = (
    "<!doctype html><html><head><title>Small</title></head><body><h1>Hello</h1>"
    "<p>Some <b>bold</b> text.</p><ul><li>one</li><li>two</li></ul>"
    '<a href="b.html">to b</a>'
    '<form><label for="q">Name</label><input id="q" name="q"><button type="button">Go</button></form>'
    '<div id="o"></div></body></html>'
)
_OTHER_PAGE = (
    "<!doctype html><html><head><title>B</title></head><body><h2>Page B</h2>"
    "<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>"
)


def large_page() -> str:
    """A long list whose entries have a link, a text, a field and a button."""
    entries = "".join(
        f'<li><a href="#{n}">Entry {n}</a><span>of a long list</span>'
        f'<input value="{n}"><button>Go</button></li>'
        for n in range(1, (LARGE - 5) // 5 + 1)
    )
    return f"<!doctype html><html><head><title>Large</title></head><body><ul>{entries}</ul></body></html>"


class _Handler(BaseHTTPRequestHandler):
    """Answers with one of the pages."""

    pages: Mapping[str, bytes]

    def do_GET(self) -> None:
        page = self.pages.get(self.path)
        self.send_response(200 if page is not None else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page or b"")))
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def served_pages() -> Iterator[str]:
    """The address of a server with the pages `/`, `/b.html` and `/large.html`."""
    texts = {"/": _SMALL_PAGE, "/b.html": _OTHER_PAGE, "/large.html": large_page()}
    pages = {path: text.encode() for path, text in texts.items()}
    handler = type("Handler", (_Handler,), {"pages": pages})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()
