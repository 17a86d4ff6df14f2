"""Calls are read from what agents write as BrowserGym reads them, and checked before they are carried out."""

from __future__ import annotations

import importlib
import inspect
import itertools
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.browser.calls import COORDINATE_NAMES, NAMES, BadCall, BrowserCall, bind, parse

EMPTY = "ValueError: Received an empty action."


def call(name: str, *args: object, **named: object) -> BrowserCall:
    return BrowserCall(name, args, named)


def wrong(text: str) -> str:
    """The error of a text that cannot be read, or of the first call in it that is wrong."""
    with pytest.raises(BadCall) as error:
        [bind(one) for one in parse(text, coordinates=True)]
    return str(error.value)


# Reading.


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("noop()", [call("noop")]),
        (
            'fill("13", "Ada")\nclick("14", button="right", modifiers=["Shift"])  # comment',
            [call("fill", "13", "Ada"), call("click", "14", button="right", modifiers=["Shift"])],
        ),
        ("noop() noop(5)noop( 6 , )", [call("noop"), call("noop", 5), call("noop", 6)]),
        ("noop\n(\n# nothing )\n5 # five\n,)", [call("noop", 5)]),
        ("# noop()\nclick('1') # noop()\n#noop()", [call("click", "1")]),
        ("I'm going to click('5'), then click(the button)", [call("click", "5")]),
        ("```python\npage.click('5')\n```", [call("click", "5")]),
        ("请click('5') 9noop()", [call("click", "5"), call("noop")]),
        ("click(focus('5'))", [call("focus", "5")]),
        ("focus('5' noop())", [call("noop")]),
        ("click(\"5' then noop()", [call("noop")]),
        ("scroll(-1.5, .5) scroll(+2, 3.)", [call("scroll", -1.5, 0.5), call("scroll", 2, 3.0)]),
        ("scroll(1e2, 2E-1)", [call("scroll", 100.0, 0.2)]),
        ("click('1' button='left')", [call("click", "1", button="left")]),
        ("click(bid = '1' , modifiers = ['Alt', ], )", [call("click", bid="1", modifiers=["Alt"])]),
        (
            "noop([1, (2, ()), {'a': None, 'b': [True]}])",
            [call("noop", [1, (2, ()), {"a": None, "b": [True]}])],
        ),
        ("noop(('in brackets'))", [call("noop", ("in brackets",))]),
    ],
)
def test_calls_are_found_in_text(text: str, calls: list[BrowserCall]) -> None:
    assert parse(text) == calls


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'it\'s'", "it's"),
        (r'"say \"hi\""', 'say "hi"'),
        ('"""one\n"two" ""\nthree"""', 'one\n"two" ""\nthree'),
        ("'''it's'''", "it's"),
        ('""', ""),
        ('""""""', ""),
        (r'"tab\tline\nnul\0\x41\u00e9\N{BULLET}\101"', "tab\tline\nnul\0A\u00e9\u2022A"),
        (r'"C:\dir\!"', r"C:\dir\!"),
        ('"joined \\\nline"', "joined line"),
        ('"""joined \\\nline"""', "joined line"),
        ('"a\tb # no comment"', "a\tb # no comment"),
        ('"日本 🎉"', "日本 🎉"),
        (r'"\ud83c\udf89"', "🎉"),
        (r'"\ud83c alone"', "\ufffd alone"),
        ('"""a\r\nb"""', "a\nb"),
    ],
)
def test_strings_are_those_of_python(literal: str, value: str) -> None:
    assert parse(f"send_msg_to_user({literal})") == [call("send_msg_to_user", value)]


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n", "click", "click(", "click(13", "click('13", "click('13\n')", "click(x)", "click(bid)"),
        *(
            "noop(1,,)",
            "noop(,)",
            "noop([1 2])",
            "noop({1: 2})",
            "noop({'a'})",
            "noop(wait_ms=)",
            "noop(a=1, 2)",
        ),
        *("noop(True1)", "noop(1_000)", "noop(0x10)", "noop(--1)", "noop(f'')", "noop('a' 'b')", "# noop()"),
        *(r"""noop("\xzz")""", "noop(\u00a05)", "noop(1 + 1)", "noop(*[1])", "noop(**{})", "noop]("),
    ],
)
def test_what_is_no_call_is_none(text: str) -> None:
    assert wrong(text) == EMPTY


def test_an_unknown_name_is_told_before_anything_is_carried_out() -> None:
    assert wrong("noop() foo('1') click()") == "NameError: Invalid action type 'foo'."


def test_places_on_the_screen_are_named_only_if_that_is_allowed() -> None:
    assert parse("mouse_click(1, 2)", coordinates=True) == [call("mouse_click", 1, 2)]
    with pytest.raises(BadCall, match=r"^NameError: Invalid action type 'mouse_click'\.$"):
        parse("mouse_click(1, 2)")
    assert not NAMES & COORDINATE_NAMES


def test_what_python_does_not_read_is_told_in_its_words() -> None:
    assert wrong(r'noop("\x4")').startswith("SyntaxError: (unicode error) ")
    assert wrong(r'noop("\N{no such character}")').startswith("SyntaxError: (unicode error) ")
    assert wrong("noop(a=1, a=2)") == "SyntaxError: keyword argument repeated: a"
    assert wrong(f"noop({'1' * 5000})").startswith("ValueError: Exceeds the limit (4300 digits)")


HOSTILE = {
    "brackets": "(" * 10**6,
    "brackets in a call": "noop(" + "[" * 10**6,
    "closed brackets in a call": "noop(" + "[" * 10**5 + "]" * 10**5 + ")",
    "a long list without an end": "noop(" + "[],{}," * 10**5,
    "calls in calls": "f(" * 10**5,
    "one quote": 'noop("' + "a" * 10**6,
    "many quotes": """f("f('f(\'\'\'f(\"\"\"""" * 10**4,
    "escapes": 'noop("' + "\\" * 10**6 + '"',
    "one name": "a" * 10**6,
    "many names": "a " * 10**5,
    "one comment": "#" * 10**6,
    "comments after names": "a #\n" * 10**5,
    "blanks after a name": ("a" + " " * 10**6) + "b",
    "a long number": "noop(1." + "1" * 10**6,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_are_read_in_time_that_grows_as_they_do(text: str) -> None:
    assert wrong(text) == EMPTY


@pytest.mark.timeout(60)
def test_a_text_that_would_be_read_again_and_again_is_given_up() -> None:
    # What is a string to one call is a call and a comment if the one before it was none.
    text = "noop(" + '"noop(#",\n' * 10**5
    assert wrong(text) == "ValueError: Received an action that is too long to make sense of."


def test_long_texts_are_no_hostile_ones() -> None:
    value = "long text, 'quoted' and (in brackets)\n" * 20_000
    assert parse(f"fill('1', {value!r})" * 3) == [call("fill", "1", value)] * 3
    assert len(parse("noop()\n" * 10_000)) == 10_000


# As BrowserGym reads.


def as_browsergym(text: str) -> list[BrowserCall] | str:
    """The calls that BrowserGym finds, or the kind of error it has."""
    parser: Any = importlib.import_module("browsergym.core.action.parsers").highlevel_action_parser
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes that stand for themselves
            matches = parser.search_string(text).as_list()
    except (SyntaxError, ValueError) as error:
        return type(error).__name__
    calls, repeated = [], False
    for name, arguments in itertools.chain.from_iterable(matches):
        named = [one for one in arguments if type(one).__name__ == "NamedArgument"]
        args = tuple(one for one in arguments if type(one).__name__ != "NamedArgument")
        calls.append(BrowserCall(name, args, {one.name: one.value for one in named}))
        repeated |= len(calls[-1].named) < len(named)
    if not calls:
        return "ValueError"
    # It looks at the names before it has Python look at the calls.
    return "NameError" if {one.name for one in calls} - NAMES else "SyntaxError" if repeated else calls


def as_here(text: str) -> list[BrowserCall] | str:
    try:
        return parse(text)
    except BadCall as error:
        return str(error).partition(":")[0]


BLANKS = st.sampled_from(["", "", "", " ", "\n", " # ) comment '\n", "\r\n  "])
STRINGS = st.text(st.characters(codec="utf-8", exclude_characters="\t\r\0"), max_size=8)


def quoted(text: str) -> st.SearchStrategy[str]:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    one_line = escaped.replace("\n", "\\n")
    return st.sampled_from([f'"{one_line}"', f"'{one_line}'", f'"""{escaped}"""', f"'''{escaped}'''"])


def separated(items: list[str], blank: str, comma: str) -> str:
    return f"{blank},{blank}".join(items) + (comma if items else "")


def collections(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    commas = st.sampled_from(["", ",", " ,"])
    items = st.builds(separated, st.lists(values, max_size=3), BLANKS, commas)
    pairs = st.builds("{}{}:{}".format, STRINGS.flatmap(quoted), BLANKS, values)
    mapped = st.builds(separated, st.lists(pairs, max_size=3), BLANKS, commas)
    return items.map("[{}]".format) | items.map("({})".format) | mapped.map("{{{}}}".format)


NUMBERS = st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
SIMPLE = (
    STRINGS.flatmap(quoted) | NUMBERS | st.sampled_from(["True", "False", "None", "+1", ".5", "2.", "1e3"])
)
VALUES = st.recursive(SIMPLE, collections, max_leaves=5)
NAMED = st.builds("{}{}={}{}".format, st.sampled_from(["bid", "a", "Nones", "é"]), BLANKS, BLANKS, VALUES)
ARGUMENTS = st.builds(
    lambda args, named, blank, comma: separated(args + named, blank, comma),
    st.lists(VALUES, max_size=3),
    st.lists(NAMED, max_size=2),
    BLANKS,
    st.sampled_from(["", ","]),
)
CALLED = st.sampled_from(["noop", "click", "go_back"])
CALLS = st.builds("{}{}({}{}{})".format, CALLED, BLANKS, BLANKS, ARGUMENTS, BLANKS)
JUNK = st.sampled_from(
    ["", "", " ", "\n", "; ", "I'd ", "x = ", "(", ")", "click", "# click('1')\n", "é", "点", "'"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(JUNK, CALLS, JUNK).map("".join), max_size=3).map("".join))
def test_calls_are_read_as_browsergym_reads_them(text: str) -> None:
    assert as_here(text) == as_browsergym(text)


TOKENS = st.sampled_from(
    [
        *(
            "noop",
            "click",
            "(",
            ")",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ",",
            ",",
            ":",
            "=",
            "#",
            "\n",
            " ",
            "é",
            "·",
            "$",
        ),
        *(
            '"',
            "'",
            '"',
            "'",
            '"""',
            "'''",
            r"\n",
            r"\'",
            r"\"",
            r"\x41",
            r"\x",
            r"\d",
            r"\u12",
            "1",
            "-",
            ".",
            "e5",
        ),
        *("True", "None", "noop()", "click('1')", "a=1", "noop(", "'1',", "5,", '"a"', "点"),
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(TOKENS, max_size=25).map("".join))
def test_nonsense_is_read_as_browsergym_reads_it(text: str) -> None:
    assert as_here(text) == as_browsergym(text)


# Binding.


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("noop()", {"wait_ms": 1000}),
        ("noop(60000)", {"wait_ms": 60000}),
        ("noop(wait_ms=0.5)", {"wait_ms": 0.5}),
        ("click('a1')", {"bid": "a1", "button": "left", "modifiers": []}),
        (
            "dblclick('1', 'middle', ('Alt', 'ControlOrMeta'))",
            {"bid": "1", "button": "middle", "modifiers": ["Alt", "ControlOrMeta"]},
        ),
        ("select_option('1', ('a', 'b'))", {"bid": "1", "options": ["a", "b"]}),
        ("upload_file('1', [])", {"bid": "1", "file": []}),
        ("tab_focus(-1)", {"index": -1}),
        ("go_back()", {}),
        ("mouse_up(1, 2.5)", {"x": 1, "y": 2.5, "button": "left"}),
        ("scroll(delta_y=-100, delta_x=0)", {"delta_x": 0, "delta_y": -100}),
    ],
)
def test_arguments_are_bound_to_parameters_with_their_defaults(
    text: str, arguments: dict[str, object]
) -> None:
    (one,) = parse(text, coordinates=True)
    assert bind(one) == arguments


def browsergym_function(name: str) -> Any:
    """The real function behind a call. With wrong arguments it does nothing but complain."""
    return getattr(importlib.import_module("browsergym.core.action.functions"), name)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "click()",
            "click(x='1')",
            "click('1', 'left', [], 5)",
            "click('1', bid='2')",
            "click(button='left')",
        ),
        *(
            "noop(1, 2)",
            "new_tab(1)",
            "new_tab(1, 2)",
            "new_tab(a=1)",
            "hover()",
            "hover('1', '2')",
            "fill()",
        ),
        *("fill('1')", "fill(value='1')", "fill(a=1, b=2)", "mouse_upload_file()", "mouse_drag_and_drop()"),
        *("mouse_drag_and_drop(1)", "mouse_drag_and_drop(1, 2, 3, 4, 5, to_y=1)", "hover('1', 'x', y=5)"),
    ],
)
def test_wrong_arguments_are_told_in_the_words_of_python(text: str) -> None:
    (one,) = parse(text, coordinates=True)
    with pytest.raises(TypeError) as expected:
        browsergym_function(one.name)(*one.args, **one.named)
    assert wrong(text) == f"TypeError: {expected.value}"


