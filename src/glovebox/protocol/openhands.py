"""The OpenHands envelope: dictionaries of the wire to typed messages and back, for server and client.

Decoding follows the contract to the letter, legacy spellings included, because its clients post
whole events as they have them. Nothing past this file passes dictionaries around.
"""

from __future__ import annotations

import ast
import functools
import re
import types
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

from glovebox.errors import ActionError, UnknownAction, UnknownEvent, WrongArguments
from glovebox.json_codec import convert
from glovebox.protocol.actions import OPENHANDS_ACTIONS
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.files import FILE_ACTIONS, FILE_OBSERVATIONS
from glovebox.protocol.observations import OBSERVATIONS, CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import CommandAction, CommandInputAction, CommandObservation

SOURCES = frozenset({"agent", "user", "environment"})
SECURITY_RISKS = frozenset({-1, 0, 1, 2})
TOOL_CALL_KEYS = ("function_name", "tool_call_id", "model_response", "total_calls_in_response")
#: Types of arguments that take true for 1 and false for 0, as the contract's language does.
NUMBERS = (int, int | None, int | float | str | None)
#: Arguments of older clients that mean nothing any more.
DROPPED_ARGUMENTS = ("keep_prompt", "task_completed")
TRANSLATED_EDITOR_CALL = re.compile(r"print\(file_editor\(\*\*(.*)\)\)", re.DOTALL)


class Refusal(WrongArguments):
    """Arguments of a wrong type, for an action whose contract answers these with an observation."""

    def __init__(self, problem: str, observation: Observation) -> None:
        super().__init__(problem)
        self.observation = observation


class _Shape:
    """What the codec needs to know of an action's arguments, looked up once."""

    def __init__(self, action: type[Action[Any]]) -> None:
        fields = [field for field in msgspec.structs.fields(action) if field.name != "timeout"]
        self.type = action
        self.names = frozenset(field.encode_name for field in fields)
        self.required = tuple(field.encode_name for field in fields if field.required)
        self.flags = tuple(field.encode_name for field in fields if field.type is bool)
        self.numbers = tuple(field.encode_name for field in fields if field.type in NUMBERS)


def encode_action(action: Action[Any]) -> dict[str, Any]:
    """The envelope that a client posts, without extensions of the contract that have their default value."""
    args = msgspec.to_builtins(action)
    timeout = args.pop("timeout")
    for name, default in _extensions(type(action)):
        if getattr(action, name) == default:
            del args[name]
    return {"message": action.message, "action": action.action, "args": args, "timeout": timeout}


@functools.cache
def _extensions(action: type[Action[Any]]) -> list[tuple[str, Any]]:
    """Looked up once: it takes longer than all the rest of a call."""
    fields = msgspec.structs.fields(action)
    return [(field.name, field.default) for field in fields if field.name in action.extensions]


def encode_observation(observation: Observation) -> dict[str, Any]:
    """The envelope that a server answers with: exactly these keys, in this order."""
    extras = msgspec.to_builtins(observation)
    content = extras.pop("content")
    for name in observation.extensions:
        del extras[name]
    envelope = {
        "message": observation.message,
        "observation": observation.observation,
        "content": content,
        "extras": extras,
    }
    if observation.success is not None:
        envelope["success"] = observation.success
    return envelope


def decode_observation(envelope: dict[str, Any], kinds: Iterable[type[Observation]]) -> Observation:
    """The observation of one of these kinds that a server answered with. Unknown fields are ignored.

    Raises:
        UnknownEvent: it names none of them.
        WrongArguments: a field is missing or of a wrong type.
    """
    name = envelope.get("observation")
    kind = next((kind for kind in kinds if getattr(kind, "observation", None) == name), None)
    if kind is None:
        raise UnknownEvent(f"{name!r} is not the name of an observation that is expected here")
    fields = _object(envelope.get("extras"), "extras")
    if kind is CmdOutputObservation:
        _modernize_command_output(fields)
    if kind.extensions and isinstance(details := envelope.get("details"), dict):
        fields = {**fields, **{name: details.get(name) for name in kind.extensions}}
    try:
        return convert({**fields, "content": envelope.get("content", "")}, kind)
    except msgspec.ValidationError as error:
        raise WrongArguments(f"{kind.__name__}: {error}") from error


@functools.cache
def expected_observations(action: type[Action[Any]]) -> tuple[type[Observation], ...]:
    """The kinds of observation that may answer an action, also one that only a plugin knows."""
    for kind in action.__mro__:
        for base in getattr(kind, "__orig_bases__", ()):
            for argument in typing.get_args(base):
                union = isinstance(argument, types.UnionType) or typing.get_origin(argument) is typing.Union
                return (*(typing.get_args(argument) if union else (argument,)), ErrorObservation)
    return (Observation, ErrorObservation)


