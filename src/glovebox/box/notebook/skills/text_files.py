"""Text files as the functions read them, and how they say what went wrong."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import ParamSpec

Params = ParamSpec("Params")

#: How much of a file tells whether it is binary.
_SAMPLE = 8192


class Trouble(Exception):
    """Something cannot be done; the text is for the agent."""


def telling(function: Callable[Params, None]) -> Callable[Params, None]:
    """Let the function print its trouble: an agent is told what went wrong, not where in the code."""

    @functools.wraps(function)
    def told(*args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Trouble as trouble:
            print(f"ERROR: {trouble}")

    return told


def expect_file(path: object) -> str:
    """The path of an existing file; whatever else is passed is called by its name."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or not os.path.isfile(name):
        raise Trouble(f"File {path} not found.")
    return name


def expect_directory(path: object) -> str:
    """The path of an existing directory."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or not os.path.isdir(name):
        raise Trouble(f"Directory {path} not found")
    return name


def expect_text(value: object, name: str) -> str:
    """An argument that must be text."""
    if not isinstance(value, str):
        raise Trouble(f"{name} must be a string, not {value!r}.")
    return value


def text_lines(path: str) -> Iterator[str]:
    """The lines of a text file, each with its end as LF; bytes that are not UTF-8 show as replacements."""
    try:
        with open(path, "rb") as raw:
            if b"\0" in raw.read(_SAMPLE):
                raise Trouble(f"File {path} is binary and cannot be shown as text.")
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError as error:
        raise Trouble(f"File {path} cannot be read: {error.strerror}.") from None


def printable(path: str) -> str:
    """A path as it can be printed: names are bytes, and need not be UTF-8."""
    return os.fsencode(path).decode(errors="replace")
