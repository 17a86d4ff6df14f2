"""Tools of other MCP servers, through a box on its standard streams."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ImageContent, ToolListChangedNotification

from tests.box.mcp.mcp_client import scripted
from tests.box.mcp_own.connecting import LIMIT, Connected, Heard, connected, text_of


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_of_other_servers_are_offered_and_their_changes_told(tmp_path: Path, mode: str) -> None:
    entry = {name: value for name, value in scripted("other").items() if name != "name"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"other": entry}}))
    changed = threading.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    flags = ("--plugin-options", f"mcp.config={tmp_path}/mcp.json")
    with connected(tmp_path / "ws", mode, *flags, message_handler=hear) as client:
        names = {tool.name.removeprefix("other_"): tool.name for tool in tools(client)}
        assert {"run", "echo", "structured", "image", "progress", "fail", "grow"} <= set(names)
        assert text_of(client.call(names["echo"], text="hello there")) == "hello there"
        assert client.call(names["structured"]).structured_content == {"sum": 5}
        assert isinstance(client.call(names["image"]).content[0], ImageContent)
        assert client.call(names["fail"]).is_error
        heard = Heard()
        client.begin(names["progress"], heard).result(LIMIT)
        assert heard.text == "step 1\nstep 2\nstep 3\n"
        if mode == "legacy":
            client.call(names["grow"], name="sprout")
            assert changed.wait(LIMIT)
        else:
            client.do(_grow_and_hear, client, names["grow"])
        assert [tool.name for tool in tools(client) if tool.name.endswith("sprout")]


def tools(client: Connected) -> Any:
    return client.do(client.client.list_tools).tools


async def _grow_and_hear(client: Connected, grow: str) -> None:
    async with client.client.listen(tools_list_changed=True) as events:
        await client.client.call_tool(grow, {"name": "sprout"})
        async for _ in events:
            return
