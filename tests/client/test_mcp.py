from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from glovebox import Runtime
from glovebox.client.mcp import McpConfig, RemoteServerConfig, StartedServers, StdioServerConfig
from glovebox.protocol.status import McpServers as Served
from tests.client.asked import connected
from tests.support.running import RunningBox, running_box

OWN = RemoteServerConfig(url="http://127.0.0.1:9/own/sse", api_key="own-key")


@pytest.fixture(scope="module")
def own_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box that other tests give no servers to."""
    with running_box(tmp_path_factory.mktemp("mcp") / "workspace") as box:
        yield box


def server(name: str, secret: str = "secret-0") -> StdioServerConfig:
    return StdioServerConfig(name=name, command=sys.executable, args=("-c", "pass"), env={"TOKEN": secret})


async def names(runtime: Runtime) -> list[str]:
    served = msgspec.json.decode(await runtime.call("GET", "/mcp/servers"), type=Served)
    return sorted(one.name for one in served.servers)


async def test_the_box_stands_for_all_its_programs(own_box: RunningBox) -> None:
    async with connected(own_box) as runtime:
        servers = StartedServers(runtime, McpConfig(stdio_servers=(server("one"),), sse_servers=(OWN,)))
        config = await servers.get_mcp_config()
        assert config.sse_servers == (
            OWN,
            RemoteServerConfig(url=f"{own_box.url}/mcp/sse", api_key=own_box.key),
        )
        assert await names(runtime) == ["one"]
        await servers.get_mcp_config([server("two")])
        assert await names(runtime) == ["one", "two"]
        await asyncio.gather(servers.get_mcp_config([server("three")]), servers.get_mcp_config())
        assert await names(runtime) == ["one", "three", "two"]


async def test_nothing_new_is_not_posted_again(own_box: RunningBox) -> None:
    async with connected(own_box) as runtime:
        servers = StartedServers(runtime, McpConfig(stdio_servers=(server("one"),)))
        await servers.get_mcp_config()
        await runtime.call("POST", "/update_mcp_server", body=b"[]")
        await servers.get_mcp_config([server("one")])
        assert await names(runtime) == []
        await servers.get_mcp_config([server("one", secret="secret-1")])
        assert await names(runtime) == ["one"]


async def test_without_programs_the_box_is_not_among_the_servers(own_box: RunningBox) -> None:
    async with connected(own_box) as runtime:
        config = McpConfig(shttp_servers=(OWN,))
        assert await StartedServers(runtime, config).get_mcp_config() == config


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    remote = RemoteServerConfig(url="https://x.example.org/sse?token=secret-3", api_key="secret-2")
    config = McpConfig(stdio_servers=(server("one"),), sse_servers=(remote,))
    assert "secret" not in repr(config)
    assert "one" in repr(config)
