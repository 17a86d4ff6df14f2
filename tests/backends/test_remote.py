"""A box that somebody else has started."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from glovebox.backends.remote import RemoteBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec, Mount
from glovebox.errors import BadSpec, BoxUnreachable, DeadlineExceeded, InvalidKey, NoSuchBox, NotSupported
from glovebox.settings import host
from tests.backends.conftest import run
from tests.backends.test_contract import free_port
from tests.support.running import RunningBox


def remote(url: str, key: str = "") -> RemoteBackend:
    return RemoteBackend(host.load({"GLOVEBOX_URL": url, "SESSION_API_KEY": key, "HOME": "/nowhere"}))


async def test_its_workspace_is_asked_for_wherever_its_shell_is(
    shared_box: RunningBox, tmp_path: Path
) -> None:
    shared_box.run(f"cd '{tmp_path}'")
    backend = remote(f"{shared_box.url}/", shared_box.key)
    sandbox = await backend.start(BoxSpec(), Silent())
    assert sandbox.workspace == str(shared_box.workspace)
    assert sandbox.address.url == shared_box.url
    assert (await backend.attach(sandbox.name)).workspace == str(shared_box.workspace)
    assert (await backend.attach(shared_box.url)).name == sandbox.name


async def test_it_is_not_ours_to_end(shared_box: RunningBox) -> None:
    backend = remote(shared_box.url, shared_box.key)
    sandbox = await backend.start(BoxSpec(), Silent())
    for refused in (sandbox.stop, sandbox.pause):
        with pytest.raises(NotSupported):
            await refused()
    with pytest.raises(NotSupported):
        [line async for line in sandbox.logs()]
    await sandbox.resume()
    await sandbox.delete()
    await sandbox.delete()
    assert await backend.sweep() == []
    await backend.close()
    assert await run(sandbox, "echo still there") == "still there"
    info = await sandbox.info()
    assert (info.state, info.keep, info.created > 0) == ("running", True, True)


async def test_a_wrong_key_is_told_at_once(shared_box: RunningBox) -> None:
    with pytest.raises(InvalidKey):
        await remote(shared_box.url, "wrong").start(BoxSpec(), Silent())
    with pytest.raises(InvalidKey):
        await remote(shared_box.url).attach("")


@pytest.mark.parametrize("url", ["", "box.example.org", "ftp://127.0.0.1", "http://"])
async def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(BadSpec, match="GLOVEBOX_URL"):
        await remote(url).start(BoxSpec(), Silent())


async def test_nobody_at_the_address_is_told(shared_box: RunningBox) -> None:
    backend = remote(f"http://127.0.0.1:{free_port()}")
    for refused in (backend.start(BoxSpec(), Silent()), backend.attach("")):
        begin = time.monotonic()
        with pytest.raises((BoxUnreachable, NoSuchBox), match=r"http://127.*answer|answer.*refused"):
            await refused
        assert time.monotonic() - begin < 60  # a box that was just started gets 120 seconds
    assert await backend.boxes() == []
    assert await remote("").boxes() == []
    with pytest.raises(NoSuchBox):
        await remote(shared_box.url, shared_box.key).attach("another")


@pytest.mark.parametrize(
    "wanted",
    [
        {"image": "debian"},
        {"workspace": "/tmp"},
        {"volumes": (Mount(source="/usr", target="/x"),)},
        {"user": "somebody"},
        {"arguments": ("--log-json",)},
        {"memory": 1},
        {"isolation": "bubblewrap"},
        {"ports": {80: 0}},
    ],
)
async def test_what_only_a_new_box_can_have_is_refused(
    shared_box: RunningBox, wanted: dict[str, Any]
) -> None:
    with pytest.raises(NotSupported):
        await remote(shared_box.url, shared_box.key).start(BoxSpec(**wanted), Silent())


@pytest.fixture
def something_else() -> Iterator[str]:
    """A web server that is no box."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            """Stay quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_what_is_no_box_does_not_count_as_one(something_else: str) -> None:
    with pytest.raises(DeadlineExceeded, match="404"):
        await remote(something_else).start(BoxSpec(start_limit=0.3), Silent())