class Codec:
    """A set of actions and observations by their wire names."""

    def __init__(
        self,
        actions: Iterable[type[Action[Any]]] = (
            *OPENHANDS_ACTIONS,
            CommandAction,
            CommandInputAction,
            *FILE_ACTIONS,
        ),
        observations: Iterable[type[Observation]] = (*OBSERVATIONS, CommandObservation, *FILE_OBSERVATIONS),
    ) -> None:
        self._actions = {action.action: action for action in actions}
        #: Looked up when an action first comes: doing it for all takes longer than the rest of a start.
        self._shapes: dict[str, _Shape] = {}
        self._observations = {observation.observation: observation for observation in observations}

    @property
    def actions(self) -> dict[str, type[Action[Any]]]:
        return dict(self._actions)

    @property
    def observations(self) -> dict[str, type[Observation]]:
        return dict(self._observations)

    def decode_action(self, envelope: dict[str, Any]) -> Action[Any]:
        """The action an envelope holds.

        Raises:
            UnknownEvent: it holds neither an action nor an observation.
            UnknownAction: it names no known action.
            Refusal: an argument has a wrong type and the contract answers with an observation.
            WrongArguments: arguments are unknown, missing or of a wrong type.
            ActionError: it holds something else than a valid action.
        """
        if "action" not in envelope:
            if "observation" in envelope:
                raise ActionError("400: Invalid action type")
            raise UnknownEvent(f"Unknown event type: {envelope}")
        shape = self._shape(envelope["action"])
        args = _modern(envelope.get("args", {}))
        _check_names(envelope, shape, args)
        action = _build(shape, args, envelope.get("timeout"))
        _check_metadata(envelope)
        return action

    def _shape(self, name: Any) -> _Shape:
        shape = self._shapes.get(name) if isinstance(name, str) else None
        if shape is None and isinstance(name, str) and name in self._actions:
            shape = self._shapes[name] = _Shape(self._actions[name])
        if shape is None:
            known = ", ".join(self._actions)
            raise UnknownAction(f"'action['action']={name!r}' is not defined. Available actions: {known}")
        return shape


def _modern(given: Any) -> dict[str, Any]:
    """Arguments with the spellings of older clients brought up to date."""
    if not isinstance(given, dict):
        raise WrongArguments(f"args must be an object, not {type(given).__name__}")
    args = dict(given)
    args.pop("timestamp", None)
    for name in DROPPED_ARGUMENTS:
        args.pop(name, None)
    if "is_confirmed" in args:
        confirmed = args.pop("is_confirmed")
        if confirmed is not None:
            args["confirmation_state"] = confirmed
    if "images_urls" in args:
        args["image_urls"] = args.pop("images_urls")
    risk = args.get("security_risk", 0)
    if not (isinstance(risk, int) and risk in SECURITY_RISKS):
        del args["security_risk"]
    if "translated_ipython_code" in args:
        _merge_editor_call(args, args.pop("translated_ipython_code"))
    return args


def _merge_editor_call(args: dict[str, Any], code: Any) -> None:
    """Take the arguments out of `print(file_editor(**{...}))`."""
    match = TRANSLATED_EDITOR_CALL.match(code) if isinstance(code, str) else None
    if match is None:
        return
    try:
        editor_args = ast.literal_eval(match[1])
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise WrongArguments(f"translated_ipython_code is not a literal: {error}") from error
    if not isinstance(editor_args, dict):
        raise WrongArguments("translated_ipython_code does not hold a dictionary")
    args.update(editor_args)
    if args.get("command") == "view":
        del args["command"]


def _check_names(envelope: dict[str, Any], shape: _Shape, args: dict[str, Any]) -> None:
    unknown = next((name for name in args if name not in shape.names), None)
    missing = [name for name in shape.required if name not in args]
    if unknown is not None:
        problem = f"got an unexpected keyword argument {unknown!r}"
    elif missing:
        plural = "s" if len(missing) > 1 else ""
        problem = f"missing {len(missing)} required positional argument{plural}: {_listed(missing)}"
    else:
        return
    raise WrongArguments(
        f"action={envelope} has the wrong arguments: {shape.type.__name__}.__init__() {problem}"
    )


def _listed(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def _build(shape: _Shape, args: dict[str, Any], timeout: Any) -> Action[Any]:
    for name in shape.flags:
        if name in args:
            args[name] = bool(args[name])  # the contract takes anything truthy for a flag
    for name in shape.numbers:
        if isinstance(args.get(name), bool):
            args[name] = int(args[name])
    try:
        action: Action[Any] = convert({**args, "timeout": _seconds(timeout)}, shape.type)
    except (msgspec.ValidationError, ValueError) as error:
        problem = str(error).replace("$.", "")
        observation = shape.type.refused(args, problem)
        if observation is None:
            raise WrongArguments(problem) from error
        raise Refusal(problem, observation) from error
    return action


def _seconds(timeout: Any) -> Any:
    """Numbers arrive as text at times; anything else is left for the type check to name."""
    if isinstance(timeout, bool | str):
        try:
            return float(timeout)
        except ValueError:
            return timeout
    return timeout


def _check_metadata(envelope: dict[str, Any]) -> None:
    """Metadata is not used here, but a client that sends it malformed gets an error."""
    source = envelope.get("source", "agent")
    if not (isinstance(source, str) and source in SOURCES):
        raise WrongArguments(f"{source!r} is not a valid EventSource")
    if "tool_call_metadata" in envelope:
        call = envelope["tool_call_metadata"]
        missing = [key for key in TOOL_CALL_KEYS if not isinstance(call, dict) or key not in call]
        if missing:
            raise WrongArguments(f"tool_call_metadata lacks {', '.join(missing)}")


def _modernize_command_output(fields: dict[str, Any]) -> None:
    moved = {
        new: fields[old] for old, new in (("exit_code", "exit_code"), ("command_id", "pid")) if old in fields
    }
    if moved:
        fields["metadata"] = {**_object(fields.get("metadata"), "metadata"), **moved}


def _object(value: Any, what: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise WrongArguments(f"{what} must be an object, not {type(value).__name__}")
    return dict(value or {})
