from __future__ import annotations

from typing import Any

import pytest

from glovebox.box.mcp.config import StdioServer, parse_servers
from glovebox.errors import RequestError


def test_arguments_and_environment_may_be_text() -> None:
    posted = {"name": " fetch ", "command": "uvx", "args": 'run "a b"', "env": "A=1, B=x=y"}
    assert parse_servers([posted]) == [
        StdioServer(name="fetch", command="uvx", args=["run", "a b"], env={"A": "1", "B": "x=y"})
    ]
    assert parse_servers([{"name": "a", "command": "b"}]) == [
        StdioServer(name="a", command="b", args=[], env={})
    ]


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("x", "must be an object"),
        ({"name": "a", "command": "b", "frob": 1}, "has no frob"),
        ({"command": "b"}, "Server name must be a string"),
        ({"name": " ", "command": "b"}, "Server name cannot be empty"),
        ({"name": "a b", "command": "b"}, "can only contain letters, numbers, hyphens, and underscores"),
        ({"name": "a", "command": ""}, "Command cannot be empty"),
        ({"name": "a", "command": "b c"}, "single executable without spaces"),
        ({"name": "a", "command": "b", "args": "'open"}, "Invalid argument format"),
        ({"name": "a", "command": "b", "args": [1]}, "list of strings"),
        ({"name": "a", "command": "b", "env": "A"}, "must be in KEY=VALUE format"),
        ({"name": "a", "command": "b", "env": "=1"}, "key cannot be empty"),
        ({"name": "a", "command": "b", "env": "1A=1"}, "Invalid environment variable name '1A'"),
        ({"name": "a", "command": "b", "env": {"A": 1}}, "object of strings"),
    ],
)
def test_a_server_that_breaks_a_rule_is_refused_with_the_rule(broken: Any, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_servers([broken])
    assert text in str(caught.value)
