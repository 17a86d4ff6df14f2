"""An application behind a real server on loopback; streams and disconnects cannot be tested without one."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from glovebox.archives.zip_records import UnpackLimits
from glovebox.box.files.transfer.endpoints import Transfer
from glovebox.box.threads import Threads
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


def transfer_app(
    working_dir: str,
    threads: Threads,
    max_upload_bytes: int | None = None,
    limits: UnpackLimits | None = None,
) -> Starlette:
    transfer = Transfer(
        working_dir=working_dir, threads=threads, max_upload_bytes=max_upload_bytes, limits=limits
    )
    return Starlette(
        routes=[
            Route("/upload_file", transfer.upload, methods=["POST"]),
            Route("/download_files", transfer.download, methods=["GET"]),
            Route("/list_files", transfer.list_files, methods=["POST"]),
        ]
    )


@contextlib.contextmanager
def serving(app: ASGIApp) -> Iterator[int]:
    """The port the application is served on."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    server = uvicorn.Server(_config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, what="the server")
        yield port
    finally:
        server.should_exit = True
        thread.join(LIMIT)
        assert not thread.is_alive()


@contextlib.contextmanager
def serving_transfer(
    working_dir: str, max_upload_bytes: int | None = None, limits: UnpackLimits | None = None
) -> Iterator[int]:
    threads = Threads("test-transfer", 4)
    try:
        with serving(transfer_app(working_dir, threads, max_upload_bytes, limits)) as port:
            yield port
    finally:
        threads.close()


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http="httptools",
        ws="none",
        timeout_graceful_shutdown=2,  # a test that fails must not wait for the connection it left open
    )


def main(working_dir: str) -> None:
    """Serve in this process until it is ended, and say where."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = transfer_app(working_dir, Threads("test-transfer", 4))
    uvicorn.Server(_config(app)).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
