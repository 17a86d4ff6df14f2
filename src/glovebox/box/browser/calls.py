"""Calls of agents such as `fill("13", "Ada")`, parsed from text and checked. No I/O.

The text is read as loosely as BrowserGym reads it: anything between calls is skipped, and so are comments;
calls may share a line. Their arguments are literals; nothing is ever evaluated as code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeGuard

#: The longest that `noop` waits, in milliseconds.
LONGEST_WAIT = 60_000
#: Distances and places beyond this are on no screen.
_FARTHEST = 1_000_000_000
_BUTTONS = ("left", "middle", "right")
_MODIFIERS = ("Alt", "Control", "ControlOrMeta", "Meta", "Shift")


class BrowserCall(NamedTuple):
    """One call, as the agent wrote it."""

    name: str
    args: tuple[object, ...]
    named: dict[str, object]


class BadCall(Exception):
    """A call that cannot be carried out. Its text is the whole error as the wire has it, `Type: message`."""


# Signatures. Real functions, so that errors about wrong arguments are those of Python.

_Signature = Callable[..., dict[str, object]]

_ON_ELEMENTS: dict[str, _Signature] = {
    "noop": lambda wait_ms=1000: locals(),
    "send_msg_to_user": lambda text: locals(),
    "report_infeasible": lambda reason: locals(),
    "scroll": lambda delta_x, delta_y: locals(),
    "fill": lambda bid, value: locals(),
    "select_option": lambda bid, options: locals(),
    "click": lambda bid, button="left", modifiers=(): locals(),
    "dblclick": lambda bid, button="left", modifiers=(): locals(),
    "hover": lambda bid: locals(),
    "press": lambda bid, key_comb: locals(),
    "focus": lambda bid: locals(),
    "clear": lambda bid: locals(),
    "drag_and_drop": lambda from_bid, to_bid: locals(),
    "upload_file": lambda bid, file: locals(),
    "go_back": lambda: locals(),
    "go_forward": lambda: locals(),
    "goto": lambda url: locals(),
    "tab_close": lambda: locals(),
    "tab_focus": lambda index: locals(),
    "new_tab": lambda: locals(),
}
_ON_COORDINATES: dict[str, _Signature] = {
    "mouse_move": lambda x, y: locals(),
    "mouse_up": lambda x, y, button="left": locals(),
    "mouse_down": lambda x, y, button="left": locals(),
    "mouse_click": lambda x, y, button="left": locals(),
    "mouse_dblclick": lambda x, y, button="left": locals(),
    "mouse_drag_and_drop": lambda from_x, from_y, to_x, to_y: locals(),
    "mouse_upload_file": lambda x, y, file: locals(),
    "keyboard_down": lambda key: locals(),
    "keyboard_up": lambda key: locals(),
    "keyboard_press": lambda key: locals(),
    "keyboard_type": lambda text: locals(),
    "keyboard_insert_text": lambda text: locals(),
}
_SIGNATURES = _ON_ELEMENTS | _ON_COORDINATES
for _name, _signature in _SIGNATURES.items():
    _signature.__qualname__ = _name

#: The calls of all agents, and those of agents that may name places on the screen.
NAMES = frozenset(_ON_ELEMENTS)
COORDINATE_NAMES = frozenset(_ON_COORDINATES)


def parse(text: str, *, coordinates: bool = False) -> list[BrowserCall]:
    """The calls in a text, in order; at least one.

    Raises:
        BadCall: there is none, or one that is unknown or no Python.
    """
    found = _Scanner(text).calls()
    if not found:
        raise BadCall("ValueError: Received an empty action.")
    known = NAMES | COORDINATE_NAMES if coordinates else NAMES
    for name, _, _ in found:
        if name not in known:
            raise BadCall(f"NameError: Invalid action type '{name}'.")
    return [BrowserCall(name, tuple(args), _without_repeats(named)) for name, args, named in found]


def bind(call: BrowserCall) -> dict[str, object]:
    """The arguments of a call by the names of their parameters, checked, with the defaults filled in.

    Raises:
        BadCall: there are too few or too many, or some are not what they must be.
    """
    try:
        given = _SIGNATURES[call.name](*call.args, **call.named)
    except TypeError as error:
        raise BadCall(f"TypeError: {error}") from error
    return {name: _CHECKS[name](f"{call.name}() argument '{name}'", value) for name, value in given.items()}


def _without_repeats(named: list[tuple[str, object]]) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for name, value in named:
        if name in arguments:
            raise BadCall(f"SyntaxError: keyword argument repeated: {name}")
        arguments[name] = value
    return arguments


# Reading.

# Nothing here can be matched in two ways, so nothing is tried twice. (Groups are not repeated possessively:
# Python did that wrong before 3.11.5.)
_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)+")
#: The letters of names are those of Latin-1: a call may stand right behind a word of another script.
_LETTERS = "A-Za-z_ªµºÀ-ÖØ-öø-ÿ"
_NAME = re.compile(f"[{_LETTERS}][{_LETTERS}0-9·]*+")
_NAME_OR_COMMENT = re.compile(f"#[^\n]*+|{_NAME.pattern}")
_STRING = re.compile(
    r'"""(?:[^"\\]++|"(?!"")|\\.)*"""|'
    r"'''(?:[^'\\]++|'(?!'')|\\.)*'''|"
    r'"(?:[^"\n\r\\]++|\\(?:[^x]|x[0-9a-fA-F]++))*"|'
    r"'(?:[^'\n\r\\]++|\\(?:[^x]|x[0-9a-fA-F]++))*'",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = frozenset("\n\r\\'\"abfnrtvxuUN01234567")
_VALUE = re.compile(
    rf"(?P<string>{_STRING.pattern})"
    r"|(?P<number>[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)"
    r"|(?P<constant>(?:True|False|None)(?![A-Za-z0-9_$]))"
    r"|[\[({]",
    re.DOTALL,
)
_CONSTANTS: dict[str, object] = {"True": True, "False": False, "None": None}
#: Lists and the like inside of each other; deeper than this is no call that is known.
_DEEPEST = 40
#: There is no value here.
_NOTHING = object()


class _NoCall(Exception):
    """Something that looked like a call is not one."""


class _Found(NamedTuple):
    name: str
    args: list[object]
    named: list[tuple[str, object]]


class _Scanner:
    """Finds calls. Every name may begin one, also inside of what looked like a call and was none."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # When something turns out to be no call, scanning starts again behind its name. Normal text makes
        # this happen rarely; text made for it must not take for ever.
        self._patience = 2 * len(text) + 10_000

    def calls(self) -> list[_Found]:
        """All calls of the text."""
        found: list[_Found] = []
        while (name := _NAME_OR_COMMENT.search(self._text, self._at)) is not None:
            self._at = name.end()
            if name[0].startswith("#"):
                continue
            try:
                found.append(self._call(name[0]))
            except _NoCall:
                self._at = name.end()
        return found

    def _call(self, name: str) -> _Found:
        self._expect("(")
        args = self._elements(_DEEPEST)
        named: list[tuple[str, object]] = []
        # Like BrowserGym, this does not need a comma before the first.
        more = True
        while more and (parameter := self._take(_NAME)):
            self._expect("=")
            if (value := self._element(_DEEPEST)) is _NOTHING:
                raise _NoCall
            named.append((parameter, value))
            more = self._skip(",")
        self._expect(")")
        return _Found(name, args, named)

    def _elements(self, depth: int) -> list[object]:
        elements: list[object] = []
        while (element := self._element(depth)) is not _NOTHING:
            elements.append(element)
            if not self._skip(","):
                break
        return elements

    def _element(self, depth: int) -> object:
        if depth == 0:
            raise _NoCall
        self._skip_blank()
        if (match := _VALUE.match(self._text, self._at)) is None:
            return _NOTHING
        self._read_to(match.end())
        match match.lastgroup:
            case "string":
                return _string(match[0])
            case "number":
                return _number(match[0])
            case "constant":
                return _CONSTANTS[match[0]]
        return self._collection(match[0], depth - 1)

    def _collection(self, opening: str, depth: int) -> object:
        if opening == "{":
            return self._mapping(depth)
        elements = self._elements(depth)
        self._expect("]" if opening == "[" else ")")
        return elements if opening == "[" else tuple(elements)

    def _mapping(self, depth: int) -> dict[str, object]:
        mapping: dict[str, object] = {}
        while token := self._take(_STRING):
            self._expect(":")
            if (value := self._element(depth)) is _NOTHING:
                raise _NoCall
            mapping[_string(token)] = value
            if not self._skip(","):
                break
        self._expect("}")
        return mapping

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            raise _NoCall

    def _skip(self, sign: str) -> bool:
        """Whether a sign comes next; if so, skip it."""
        self._skip_blank()
        if not self._text.startswith(sign, self._at):
            return False
        self._read_to(self._at + len(sign))
        return True

    def _take(self, token: re.Pattern[str]) -> str:
        """The next token if it is of this kind, else an empty string."""
        self._skip_blank()
        if (match := token.match(self._text, self._at)) is None:
            return ""
        self._read_to(match.end())
        return match[0]

    def _skip_blank(self) -> None:
        if (blank := _BLANK.match(self._text, self._at)) is not None:
            self._read_to(blank.end())

    def _read_to(self, end: int) -> None:
        # Many characters at once cost far less than many tokens.
        self._patience -= 1 + (end - self._at) // 16
        if self._patience < 0:
            raise BadCall("ValueError: Received an action that is too long to make sense of.")
        self._at = end


def _string(token: str) -> str:
    """The value of a Python string. Unknown escapes stand for themselves."""
    if "\\" not in token and "\r" not in token:
        quotes = 3 if token[:3] in ('"""', "'''") else 1
        return token[quotes:-quotes]
    known = _ESCAPE.sub(lambda escape: escape[0] if escape[1] in _ESCAPES else "\\" + escape[0], token)
    try:
        value: str = ast.literal_eval(known)
    except (SyntaxError, ValueError) as error:
        raise BadCall(f"{type(error).__name__}: {error}") from error
    # Characters may be escaped in halves, as in JSON. Halves that stay alone cannot be sent anywhere.
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _number(token: str) -> int | float:
    try:
        return float(token) if set(token) & set(".eE") else int(token)
    except ValueError as error:
        raise BadCall(f"ValueError: {error}") from error


# Checking.


def _bid(_: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadCall(f"ValueError: expected a string, got {_shown(value)}")
    return value


def _text(where: str, value: object) -> str:
    return value if isinstance(value, str) else _refuse("TypeError", where, "a string", value)


def _texts(where: str, value: object) -> str | list[str]:
    if isinstance(value, str):
        return value
    return (
        list(value)
        if _are_texts(value)
        else _refuse("TypeError", where, "a string or a list of strings", value)
    )


def _number_on_screen(where: str, value: object) -> int | float:
    if not _is_number(value):
        _refuse("TypeError", where, "a number", value)
    return value if abs(value) <= _FARTHEST else _refuse("ValueError", where, f"at most {_FARTHEST}", value)


def _wait(where: str, value: object) -> int | float:
    if not _is_number(value):
        _refuse("TypeError", where, "a number", value)
    allowed = f"from 0 to {LONGEST_WAIT} (60 seconds)"
    return value if 0 <= value <= LONGEST_WAIT else _refuse("ValueError", where, allowed, value)


def _index(where: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return _refuse("TypeError", where, "an integer", value)


def _button(where: str, value: object) -> str:
    if isinstance(value, str) and value in _BUTTONS:
        return value
    return _refuse("ValueError", where, f"one of {', '.join(_BUTTONS)}", value)


def _modifiers(where: str, value: object) -> list[str]:
    if _are_texts(value) and set(value) <= set(_MODIFIERS):
        return list(value)
    return _refuse("ValueError", where, f"a list of some of {', '.join(_MODIFIERS)}", value)


def _are_texts(value: object) -> TypeGuard[list[str] | tuple[str, ...]]:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refuse(kind: str, where: str, wanted: str, value: object) -> NoReturn:
    raise BadCall(f"{kind}: {where} must be {wanted}, got {_shown(value)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


#: By the names of parameters, which mean the same in all calls.
_CHECKS: dict[str, Callable[[str, object], object]] = {
    **dict.fromkeys(("bid", "from_bid", "to_bid"), _bid),
    **dict.fromkeys(("text", "reason", "value", "key_comb", "key", "url"), _text),
    **dict.fromkeys(("options", "file"), _texts),
    **dict.fromkeys(("delta_x", "delta_y", "x", "y", "from_x", "from_y", "to_x", "to_y"), _number_on_screen),
    "wait_ms": _wait,
    "index": _index,
    "button": _button,
    "modifiers": _modifiers,
}
