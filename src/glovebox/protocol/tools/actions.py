"""Calls of tools as actions: the box's own tools, made from the structs of actions, and aliases."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from glovebox.errors import WrongToolArguments
from glovebox.json_codec import convert
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.terminal import CommandAction, CommandInputAction
from glovebox.protocol.tools.arguments import checked
from glovebox.protocol.tools.base import Tool, ToolCall
from glovebox.protocol.tools.catalogue import (
    CATALOGUE,
    EDITOR_COMMANDS,
    KEYS,
    LINE_RANGE,
    PATIENCE,
    SECONDS,
    Argument,
    ToolEntry,
)

#: What `bash` answers when it was asked to begin anew.
RESTARTED = "tool has been restarted."

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}


#: `read` through the editor, with numbered lines.
_EDITOR = "oh_aci"
#: `read` as always, but of pictures by whatever path.
_SHOWN = "shown"
_KEYS = ("C-c", "C-d", "C-z")
#: Characters of output that a model is shown unless it asks for another number.
_BUDGET = 30_000
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
    """With a time limit, the model waits for the end, also through a silence.

    Keys are for what is running, whether or not the model says so.
    """
    if keys := values.pop("keys", None):
        text = f"{values['command']}\n" if values.get("is_input") else ""
        taken = {name: values[name] for name in ("session", "budget", "timeout") if name in values}
        return CommandInputAction(text=text, keys=keys, **taken)
    if values["command"].strip() in _KEYS:
        values["is_input"] = True
    return CmdRunAction(**values, blocking="timeout" in values)


def native_action(action: Action[Any]) -> Action[Any]:
    """What a call comes to outside the contract: a command that is answered when it ends or waits."""
    if isinstance(action, CommandInputAction) and action.timeout is None:
        return msgspec.structs.replace(action, timeout=PATIENCE)
    if not isinstance(action, CmdRunAction):
        return action
    text, key = action.command, action.command.strip()
    shared: dict[str, Any] = {
        "session": action.session,
        "timeout": action.timeout or PATIENCE,
        "budget": action.budget or _BUDGET,
    }
    if key and not action.is_input:
        return CommandAction(command=text, on_wait="return", **shared)
    if key in _KEYS:
        return CommandInputAction(keys=[key], **shared)
    return CommandInputAction(text=f"{text}\n" if action.is_input else "", **shared)


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


# Tools of other makers that models know by heart: not listed, but understood.


class Alias(NamedTuple):
    """What a tool takes, and the action it comes to."""

    schema: dict[str, Any]
    make: Callable[[dict[str, Any]], Action[Any]]
    #: The action that the box must carry out for it.
    needs: type[Action[Any]]


def aliases_of(actions: Collection[type[Action[Any]]]) -> dict[str, Alias]:
    """Those that a box with these actions understands."""
    return {name: alias for name, alias in ALIASES.items() if alias.needs in actions}


def alias_action(name: str, arguments: dict[str, Any]) -> Action[Any]:
    """What a call of one of `ALIASES` asks for.

    Raises:
        WrongToolArguments: it does not take these arguments.
    """
    alias = ALIASES[name]
    values = checked(name, alias.schema, arguments)
    values.pop("security_risk", None)  # for people who watch, not for the box
    return alias.make(values)


def is_restart(call: ToolCall) -> bool:
    """Whether it asks for a new shell, which is more than an action can do.

    Raises:
        WrongToolArguments: it does not take these arguments.
    """
    if call.name != "bash" or "restart" not in call.arguments:
        return False
    return bool(checked(call.name, ALIASES["bash"].schema, call.arguments).get("restart"))


def _takes(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"properties": properties, "required": required}


def _bash(values: dict[str, Any]) -> Action[Any]:
    if values.pop("restart", False):
        return CmdRunAction(command="exit")  # as near as an action comes to it
    if "command" not in values:
        raise WrongToolArguments("bash needs 'command', or 'restart' for a new shell.")
    return run_action(values)


def _edit(values: dict[str, Any]) -> Action[Any]:
    inserted = values.pop("insert_text", None)
    if values["command"] == "insert" and inserted is not None:
        values.setdefault("new_str", inserted)
    return edit_action(values)


_EDITOR_ALIAS = Alias(
    _takes(
        "command",
        "path",
        command={"type": "string", "enum": list(EDITOR_COMMANDS)},
        path=_TEXT,
        file_text=_TEXT,
        old_str=_TEXT,
        new_str=_TEXT,
        insert_line={"type": "integer"},
        insert_text=_TEXT,
        view_range=LINE_RANGE,
        security_risk={},
    ),
    _edit,
    FileEditAction,
)

ALIASES: dict[str, Alias] = {
    # Anthropic's.
    "bash": Alias(
        # The last three are not Anthropic's, but the answer to a command that runs on speaks of them.
        _takes(command=_TEXT, restart=_FLAG, is_input=_FLAG, keys=KEYS, timeout=SECONDS),
        _bash,
        CmdRunAction,
    ),
    "str_replace_based_edit_tool": _EDITOR_ALIAS,
    "str_replace_editor": _EDITOR_ALIAS,
    # Those of OpenHands.
    "execute_bash": Alias(
        _takes("command", command=_TEXT, is_input=_FLAG, keys=KEYS, timeout=SECONDS, security_risk={}),
        run_action,
        CmdRunAction,
    ),
    "execute_ipython_cell": Alias(
        _takes("code", code=_TEXT, security_risk={}),
        lambda values: IPythonRunCellAction(**values),
        IPythonRunCellAction,
    ),
    "browser": Alias(
        _takes("code", code=_TEXT, security_risk={}),
        lambda values: BrowseInteractiveAction(browser_actions=values["code"]),
        BrowseInteractiveAction,
    ),
    "web_read": Alias(
        _takes("url", url=_TEXT, security_risk={}), lambda values: BrowseURLAction(**values), BrowseURLAction
    ),
    "view": Alias(
        _takes("path", path=_TEXT, view_range=LINE_RANGE, security_risk={}),
        lambda values: edit_action({"command": "view", **values}),
        FileReadAction,
    ),
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
    """The schema of an argument. It does not mention null: an argument that may be null is optional."""
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
