"""Tools of other makers that models know by heart: not listed, and understood all the same."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from glovebox.errors import WrongToolArguments
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.tools.arguments import checked
from glovebox.protocol.tools.base import ToolCall
from glovebox.protocol.tools.catalogue import EDITOR_COMMANDS, LINE_RANGE, SECONDS
from glovebox.protocol.tools.own import edit_action, run_action

#: What `bash` answers when it was asked to begin anew.
RESTARTED = "tool has been restarted."

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}


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


def _view(values: dict[str, Any]) -> Action[Any]:
    return edit_action({"command": "view", **values})


_EDITOR = Alias(
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
        # The last two are not Anthropic's, but the answer to a command that runs on speaks of them.
        _takes(command=_TEXT, restart=_FLAG, is_input=_FLAG, timeout=SECONDS),
        _bash,
        CmdRunAction,
    ),
    "str_replace_based_edit_tool": _EDITOR,
    "str_replace_editor": _EDITOR,
    # Those of OpenHands.
    "execute_bash": Alias(
        _takes("command", command=_TEXT, is_input=_FLAG, timeout=SECONDS, security_risk={}),
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
    "view": Alias(_takes("path", path=_TEXT, view_range=LINE_RANGE, security_risk={}), _view, FileReadAction),
}
