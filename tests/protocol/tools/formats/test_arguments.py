from __future__ import annotations

import json
from typing import Any

import pytest

from glovebox.protocol.tools.formats.base import DEEPEST, make_call


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"command": "ls"}', {"command": "ls"}),
        ({"command": "ls"}, {"command": "ls"}),
        ("", {}),
        (" \n", {}),
        (None, {}),
        ("null", {}),
        (' {"a": [1, 2.5, true, null]} ', {"a": [1, 2.5, True, None]}),
        ('{"code": "a = 1\nb = 2\t"}', {"code": "a = 1\nb = 2\t"}),
        (json.dumps(json.dumps({"command": 'echo "x"'})), {"command": 'echo "x"'}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    ],
)
def test_arguments_are_an_object_or_text_that_is_one(given: Any, read: dict[str, Any]) -> None:
    call = make_call("run", given, "c1")
    assert (call.problem, call.arguments, call.id) == ("", read, "c1")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('{"command": "ls', "are cut off: they end in '{\"command\": \"ls'"),
        ('{"command": "ls"', "are cut off"),
        ('{"command":', "are cut off"),
        ("{'command': 'ls'}", "Names and text are in double quotes"),
        ('{"command": "ls"} and then', "followed by something else at line 1 column 19: 'and then'"),
        ('{"command": "ls"}{"command": "pwd"}', "followed by something else"),
        ('{"timeout": NaN}', "NaN is no JSON number"),
        ('{"timeout": -Infinity}', "-Infinity is no JSON number"),
        ("ls -la", "not JSON: Expecting value at line 1 column 1, near 'ls -la'"),
        ('{"command": "ls",}', "are not JSON"),
        ("[1]", "are a list. Send one JSON object."),
        ([], "are a list"),
        ("5", "are a number"),
        (True, "are a boolean"),
        (json.dumps(json.dumps(json.dumps({}))), "are text"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested more than 64 levels deep"),
        ('{"a":' * 100_000, "nested more than 64 levels deep"),
        (f'{{"a": {"[" * 200}{"]" * 200}}}', "nested more than 64 levels deep"),
        (f'{{"a": 1{"0" * 5000}}}', "are not JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_arguments_is_told_by_the_call(given: Any, words: str) -> None:
    call = make_call("run", given, "c1")
    assert call.problem.startswith("The arguments of run ")
    assert words in call.problem
    assert len(call.problem) < 400
    assert (call.name, call.arguments, call.id) == ("run", {}, "c1")


@pytest.mark.parametrize("name", [None, "", 5, {}, ["run"]])
def test_a_call_without_a_name_says_so(name: Any) -> None:
    call = make_call(name, {"command": "ls"}, None)
    assert "name" in call.problem
    assert (call.name, call.id) == ("", "")


def test_arguments_may_be_nested_as_deep_as_any_tool_needs() -> None:
    value: Any = {}
    for _ in range(DEEPEST - 1):
        value = {"a": value}
    assert make_call("run", value).problem == ""
    assert "nested" in make_call("run", {"a": value}).problem
