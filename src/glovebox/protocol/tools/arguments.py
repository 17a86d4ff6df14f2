"""Arguments that a model gave, against what a tool takes: read kindly, refused in words that help."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import msgspec

from glovebox.errors import WrongToolArguments
from glovebox.json_codec import decode_json

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
#: Whole numbers beyond this are no lines, no pages and no characters.
_LARGEST = 2**53


class _Wrong(Exception):
    """What a value should have been."""


def checked(tool: str, schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the types of the schema; those that are null are as good as not given.

    Raises:
        WrongToolArguments: some are unknown, missing or cannot be used; the text names all of them.
    """
    properties: dict[str, dict[str, Any]] = schema["properties"]
    given = {name: value for name, value in given.items() if value is not None}
    unknown = [name for name in given if name not in properties]
    missing = [name for name in schema["required"] if name not in given]
    free = [name for name in properties if name not in given]
    meant = {name: nearest(name, free, ARGUMENT_WORDS) for name in unknown}
    problems = [_unknown(tool, name, guess) for name, guess in meant.items()]
    if missing := [name for name in missing if name not in meant.values()]:
        problems.append(f"{tool} needs {_listed(missing)}.")
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in properties:
            try:
                values[name] = _read(properties[name], value)
            except _Wrong as wrong:
                problems.append(f"{tool}: {name} must be {wrong}, not {_shown(value)}.")
    if unknown or missing:
        problems.append(f"It takes: {_signature(schema)}.")
    if problems:
        raise WrongToolArguments(" ".join(problems))
    return values


def _unknown(tool: str, name: str, guess: str | None) -> str:
    sentence = f"{tool} has no argument {_shown(name)}."
    return f"{sentence} Did you mean '{guess}'?" if guess else sentence


def _signature(schema: dict[str, Any]) -> str:
    required = schema["required"]
    return ", ".join(f"{name} (required)" if name in required else name for name in schema["properties"])


