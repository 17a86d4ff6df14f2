"""The file viewer: a page that shows an image or a PDF, served on loopback for the browser in the box."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import html
import json
import logging
import os
import random
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from glovebox.box.threads import Threads
from glovebox.errors import TransferError
from glovebox.http.responses import json_response
from glovebox.server.listening import QuietServer
from glovebox.server.quick_uvicorn import Config

log = logging.getLogger(__name__)

#: The suffixes that can be shown, and what they are.
TYPES = {
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
}
MAX_BYTES = 100 << 20
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_PROBES = 10
_REACH = 1024  # ports
_HIGHEST_PORT = 65535
# A multiple of three, so that encoded pieces join to one encoded whole.
_PIECE = 3 << 18


def viewer_app(threads: Threads) -> ASGIApp:
    """The application: `/` says that it runs, `/view?path=` shows a file."""

    async def running(request: Request) -> Response:
        return json_response({"status": "File viewer server is running"})

    async def view(request: Request) -> Response:
        if not _is_local(request):
            return HTMLResponse(
                "<h1>Access Denied</h1><p>This endpoint is only accessible from localhost</p>", 403
            )
        path = request.query_params.get("path")
        if path is None:
            missing = {"type": "missing", "loc": ["query", "path"], "msg": "Field required", "input": None}
            return json_response({"detail": [missing]}, 422)
        return await threads.run(_view, path)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = json_response({"detail": error.detail}, error.status_code)
        response.headers.update(error.headers or {})
        return response

    routes = [Route("/", running), Route("/view", view)]
    for route in routes:
        route.methods = {"GET"}  # Starlette adds HEAD, which the contract does not know
    return Starlette(routes=routes, exception_handlers={HTTPException: refused})


def _is_local(request: Request) -> bool:
    """Whether the request comes from this machine and was meant for it.

    The second half is for browsers: a page elsewhere can let its own name lead to this machine.
    """
    try:
        name = urlsplit(f"//{request.headers.get('host', 'localhost')}").hostname
    except ValueError:
        return False
    return request.client is not None and request.client.host in _LOCAL and name in _LOCAL


def _view(path: str) -> Response:
    if not os.path.isabs(path):
        return _problem(400, "Error: Path must be absolute", path)
    if not os.path.exists(path):
        return _problem(404, "Error: File not found", path)
    if os.path.isdir(path):
        return _problem(400, "Error: Path is a directory", path)
    try:
        return HTMLResponse(memoryview(_page(path)))
    except (OSError, TransferError) as error:
        return _problem(500, "Error viewing file", path, str(error))


def _problem(status: int, title: str, *texts: str) -> Response:
    return HTMLResponse(f"<h1>{title}</h1>" + "".join(f"<p>{_escaped(text)}</p>" for text in texts), status)


def _page(path: str) -> bytearray:
    """The page for a file, around its encoded content."""
    extension = os.path.splitext(path)[1].lower()
    if extension not in TYPES:
        raise TransferError(
            f"Unsupported file extension: {extension}. Supported extensions are: {', '.join(TYPES)}"
        )
    values = {
        "title": _escaped(os.path.basename(path)),
        "path": script_string(path),
        "extension": script_string(extension),
        "type": script_string(TYPES[extension]),
    }
    page = bytearray()
    for name, text in _template():
        page += text.encode()
        if name == "content":
            for piece in _content(path):
                page += base64.b64encode(piece)
        else:
            page += values.get(name, "").encode()
    return page


def script_string(text: str) -> str:
    """A JavaScript string that cannot end the script element it stands in."""
    quoted = json.dumps(text, ensure_ascii=False)
    for character in "<\u2028\u2029":
        quoted = quoted.replace(character, f"\\u{ord(character):04x}")
    return quoted


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


@functools.cache
def _template() -> list[tuple[str, str]]:
    """The page as pairs: the name of a value, and the text before it."""
    pieces: list[tuple[str, str]] = []
    rest = Path(__file__).with_name("viewer.html").read_text("utf-8")
    while rest:
        text, _, rest = rest.partition("{{")
        name, _, rest = rest.partition("}}")
        pieces.append((name, text))
    return pieces


def _content(path: str) -> Iterator[bytes]:
    try:
        # A pipe of that name must not keep the thread waiting for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise TransferError(
            f"File not found locally: {path}. Please download the file to the local machine and try again."
        ) from error
    with os.fdopen(descriptor, "rb", buffering=_PIECE) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TransferError(f"Not a regular file: {path}")
        if status.st_size > MAX_BYTES:
            raise TransferError(f"File is too large to view: {status.st_size} bytes, at most {MAX_BYTES}")
        left = MAX_BYTES
        while left > 0 and (piece := file.read(_PIECE)):
            left -= len(piece)
            yield piece


class ViewerServer:
    """A file viewer that serves until it is closed; `port` is None if it found no free one."""

    def __init__(self, url_file: str) -> None:
        self.port: int | None = None
        self._url_file = url_file
        # Its own, since it outlives the box: somebody may look at a file while commands are ended.
        self._threads = Threads("glovebox-viewer", 1)
        self._server = QuietServer(
            Config(
                viewer_app(self._threads),
                log_config=None,
                access_log=False,
                lifespan="off",
                interface="asgi3",
                ws="none",
                server_header=False,
                proxy_headers=False,  # a header must not say where a request comes from
                timeout_graceful_shutdown=1,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where the browser in the box finds it."""
        return f"http://localhost:{self.port}"

    async def start(self, listener: socket.socket) -> None:
        """Serve on a listening socket, and say where."""
        self.port = listener.getsockname()[1]
        await self._threads.run(_announce, self._url_file, self.url)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]), name="file viewer")

    async def close(self) -> None:
        """Stop serving, and withdraw the address if it is still this viewer's. A second call does nothing."""
        serving, self._serving = self._serving, None
        if serving is not None:
            await self._threads.run(_withdraw, self._url_file, self.url)
            self._server.stop()
            await serving
        self._threads.close()


async def start_viewer(port_range_start: int, url_file: str) -> ViewerServer:
    """Serve the file viewer on a free port at or above the given one, and write its address to a file."""
    viewer = ViewerServer(url_file)
    listener = _listen(port_range_start)
    if listener is None:
        log.warning("There is no free port from %d on for the file viewer", port_range_start)
    else:
        await viewer.start(listener)
    return viewer


def _listen(port_range_start: int) -> socket.socket | None:
    """A listening socket: binding is the only test of a free port that stays true."""
    ports = range(port_range_start, min(port_range_start + _REACH, _HIGHEST_PORT + 1))
    for port in random.sample(ports, min(_PROBES, len(ports))):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError:
            listener.close()
        else:
            listener.setblocking(False)
            return listener
    return None


def _announce(url_file: str, url: str) -> None:
    """Write the address for everyone to read; a link that is there is replaced, never followed."""
    part = f"{url_file}.{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(part, flags, 0o644), "w") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(url)
        os.replace(part, url_file)
    except OSError as error:
        log.warning("The file viewer's address cannot be written to %s: %s", url_file, error)
        with contextlib.suppress(OSError):
            os.unlink(part)


def _withdraw(url_file: str, url: str) -> None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        descriptor = os.open(url_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            ours = file.read(len(url) + 1) == url
        if ours:
            os.unlink(url_file)
