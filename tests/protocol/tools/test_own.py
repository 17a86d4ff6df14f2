from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from glovebox.box.browser.calls import NAMES
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.files import GrepAction, MkdirAction, StatAction
from glovebox.protocol.terminal import CommandInputAction
from glovebox.protocol.tools.actions import ENTRIES, own_action, own_tools, tool
from glovebox.protocol.tools.catalogue import ToolEntry

#: Arguments of a tool that are those of another action.
BORROWED: dict[str, dict[str, type[Action[Any]]]] = {
    "edit": {"view_range": FileReadAction},
    "run": {"keys": CommandInputAction},
}


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_told_of_a_tool_and_the_fields_of_its_action_agree(name: str) -> None:
    entry = ENTRIES[name]
    borrowed = BORROWED.get(name, {})
    fields = _fields(entry.action)
    assert not entry.withheld & set(entry.arguments)
    assert set(entry.arguments) - set(borrowed) | entry.withheld == fields
    for argument, action in borrowed.items():
        assert argument in _fields(action)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_what_stands_in_for_a_schema_fits_the_field(entry: ToolEntry) -> None:
    for field in msgspec.structs.fields(entry.action):
        argument = entry.arguments.get(field.name)
        if argument is None or argument.schema is None or field.type is Any:
            continue
        kind = {"string": "x", "integer": 1, "number": 1.5}[argument.schema["type"]]
        assert msgspec.convert(kind, field.type) == kind


@pytest.mark.parametrize("name", ENTRIES)
def test_a_schema_is_flat_valid_and_explains_every_argument(name: str) -> None:
    schema = tool(name).input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    for argument in schema["properties"].values():
        assert argument["type"] in ("string", "boolean", "integer", "number", "array")
        assert len(argument["description"]) > 5
        assert not {"$ref", "anyOf", "oneOf", "$defs"} & set(argument)
        if "default" in argument:
            jsonschema.validate(argument["default"], argument)


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("run", ["command"]),
        ("read", ["path"]),
        ("write", ["path", "content"]),
        ("edit", ["command", "path"]),
        ("move", ["source", "destination"]),
        ("browse_interactive", ["browser_actions"]),
    ],
)
def test_what_a_tool_cannot_do_without_is_required(name: str, required: list[str]) -> None:
    assert tool(name).input_schema["required"] == required


def test_defaults_are_those_of_the_actions() -> None:
    properties = tool("grep").input_schema["properties"]
    assert properties["limit"]["default"] == GrepAction(pattern="x").limit
    assert properties["respect_gitignore"]["default"] is True
    assert "default" not in properties["before"]


def test_every_tool_says_what_it_may_do() -> None:
    told = {name: tool(name) for name in ENTRIES}
    assert {name for name in told if told[name].read_only} == {"read", "glob", "grep", "stat"}
    assert not any(one.read_only and one.destructive for one in told.values())
    harmless = {name for name in told if not told[name].destructive}
    assert harmless == {"read", "glob", "grep", "stat", "mkdir", "browse"}
    reaching = {name for name in told if told[name].open_world}
    assert reaching == {"run", "run_ipython", "browse", "browse_interactive"}
    assert all(one.title and len(one.description) > 60 for one in told.values())


def test_the_calls_of_the_browser_are_all_told() -> None:
    description = tool("browse_interactive").description
    useless = {"send_msg_to_user", "report_infeasible"}
    assert not [name for name in NAMES - useless if f"{name}(" not in description]


def test_only_actions_that_are_carried_out_are_offered() -> None:
    offered = own_tools([CmdRunAction, BrowseInteractiveAction])
    assert [one.name for one in offered] == ["run", "browse_interactive"]


CALLS: list[tuple[str, dict[str, Any], Action[Any]]] = [
    ("run", {"command": "ls"}, CmdRunAction(command="ls")),
    ("run", {"command": "make", "timeout": 60}, CmdRunAction(command="make", timeout=60, blocking=True)),
    ("run", {"command": "y", "is_input": True}, CmdRunAction(command="y", is_input=True)),
    ("run", {"command": "C-c"}, CmdRunAction(command="C-c", is_input=True)),
    ("run", {"command": "ls", "session": "b"}, CmdRunAction(command="ls", session="b")),
    ("run_ipython", {"code": "1", "kernel": "k"}, IPythonRunCellAction(code="1", kernel="k")),
    ("read", {"path": "a"}, FileReadAction(path="a", impl_source="shown")),
    (
        "read",
        {"path": "/a", "view_range": [2, -1]},
        FileReadAction(path="/a", impl_source="oh_aci", view_range=[2, -1]),
    ),
    ("write", {"path": "a", "content": "x\n"}, FileWriteAction(path="a", content="x")),
    ("write", {"path": "a", "content": "x"}, FileWriteAction(path="a", content="x")),
    ("write", {"path": "a", "content": "x\n\n"}, FileWriteAction(path="a", content="x\n")),
    ("edit", {"command": "view", "path": "/a"}, FileEditAction(command="view", path="/a")),
    (
        "edit",
        {"command": "view", "path": "/a", "view_range": [1, 2]},
        FileReadAction(path="/a", impl_source="oh_aci", view_range=[1, 2]),
    ),
    ("edit", {"command": "view", "path": "/a.PNG"}, FileReadAction(path="/a.PNG", impl_source="shown")),
    (
        "edit",
        {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "x", "view_range": [1, 2]},
        FileEditAction(command="insert", path="/a", insert_line=0, new_str="x"),
    ),
    ("stat", {"path": "a", "follow_symlinks": False}, StatAction(path="a", follow_symlinks=False)),
    ("grep", {"pattern": "x", "timeout": 2}, GrepAction(pattern="x", timeout=2)),
    ("browse_interactive", {"browser_actions": "noop()"}, BrowseInteractiveAction(browser_actions="noop()")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "action"), CALLS)
def test_a_call_becomes_the_action_it_asks_for(
    name: str, arguments: dict[str, Any], action: Action[Any]
) -> None:
    assert own_action(name, arguments) == action


KIND_READINGS: list[tuple[str, dict[str, Any], Action[Any]]] = [
    ("run", {"command": "ls", "is_input": "false"}, CmdRunAction(command="ls")),
    ("run", {"command": "ls", "is_input": "True"}, CmdRunAction(command="ls", is_input=True)),
    ("run", {"command": "ls", "is_input": 0, "budget": "4000"}, CmdRunAction(command="ls", budget=4000)),
    ("run", {"command": "ls", "timeout": "2.5"}, CmdRunAction(command="ls", timeout=2.5, blocking=True)),
    ("run", {"command": "ls", "timeout": None, "cwd": None}, CmdRunAction(command="ls")),
    ("grep", {"pattern": "x", "limit": 5.0, "include": None}, GrepAction(pattern="x", limit=5)),
    ("mkdir", {"path": "a", "parents": "no"}, MkdirAction(path="a", parents=False)),
    (
        "read",
        {"path": "/a", "view_range": "[1, 5]"},
        FileReadAction(path="/a", impl_source="oh_aci", view_range=[1, 5]),
    ),
    (
        "read",
        {"path": "/a", "view_range": ["1", 5.0]},
        FileReadAction(path="/a", impl_source="oh_aci", view_range=[1, 5]),
    ),
]


@pytest.mark.parametrize(("name", "arguments", "action"), KIND_READINGS)
def test_what_models_often_write_is_read_as_it_is_meant(
    name: str, arguments: dict[str, Any], action: Action[Any]
) -> None:
    assert own_action(name, arguments) == action


def _fields(action: type[Action[Any]]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(action)}