@pytest.mark.parametrize("name", sorted(NAMES | COORDINATE_NAMES))
def test_every_call_has_the_parameters_that_it_has_in_browsergym(name: str) -> None:
    function = browsergym_function(name)
    with pytest.raises(TypeError) as too_many:
        function(*range(9))
    assert wrong(f"{name}(0, 1, 2, 3, 4, 5, 6, 7, 8)") == f"TypeError: {too_many.value}"
    parameters = inspect.signature(function).parameters.values()
    if any(one.default is one.empty for one in parameters):
        with pytest.raises(TypeError) as too_few:
            function()
        assert wrong(f"{name}()") == f"TypeError: {too_few.value}"
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    fitting = {"bid": "1", "x": 0, "y": 0}
    given = {one.name: fitting.get(one.name, "1") for one in parameters if one.default is one.empty}
    if defaults:
        assert bind(call(name, **given)) == given | defaults


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("click(13)", "ValueError: expected a string, got 13"),
        ("click(['13'])", "ValueError: expected a string, got ['13']"),
        ("drag_and_drop('1', None)", "ValueError: expected a string, got None"),
        ("fill('1', 5)", "TypeError: fill() argument 'value' must be a string, got 5"),
        ("goto(None)", "TypeError: goto() argument 'url' must be a string, got None"),
        (
            "send_msg_to_user(True)",
            "TypeError: send_msg_to_user() argument 'text' must be a string, got True",
        ),
        (
            "select_option('1', [2])",
            "TypeError: select_option() argument 'options' must be a string or a list of strings, got [2]",
        ),
        (
            "upload_file('1', {})",
            "TypeError: upload_file() argument 'file' must be a string or a list of strings, got {}",
        ),
        (
            "click('1', 'up')",
            "ValueError: click() argument 'button' must be one of left, middle, right, got 'up'",
        ),
        (
            "click('1', modifiers='Shift')",
            "ValueError: click() argument 'modifiers' must be a list of some of "
            "Alt, Control, ControlOrMeta, Meta, Shift, got 'Shift'",
        ),
        ("scroll('1', 2)", "TypeError: scroll() argument 'delta_x' must be a number, got '1'"),
        ("scroll(1, True)", "TypeError: scroll() argument 'delta_y' must be a number, got True"),
        ("scroll(0, 1e999)", "ValueError: scroll() argument 'delta_y' must be at most 1000000000, got inf"),
        ("tab_focus(1.0)", "TypeError: tab_focus() argument 'index' must be an integer, got 1.0"),
        ("tab_focus(True)", "TypeError: tab_focus() argument 'index' must be an integer, got True"),
        (
            "noop(60000.5)",
            "ValueError: noop() argument 'wait_ms' must be from 0 to 60000 (60 seconds), got 60000.5",
        ),
        ("noop(-1)", "ValueError: noop() argument 'wait_ms' must be from 0 to 60000 (60 seconds), got -1"),
        ("noop('1')", "TypeError: noop() argument 'wait_ms' must be a number, got '1'"),
        ("noop(None)", "TypeError: noop() argument 'wait_ms' must be a number, got None"),
    ],
)
def test_arguments_of_a_wrong_kind_are_told(text: str, error: str) -> None:
    assert wrong(text) == error


def test_numbers_that_are_none_or_too_large_are_refused() -> None:
    for value in (float("nan"), float("inf"), float("-inf"), 10**4000, -(10**4000)):
        with pytest.raises(BadCall, match=r"^ValueError: "):
            bind(call("noop", value))
        with pytest.raises(BadCall, match=r"^ValueError: "):
            bind(call("mouse_move", 0, value))


def test_an_error_does_not_repeat_all_of_a_long_argument() -> None:
    error = wrong(f"click({['x' * 10_000]!r})")
    assert error.startswith("ValueError: expected a string, got ['xxx")
    assert len(error) < 300