def _listed(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


# Values.


def _read(schema: dict[str, Any], value: Any) -> Any:
    if (reader := _READERS.get(schema.get("type", ""))) is None:
        return value
    value = reader(schema, value)
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        guess = nearest(value, allowed, {}) if isinstance(value, str) else None
        hint = f" (did you mean {guess}?)" if guess else ""
        raise _Wrong(f"one of {', '.join(allowed)}{hint}")
    return value


def _text(schema: dict[str, Any], value: Any) -> str:
    return value if isinstance(value, str) else _wrong("a string")


def _flag(schema: dict[str, Any], value: Any) -> bool:
    if isinstance(value, str) and (word := value.strip().lower()) in _FLAGS:
        return _FLAGS[word]
    return bool(value) if isinstance(value, int) and value in (0, 1) else _wrong("true or false")


def _whole(schema: dict[str, Any], value: Any) -> int:
    number = _numeric(value)
    if number is None or number != int(number) or abs(number) > _LARGEST:
        _wrong("a whole number")
    return int(number)


def _number(schema: dict[str, Any], value: Any) -> float:
    number = _numeric(value)
    if number is None:
        _wrong("a number")
    if schema.get("exclusiveMinimum") == 0 and number <= 0:
        _wrong("a number greater than 0")
    return number


def _list(schema: dict[str, Any], value: Any) -> list[Any]:
    what = "a list of whole numbers" if schema["items"].get("type") == "integer" else "a list"
    if isinstance(value, str):
        try:
            value = decode_json(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            _wrong(what)
    if not isinstance(value, list):
        _wrong(what)
    try:
        return [_read(schema["items"], one) for one in value]
    except _Wrong:
        _wrong(what)


def _object(schema: dict[str, Any], value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else _wrong("an object")


_READERS: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "string": _text,
    "boolean": _flag,
    "integer": _whole,
    "number": _number,
    "array": _list,
    "object": _object,
}


def _numeric(value: Any) -> float | int | None:
    """A finite number, or a text that is one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = value if isinstance(value, int) else float(value)
        return number if math.isfinite(number) else None
    except (ValueError, OverflowError):
        return None


def _wrong(wanted: str) -> NoReturn:
    raise _Wrong(wanted)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number of that size"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


#: Below this, a guess does more harm than good.
_LEAST = 0.6
#: No name that is meant is longer.
_LONGEST = 100
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

#: What tools are called elsewhere, word by word, and what does the same here.
TOOL_WORDS: Mapping[str, tuple[str, ...]] = {
    "run": ("bash", "shell", "sh", "terminal", "cmd", "command", "exec", "execute", "console", "process"),
    "run_ipython": ("python", "jupyter", "notebook", "ipython", "repl", "code", "interpreter", "cell"),
    "read": ("cat", "open", "load", "show"),
    "write": ("save", "create", "put", "overwrite"),
    "edit": (
        "replace",
        "patch",
        "modify",
        "change",
        "update",
        "apply",
        "insert",
        "editor",
        "undo",
        "strreplace",
    ),
    "glob": ("find", "ls", "list", "dir", "directory", "files", "tree"),
    "grep": ("search", "rg", "ripgrep", "lines"),
    "stat": ("info", "metadata", "exists"),
    "move": ("mv", "rename"),
    "delete": ("rm", "remove", "unlink", "rmdir"),
    "mkdir": ("makedirs", "folder"),
    "browse": ("fetch", "url", "web", "page", "visit", "navigate", "http", "website"),
    "browse_interactive": ("click", "browser", "goto", "fill", "playwright"),
}

#: The same for arguments.
ARGUMENT_WORDS: Mapping[str, tuple[str, ...]] = {
    "command": ("cmd", "script", "input", "keystrokes", "bash", "action", "operation"),
    "browser_actions": ("actions", "action", "code", "commands"),
    "code": ("source", "script", "python", "cell"),
    "path": ("file", "filename", "filepath", "dir", "directory", "folder", "cwd", "target", "root"),
    "content": ("text", "contents", "data", "body", "file_text"),
    "file_text": ("content", "contents", "text"),
    "pattern": ("query", "regex", "regexp", "glob", "search", "expression", "needle"),
    "include": ("glob", "files", "filter"),
    "url": ("uri", "link", "address", "href"),
    "source": ("src", "from", "path", "old"),
    "destination": ("dest", "dst", "to", "target", "new"),
    "timeout": ("seconds", "limit", "wait", "max_time"),
    "session": ("shell", "terminal", "tab"),
    "ignore_case": ("insensitive", "i"),
    "respect_gitignore": ("ignored",),
    "view_range": ("range", "lines", "start", "end"),
    "insert_line": ("line", "position"),
    "old_str": ("search", "find", "old", "before"),
    "new_str": ("replace", "replacement", "new", "after", "insert"),
}


def nearest(name: str, known: Iterable[str], words: Mapping[str, tuple[str, ...]]) -> str | None:
    """The known name that is most like this one, if any is like it at all; of equals, the first."""
    given = _words(name[:_LONGEST])
    best, most = None, _LEAST
    for candidate in known:
        if (score := _likeness(given, candidate, words.get(candidate, ()))) > most:
            best, most = candidate, score
    return best


def _likeness(given: list[str], candidate: str, others: tuple[str, ...]) -> float:
    """From 0 to 1: spelt alike, made of the same words, or called so elsewhere."""
    its = _words(candidate)
    if not given or not its:
        return 0.0
    joined = "".join(given)
    if joined == "".join(its):
        return 1.0
    if joined in others:
        return 0.95
    spelling = difflib.SequenceMatcher(None, joined, "".join(its)).ratio()
    shared = set(given) & set(its)
    whole = 0.9 if shared and shared >= set(its) else 0.8 if shared and shared >= set(given) else 0.0
    # The earlier a word stands, the more it counts: search_files searches, read_file reads.
    elsewhere = max((0.75 - 0.01 * at for at, word in enumerate(given) if word in others), default=0.0)
    return max(spelling, whole, elsewhere)


def _words(name: str) -> list[str]:
    """Its words in small letters: `readFile`, `read-file` and `READ_FILE` are the same two."""
    return [word.lower() for word in _WORD.findall(name)]
