"""Any JSON schema becomes one of Gemini's dialect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glovebox.protocol.tools.formats.gemini import gemini_schema

TYPES = {"string", "number", "integer", "boolean", "array", "object"}
KEYWORDS = {
    "type", "description", "nullable", "format", "enum", "items", "properties", "required", "minItems",
    "maxItems", "minimum", "maximum",
}  # fmt: skip
ANYTHING = {"anyOf": [{"type": one} for one in ("string", "number", "boolean", "object")]}


def check(schema: Any) -> None:
    """Fail unless it keeps the rules of the dialect."""
    if "anyOf" in schema:
        assert set(schema) == {"anyOf"}, schema
        assert len(schema["anyOf"]) > 1
        for one in schema["anyOf"]:
            assert "anyOf" not in one
            check(one)
        return
    assert set(schema) <= KEYWORDS, schema
    assert schema["type"] in TYPES
    if "enum" in schema:
        assert schema["type"] == "string"
        assert schema["enum"]
        assert all(isinstance(one, str) and one for one in schema["enum"])
    if schema["type"] == "array":
        check(schema["items"])
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
    for one in schema.get("properties", {}).values():
        check(one)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string", "title": "Name"}, {"type": "string", "description": "Name"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "description": "Lines."},
         {"type": "integer", "description": "Lines.", "nullable": True}),
        ({"type": ["integer", "string"], "description": "Id."},
         {"anyOf": [{"type": "string", "description": "Id."}, {"type": "integer", "description": "Id."}]}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", "", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "One of: 1,2."}),
        ({"type": "integer", "default": 5, "description": "How many."},
         {"type": "integer", "description": "How many. Default: 5."}),
        ({"type": "string", "format": "uri", "pattern": "^a", "minLength": 1}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2},
         {"type": "integer", "minimum": 1}),
        ({"type": "array"}, {"type": "array", "items": ANYTHING}),
        ({"items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
         {"type": "array", "minItems": 1, "items": {"type": "string"}}),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}]},
         {"type": "array", "items": {"type": "string"}}),
        ({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
         {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
        ({"properties": {"a": {"type": "string"}}, "required": ["a", "b"], "additionalProperties": False},
         {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        ({"oneOf": [{"type": "string"}, {"oneOf": [{"type": "integer"}, {"type": "boolean"}]}]},
         {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]}),
        ({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}]},
         {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}},
          "required": ["a", "b"]}),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]},
         {"type": "object", "properties": {"a": {"type": "string"}}}),
        ({"type": "null"}, {"type": "string", "nullable": True}),
        ({}, ANYTHING),
        (True, ANYTHING),
        ({"$ref": "elsewhere.json"}, {"type": "object"}),
    ],
)  # fmt: skip
def test_what_the_dialect_cannot_say_is_said_otherwise(schema: Any, told: dict[str, Any]) -> None:
    assert gemini_schema(schema) == told
    check(told)


def test_references_are_put_in_place() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"$ref": "#/$defs/Point", "description": "Where."},
            "maybe": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
            "old": {"$ref": "#/definitions/a~1b"},
        },
        "$defs": {
            "Point": {"type": "object", "properties": {"x": {"$ref": "#/$defs/N"}}},
            "N": {"type": "number"},
        },
        "definitions": {"a/b": {"type": "boolean"}},
    }
    point = {"type": "object", "properties": {"x": {"type": "number"}}}
    assert gemini_schema(schema)["properties"] == {
        "at": {**point, "description": "Where."},
        "maybe": {**point, "nullable": True},
        "old": {"type": "boolean"},
    }


def test_a_schema_that_holds_itself_ends_somewhere() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "name": {"type": "string"}}}
    told = gemini_schema(tree)
    check(told)
    assert told["properties"]["left"]["properties"]["left"] == {"type": "object"}
    check(gemini_schema({"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}]}}}))


def size(schema: dict[str, Any]) -> int:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    return 1 + sum(map(size, [*inner, schema["items"]] if "items" in schema else inner))


def test_definitions_that_multiply_each_other_do_not_grow_without_end() -> None:
    several = {
        f"L{level}": {
            "type": "object",
            "properties": {f"p{n}": {"$ref": f"#/$defs/L{level + 1}"} for n in range(9)},
        }
        for level in range(30)
    }
    told = gemini_schema({"$ref": "#/$defs/L0", "$defs": several})
    check(told)
    assert size(told) < 30_000


def test_deep_schemas_are_cut_off() -> None:
    for keyword in ("items", "allOf", "anyOf"):
        schema: Any = {"type": "string"}
        for _ in range(5000):
            schema = {"items": schema} if keyword == "items" else {keyword: [schema]}
        check(gemini_schema(schema))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "null", "#", "#/$defs/a", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "enum", "const",
                 "required", "default", "nullable", "a", "description", "format", "prefixItems", "minimum"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(json_values)
def test_anything_becomes_a_schema_of_the_dialect(schema: Any) -> None:
    check(gemini_schema(schema))
