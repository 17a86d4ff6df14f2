"""The box's own tools: their definitions, made from the structs of actions, and their calls as actions."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from glovebox.decoding import convert
from glovebox.errors import WrongToolArguments
from glovebox.protocol.actions import CmdRunAction, FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.base import Action
from glovebox.protocol.tools.arguments import checked
from glovebox.protocol.tools.base import Tool
from glovebox.protocol.tools.catalogue import CATALOGUE, Argument, ToolEntry

#: `read` through the editor, with numbered lines.
_EDITOR = "oh_aci"
#: `read` as always, but of pictures by whatever path.
_SHOWN = "shown"
_KEYS = ("C-c", "C-d", "C-z")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif")

ENTRIES: dict[str, ToolEntry] = {entry.action.action: entry for entry in CATALOGUE}


@functools.cache
def tool(name: str) -> Tool:
    """The definition of one of `ENTRIES`."""
    entry = ENTRIES[name]
    return Tool(
        name=name,
        title=entry.title,
        description=entry.description,
        input_schema=_input_schema(entry),
        read_only=entry.read_only,
        destructive=entry.destructive,
        idempotent=entry.idempotent,
        open_world=entry.open_world,
    )


def own_tools(actions: Collection[type[Action[Any]]]) -> list[Tool]:
    """The tools for those of the actions that models are offered."""
    return [tool(name) for name, entry in ENTRIES.items() if entry.action in actions]


def own_action(name: str, arguments: dict[str, Any]) -> Action[Any]:
    """What a call of one of `ENTRIES` asks for.

    Raises:
        WrongToolArguments: it does not take these arguments.
    """
    values = checked(name, tool(name).input_schema, arguments)
    if (make := _MAKERS.get(name)) is not None:
        return make(values)
    try:
        action: Action[Any] = convert(values, ENTRIES[name].action)
    except msgspec.ValidationError as error:
        raise WrongToolArguments(f"{name}: {error}".replace("$.", "")) from error
    return action


# Where a model's call is more than the fields of an action.


def run_action(values: dict[str, Any]) -> Action[Any]:
    """Who gives a time limit wants to wait for the end, and not to hear after some seconds of silence.

    Keys are for what is running, whether or not the model says so.
    """
    if values["command"].strip() in _KEYS:
        values["is_input"] = True
    return CmdRunAction(**values, blocking="timeout" in values)


def write_action(values: dict[str, Any]) -> Action[Any]:
    """The action ends the last line itself, and would add a line to text whose last line has an end."""
    return FileWriteAction(path=values["path"], content=values["content"].removesuffix("\n"))


def read_action(values: dict[str, Any]) -> Action[Any]:
    """A range of lines is a matter of the editor."""
    if "view_range" in values:
        return FileReadAction(**values, impl_source=_EDITOR)
    return FileReadAction(**values, impl_source=_SHOWN)


def edit_action(values: dict[str, Any]) -> Action[Any]:
    """Editor commands have no range of lines, and the editor no pictures; reading has."""
    view_range = values.pop("view_range", None)
    if values["command"] != "view":
        return FileEditAction(**values)
    path = values["path"]
    if os.path.splitext(path)[1].lower() in _PICTURES:
        return FileReadAction(path=path, impl_source=_SHOWN)
    if view_range:
        return FileReadAction(path=path, impl_source=_EDITOR, view_range=view_range)
    return FileEditAction(path=path, command="view")


_MAKERS: dict[str, Callable[[dict[str, Any]], Action[Any]]] = {
    "run": run_action,
    "write": write_action,
    "read": read_action,
    "edit": edit_action,
}


# Schemas.


def _input_schema(entry: ToolEntry) -> dict[str, Any]:
    fields = {field.name: field for field in msgspec.structs.fields(entry.action)}
    return {
        "type": "object",
        "properties": {
            name: _property(argument, fields.get(name)) for name, argument in entry.arguments.items()
        },
        "required": [
            name
            for name, argument in entry.arguments.items()
            if argument.required or (name in fields and fields[name].required)
        ],
        "additionalProperties": False,
    }


def _property(argument: Argument, field: msgspec.structs.FieldInfo | None) -> dict[str, Any]:
    """What a model is told of a field. One that may be null need not be given, which says enough."""
    schema = argument.schema
    if schema is None:
        assert field is not None
        schema = msgspec.json.schema(field.type)
        if "anyOf" in schema:
            (schema,) = (one for one in schema["anyOf"] if one != {"type": "null"})
    shown = {**schema, "description": argument.text}
    if field is not None and not argument.required and not field.required and field.default is not None:
        shown["default"] = field.default
    return shown
