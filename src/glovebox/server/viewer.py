"""The file viewer: a page that shows an image or a PDF, served on loopback for the browser in the box."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import secrets
import socket
import stat
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from glovebox.box.threads import Threads
from glovebox.errors import TransferError
from glovebox.http.responses import json_response
from glovebox.server.listening import QuietServer
from glovebox.server.pdf_pages import FileChanged, PdfFailed, no_picture, pdf_picture, pdf_view
from glovebox.server.quick_uvicorn import Config
from glovebox.server.viewer_pages import image_view, problem, refusal, suffix

log = logging.getLogger(__name__)

_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_PROBES = 10
_REACH = 1024  # ports
_HIGHEST_PORT = 65535
_NUMBER = re.compile("[0-9]{1,6}")
#: PDFs that are read at the same time; pages and images never wait for them.
_PDFS_AT_ONCE = 2


def viewer_app(threads: Threads, pdf_threads: Threads) -> ASGIApp:
    """The application: `/` says that it runs, `/view?path=` shows a file, `/page` draws a PDF's page."""

    async def running(request: Request) -> Response:
        return json_response({"status": "File viewer server is running"})

    async def view(request: Request) -> Response:
        if not _is_local(request):
            return problem(403, "Access Denied", "This endpoint is only accessible from localhost")
        path = request.query_params.get("path")
        if path is None:
            missing = {"type": "missing", "loc": ["query", "path"], "msg": "Field required", "input": None}
            return json_response({"detail": [missing]}, 422)
        if wrong := await threads.run(refusal, path):
            return problem(wrong.status, wrong.reason, path)
        try:
            if suffix(path) == ".pdf":
                return await pdf_threads.run(pdf_view, path)
            return await threads.run(image_view, path)
        except (OSError, TransferError) as error:
            return problem(500, "Error viewing file", path, str(error))

    async def page(request: Request) -> Response:
        if not _is_local(request):
            return no_picture(403, "Access Denied")
        path, number, version = (request.query_params.get(name, "") for name in ("path", "number", "version"))
        if not (suffix(path) == ".pdf" and _NUMBER.fullmatch(number)):
            return no_picture(400, "A page is asked for by the path of a PDF and a number.")
        if wrong := await threads.run(refusal, path):
            return no_picture(wrong.status, wrong.reason)
        try:
            return await pdf_threads.run(pdf_picture, path, int(number), version)
        except FileChanged as error:
            return no_picture(409, str(error))
        except (OSError, PdfFailed, TransferError) as error:
            return no_picture(500, str(error))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = json_response({"detail": error.detail}, error.status_code)
        response.headers.update(error.headers or {})
        return response

    routes = [Route("/", running), Route("/view", view), Route("/page", page)]
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


class ViewerServer:
    """A file viewer that serves until it is closed; `port` is None if it found no free one."""

    def __init__(self, url_file: str) -> None:
        self.port: int | None = None
        self._url_file = url_file
        # Its own, since it outlives the box: somebody may look at a file while commands are ended.
        self._threads = Threads("glovebox-viewer", 1)
        self._pdf_threads = Threads("glovebox-viewer-pdf", _PDFS_AT_ONCE)
        self._server = QuietServer(
            Config(
                viewer_app(self._threads, self._pdf_threads),
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
        self._pdf_threads.close()


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
    with contextlib.suppress(OSError):
        kind = os.lstat(url_file).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):  # /dev/null, say: nobody wants it, or it may break
            return
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
