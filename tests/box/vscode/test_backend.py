"""VS Code of boxes that are processes, asked for on the host's side."""

from __future__ import annotations

import contextlib
import shutil
import socket
from pathlib import Path

import httpx
import pytest

from glovebox import Runtime
from glovebox.backends.process.backend import ProcessBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec, Isolation
from glovebox.settings import host
from tests.support.waiting import until

BOTH: list[Isolation] = ["", "bubblewrap"]


def settings_for(directory: Path, server: Path) -> host.HostSettings:
    environment = {"HOME": str(directory), "PATH": "/usr/bin:/bin", "GLOVEBOX_VSCODE": str(server)}
    return host.load(environment)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def opened(url: str) -> httpx.Response:
    """The page, once the server is there: it is started in the background."""
    answers: list[httpx.Response] = []

    async def answered() -> bool:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            with contextlib.suppress(httpx.ConnectError):
                answers.append(await client.get(url))
        return bool(answers)

    await until(answered, "VS Code's server")
    return answers[0]


@pytest.mark.asyncio
@pytest.mark.parametrize("isolation", BOTH)
async def test_a_runtime_says_where_vscode_is(
    vscode_server: Path, tmp_path: Path, isolation: Isolation
) -> None:
    if isolation and not shutil.which("bwrap"):
        pytest.skip("there is no bubblewrap")
    port = free_port()
    spec = BoxSpec(plugins=("vscode",), env={"VSCODE_PORT": str(port)}, isolation=isolation)
    async with Runtime("process", spec, settings=settings_for(tmp_path, vscode_server)) as runtime:
        url = await runtime.vscode_url()
        assert url is not None
        assert url.startswith(f"http://127.0.0.1:{port}/?tkn=")
        assert url.endswith(f"&folder={runtime.workspace}")
        assert (await opened(url)).status_code == 302
        assert runtime.web_hosts == {}


@pytest.mark.asyncio
async def test_a_port_is_chosen_where_none_is_given(vscode_server: Path, tmp_path: Path) -> None:
    backend = ProcessBackend(settings_for(tmp_path, vscode_server))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(backend.close)
        sandbox = await backend.start(BoxSpec(plugins=("vscode",)), Silent())
        stack.push_async_callback(sandbox.delete)
        [(port, url)] = sandbox.ports.items()
        assert url == f"http://127.0.0.1:{port}"
        # Nobody has shown the token: it is there, and refuses.
        assert (await opened(url)).status_code == 403


@pytest.mark.asyncio
async def test_a_runtime_knows_a_port_that_was_chosen(vscode_server: Path, tmp_path: Path) -> None:
    spec = BoxSpec(plugins=("vscode",))
    async with Runtime("process", spec, settings=settings_for(tmp_path, vscode_server)) as runtime:
        url = await runtime.vscode_url()
        assert url is not None
        assert (await opened(url)).status_code == 302
        assert runtime.web_hosts == {}
