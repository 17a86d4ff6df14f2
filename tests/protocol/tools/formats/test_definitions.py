from __future__ import annotations

import re
from typing import Any

import pytest

from glovebox.errors import RequestError
from glovebox.protocol.tools.base import Tool
from glovebox.protocol.tools.formats.base import object_schema
from glovebox.protocol.tools.formats.definitions import COMMON, GEMINI, definitions, meant, offered

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "What to run."}},
    "required": ["command"],
    "additionalProperties": False,
}
RUN = Tool(name="run", title="Run a command", description="Runs.", input_schema=SCHEMA)
EDIT = Tool(name="edit", description="Edits.", input_schema=SCHEMA, destructive=True)
NOW = Tool(name="now", description="The time.", input_schema={"type": "object"}, read_only=True,
           destructive=False, idempotent=True, open_world=True)  # fmt: skip
NO_ARGUMENTS = {"type": "object", "properties": {}}


def named(*names: str) -> list[Tool]:
    return [Tool(name=name, description="", input_schema={}) for name in names]


def test_openai_is_told_of_functions() -> None:
    function = {"name": "run", "description": "Runs.", "parameters": SCHEMA}
    assert definitions([RUN], "openai") == [{"type": "function", "function": function}]
    flat = {"type": "function", **function, "strict": False}
    assert definitions([RUN], "openai", api="responses") == [flat]
    assert definitions([NOW], "openai")[0]["function"]["parameters"] == NO_ARGUMENTS


def test_anthropic_is_told_of_tools_or_offered_its_own() -> None:
    told = definitions([RUN, EDIT, NOW], "anthropic")
    assert told[0] == {"name": "run", "description": "Runs.", "input_schema": SCHEMA}
    assert definitions([RUN, EDIT, NOW], "anthropic", builtin=True) == [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        told[2],
    ]


def test_gemini_is_told_of_declarations_in_its_dialect() -> None:
    parameters = {key: value for key, value in SCHEMA.items() if key != "additionalProperties"}
    assert definitions([RUN, NOW], "gemini") == [
        {
            "functionDeclarations": [
                {"name": "run", "description": "Runs.", "parameters": parameters},
                {"name": "now", "description": "The time."},
            ]
        }
    ]
    assert definitions([], "gemini") == []


def test_mcp_is_told_of_tools_with_annotations() -> None:
    run, now = definitions([RUN, NOW], "mcp")["tools"]
    assert run == {
        "name": "run",
        "title": "Run a command",
        "description": "Runs.",
        "inputSchema": SCHEMA,
        "annotations": {
            "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False,
        },
    }  # fmt: skip
    assert "title" not in now
    assert now["annotations"] == {
        "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": True,
    }  # fmt: skip


def test_some_can_be_chosen_and_unknown_ones_are_refused() -> None:
    assert [one["name"] for one in definitions([RUN, EDIT, NOW], "anthropic", names=["now", "run"])] == [
        "run", "now",
    ]  # fmt: skip
    with pytest.raises(RequestError, match=r"no tool named rnu\. There are: run, edit\."):
        definitions([RUN, EDIT], "openai", names=["rnu"])


ODD = named(
    "run", "weather.get", "weather/get", "weather_get", "web.read", "3d", "-x", "ünïcode", "", "a" * 65,
    "a" * 64 + "b", "Ok-name_1", "a b",
)  # fmt: skip


@pytest.mark.parametrize("rule", [COMMON, GEMINI])
def test_every_tool_gets_a_name_that_the_provider_takes_and_is_understood_by_it(
    rule: re.Pattern[str],
) -> None:
    told = offered(ODD, rule)
    names = [name for name, _ in told]
    assert len(set(names)) == len(ODD)
    for name, tool in told:
        assert rule.fullmatch(name), name
        assert name == tool.name if rule.fullmatch(tool.name) else meant(name, ODD) == tool.name


def test_names_stay_readable_and_never_take_those_of_others() -> None:
    names = [name for name, _ in offered(ODD, COMMON)]
    assert names[1].startswith("weather_get_")  # since another tool is called just so
    assert names[4].startswith("web_read_")  # which models know as another tool
    assert names[12] == "a_b"
    assert [name for name, _ in offered(ODD, None)] == [tool.name for tool in ODD]
    assert meant("weather_get_12345678", ODD) is None
    assert meant("run", ODD) is None


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({}, NO_ARGUMENTS),
        (None, NO_ARGUMENTS),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMA}, SCHEMA),
        (
            {"anyOf": [
                {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
                {"properties": {"a": {}, "c": {}}, "required": ["a"]},
            ]},
            {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "required": ["a"]},
        ),
        (
            {"properties": {"x": {}}, "required": ["x", "gone"],
             "allOf": [{"properties": {"y": {}}, "required": ["y"]}]},
            {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x", "y"]},
        ),
    ],
)  # fmt: skip
def test_a_schema_is_plainly_an_objects_at_its_top(given: Any, plain: dict[str, Any]) -> None:
    assert object_schema(given) == plain


def test_a_reference_at_the_top_is_followed_also_in_circles() -> None:
    definitions_ = {"A": {"properties": {"x": {"type": "string"}}, "required": ["x"]}}
    told = object_schema({"$ref": "#/$defs/A", "$defs": definitions_})
    assert (told["properties"], told["required"]) == ({"x": {"type": "string"}}, ["x"])
    told = object_schema({"oneOf": [{"$ref": "#/$defs/A"}], "$defs": definitions_})
    assert told["required"] == ["x"]
    circle = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"anyOf": [{"$ref": "#/$defs/A"}] * 5}},
    }
    assert object_schema(circle)["properties"] == {}
