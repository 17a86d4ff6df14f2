"""The file viewer: a page that shows an image or a PDF, served on loopback for the browser in the box.

It has no key: the address is enough to use it. So the address has an unguessable part, and is written
where only the sandbox user can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import secrets
import socket
from functools import partial
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.box.threads import Threads
from glovebox.errors import TransferError
from glovebox.http.response_headers import SecurityHeaders
from glovebox.http.responses import json_response
from glovebox.server.connection import bounded
from glovebox.server.uvicorn import Config, QuietServer
from glovebox.server.viewer.address_file import AddressFile
from glovebox.server.viewer.pages import (
    PDF,
    FileReplaced,
    PdfFailed,
    PdfReader,
    Refused,
    image_view,
    no_picture,
    open_file,
    pdf_picture,
    pdf_view,
    problem,
    suffix,
)
from glovebox.server.viewer.pdf_worker import NOBODY
from glovebox.settings import Settings

log = logging.getLogger(__name__)

_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", re.IGNORECASE)
_PROBES = 10
_REACH = 1024  # ports
_HIGHEST_PORT = 65535
_NUMBER = re.compile("[0-9]{1,6}")
#: PDFs that are read at the same time; pages and images never wait for them.
_PDFS_AT_ONCE = 2


class Pools(NamedTuple):
    """Where the viewer's blocking work is done."""

    #: Opens files and writes the address, with the rights of the sandbox user.
    user: Threads
    #: Makes pages.
    pages: Threads
    #: Waits for the processes that read PDFs.
    pdfs: Threads


def viewer_app(pools: Pools, reader: PdfReader) -> Starlette:
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
        try:
            shown = await pools.user.run(open_file, path)
            if shown.media_type == PDF:
                return await pools.pdfs.run(pdf_view, shown, reader)
            return await pools.pages.run(image_view, shown)
        except Refused as error:
            return problem(error.status, error.reason, path)
        except (OSError, TransferError) as error:
            return problem(500, "Error viewing file", path, str(error))

    async def page(request: Request) -> Response:
        if not _is_local(request):
            return no_picture(403, "Access Denied")
        path, number, version = (request.query_params.get(name, "") for name in ("path", "number", "version"))
        if not (suffix(path) == ".pdf" and _NUMBER.fullmatch(number)):
            return no_picture(400, "Name a page by the path of a PDF and a number.")
        try:
            shown = await pools.user.run(open_file, path)
            return await pools.pdfs.run(pdf_picture, shown, reader, int(number), version)
        except Refused as error:
            return no_picture(error.status, error.reason)
        except FileReplaced as error:
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


class BelowToken:
    """ASGI middleware: an application below a path that cannot be guessed, and 404 everywhere else."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given, _, rest = scope["path"].removeprefix("/").partition("/")
        if secrets.compare_digest(given.encode(), self._token.encode()):
            base = f"/{self._token}"
            await self._app({**scope, "root_path": base, "path": f"{base}/{rest}"}, receive, send)
        else:
            await json_response({"detail": "Not Found"}, 404)(scope, receive, send)


def _is_local(request: Request) -> bool:
    """Whether the request comes from this machine and was meant for it.

    The second half is for browsers: a page elsewhere can let its own name lead to this machine.
    """
    host = request.headers.get("host", "localhost")
    return request.client is not None and request.client.host in _LOCAL and bool(_LOCAL_HOST.fullmatch(host))


def _assume(user_id: int) -> None:
    """Give the calling thread the rights of the sandbox user."""
    from glovebox.box.credentials import assume_user
    from glovebox.server.viewer import safe_open  # noqa: F401  loaded while the thread can still read it

    assume_user(user_id)


class ViewerServer:
    """A file viewer that serves until it is closed; `port` is None if it found no free one."""

    def __init__(self, settings: Settings, user_id: int | None = None) -> None:
        """`user_id`: the sandbox user, if that is not the server's own."""
        self.port: int | None = None
        self._token = secrets.token_urlsafe(32)
        # Its own, since it outlives the box: a file may be viewed while commands are ended.
        pages = Threads("glovebox-viewer", 1)
        user = Threads("glovebox-viewer-user", 1, partial(_assume, user_id)) if user_id else pages
        self._pools = Pools(user, pages, Threads("glovebox-viewer-pdf", _PDFS_AT_ONCE))
        self._address = AddressFile(
            settings.viewer_url_file, user_id=user_id or os.geteuid(), state_dir=settings.state_dir
        )
        reader = PdfReader(user_id or NOBODY, settings.command_environment)
        self._server = QuietServer(
            Config(
                SecurityHeaders(BelowToken(viewer_app(self._pools, reader), self._token)),
                http=bounded(settings),
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
        """Where the browser in the box finds it. It gives access to files, so it is not logged."""
        return f"http://localhost:{self.port}/{self._token}"

    async def start(self, listener: socket.socket) -> None:
        self.port = listener.getsockname()[1]
        try:
            await self._pools.user.run(self._address.write, self.url)
        except OSError as error:
            log.warning("The file viewer cannot use files as the sandbox user: %s", error)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]), name="file viewer")

    async def close(self) -> None:
        """Stop serving, and withdraw the address if it is still this viewer's. A second call does nothing."""
        serving, self._serving = self._serving, None
        if serving is not None:
            with contextlib.suppress(OSError):
                await self._pools.user.run(self._address.remove)
            self._server.stop()
            await serving
        for threads in set(self._pools):
            threads.close()


async def start_viewer(settings: Settings, port_range_start: int, user_id: int | None = None) -> ViewerServer:
    """Serve the file viewer on a free port at or above the given one, and write its address to a file."""
    viewer = ViewerServer(settings, user_id)
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
