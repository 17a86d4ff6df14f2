from __future__ import annotations

from typing import Any

import pytest

from glovebox.errors import WrongToolArguments
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.tools.actions import ALIASES, ENTRIES, alias_action, aliases_of, is_restart
from glovebox.protocol.tools.base import ToolCall

CALLS: list[tuple[str, dict[str, Any], Action[Any]]] = [
    ("bash", {"command": "ls"}, CmdRunAction(command="ls")),
    ("bash", {"command": "ls", "restart": False}, CmdRunAction(command="ls")),
    ("execute_bash", {"command": "ls", "is_input": "false"}, CmdRunAction(command="ls")),
    ("execute_bash", {"command": "ls", "security_risk": "LOW"}, CmdRunAction(command="ls")),
    ("execute_bash", {"command": "y", "is_input": "true"}, CmdRunAction(command="y", is_input=True)),
    (
        "execute_bash",
        {"command": "make", "timeout": "90"},
        CmdRunAction(command="make", timeout=90, blocking=True),
    ),
    ("execute_ipython_cell", {"code": "1", "security_risk": "HIGH"}, IPythonRunCellAction(code="1")),
    ("browser", {"code": "noop()"}, BrowseInteractiveAction(browser_actions="noop()")),
    ("web_read", {"url": "http://a"}, BrowseURLAction(url="http://a")),
    ("view", {"path": "/a"}, FileEditAction(command="view", path="/a")),
    (
        "view",
        {"path": "/a", "view_range": [3, 4]},
        FileReadAction(path="/a", view_range=[3, 4], impl_source="oh_aci"),
    ),
    (
        "str_replace_editor",
        {"command": "create", "path": "/a", "file_text": "x", "security_risk": "LOW"},
        FileEditAction(command="create", path="/a", file_text="x"),
    ),
    (
        "str_replace_editor",
        {"command": "view", "path": "/a", "view_range": [3, 4], "security_risk": "LOW"},
        FileReadAction(path="/a", view_range=[3, 4], impl_source="oh_aci"),
    ),
    (
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "/a", "insert_line": 2, "insert_text": "x\n"},
        FileEditAction(command="insert", path="/a", insert_line=2, new_str="x\n"),
    ),
    (
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "/a", "insert_line": "2", "new_str": "y"},
        FileEditAction(command="insert", path="/a", insert_line=2, new_str="y"),
    ),
    (
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "/a", "old_str": "x", "new_str": "y", "insert_text": ""},
        FileEditAction(command="str_replace", path="/a", old_str="x", new_str="y"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "action"), CALLS)
def test_a_tool_of_another_maker_becomes_an_action(
    name: str, arguments: dict[str, Any], action: Action[Any]
) -> None:
    assert alias_action(name, arguments) == action


def test_every_alias_is_tried_and_none_has_the_name_of_a_tool() -> None:
    assert {name for name, _, _ in CALLS} == set(ALIASES)
    assert not set(ALIASES) & set(ENTRIES)


def test_aliases_are_there_for_what_the_box_can_do() -> None:
    assert set(aliases_of([CmdRunAction])) == {"bash", "execute_bash"}
    assert "browser" in aliases_of([BrowseInteractiveAction])


@pytest.mark.parametrize(
    ("arguments", "restart"),
    [
        ({"restart": True}, True),
        ({"restart": "true"}, True),
        ({"command": "x"}, False),
        ({"restart": None}, False),
    ],
)
def test_a_restart_is_recognized(arguments: dict[str, Any], restart: bool) -> None:
    assert is_restart(ToolCall(name="bash", arguments=arguments)) is restart
    assert not is_restart(ToolCall(name="run", arguments=arguments))


def test_bash_without_a_command_says_what_it_needs() -> None:
    with pytest.raises(WrongToolArguments, match="bash needs 'command', or 'restart'"):
        alias_action("bash", {})
