"""Reports of an agent's actions, which a VS Code window shows to its user."""

from __future__ import annotations

import unicodedata
from typing import Any

from glovebox.box.executor import Call, Outcome
from glovebox.hub.window_client import Hands
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.files import DeleteAction, GlobAction, GrepAction, MkdirAction, MoveAction, StatAction
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    IPythonRunCellObservation,
    MCPObservation,
)
from glovebox.protocol.terminal import CommandAction, CommandInputAction, CommandObservation
from glovebox.protocol.window import ActionReport

#: The most characters of a summary, of a message, and of output.
LONGEST_SUMMARY = 200
LONGEST_MESSAGE = 500
LONGEST_OUTPUT = 20_000
_RUNS_ON = "The command runs on."


class ActionReporter:
    """An observer of a box that reports its actions to the window."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    def started(self, action: Action[Any], call: Call) -> None:
        said = summary(action)
        if said is not None:
            report = ActionReport(
                id=call.id,
                kind=action.action,
                summary=said,
                agent=self._hands.window.agent,
                state="started",
            )
            self._hands.show(report)

    def finished(self, outcome: Outcome) -> None:
        said = summary(outcome.action)
        if said is not None:
            problem = _problem(outcome)
            exit_code = _exit_code(outcome.observation)
            report = ActionReport(
                id=outcome.call.id,
                kind=outcome.action.action,
                summary=said,
                agent=self._hands.window.agent,
                state="failed" if problem or exit_code else "succeeded",
                exit_code=exit_code,
                seconds=round(outcome.seconds, 3),
                message=problem or _note(outcome.observation),
                output=_output(outcome.observation),
            )
            self._hands.show(report)


def summary(action: Action[Any]) -> str | None:
    """An action in one line; None for those that do nothing in the window."""
    match action:
        case CmdRunAction() | CommandAction():
            text = action.command
        case CommandInputAction():
            text = action.text or " ".join(action.keys)
        case IPythonRunCellAction():
            text = action.code
        case BrowseURLAction():
            text = action.url
        case BrowseInteractiveAction():
            text = action.browser_actions
        case MCPAction():
            text = action.name
        case GlobAction() | GrepAction():
            text = f"{one_line(action.pattern, LONGEST_SUMMARY)} in {action.path}"
        case MoveAction():
            text = f"{action.source} to {action.destination}"
        case FileReadAction() | FileWriteAction() | FileEditAction() | StatAction():
            text = action.path
        case DeleteAction() | MkdirAction():
            text = action.path
        case _:
            return None
    return one_line(text, LONGEST_SUMMARY)


def one_line(text: str, most: int) -> str:
    """The first line of a text, without control characters and marks of direction."""
    whole = text.strip()
    line = whole.splitlines()[0] if whole else ""
    shown = "".join(" " if unicodedata.category(one)[0] == "C" else one for one in line[:most]).strip()
    return f"{shown} …" if len(line) > most or len(line) < len(whole) else shown


def _problem(outcome: Outcome) -> str:
    """Why an action failed; empty if it did not."""
    observation = outcome.observation
    if outcome.error is not None:
        text = str(outcome.error) or outcome.error.code
    elif observation is None:
        text = "The action was cancelled."
    elif isinstance(observation, ErrorObservation):
        text = observation.content or "The action failed."
    elif isinstance(observation, IPythonRunCellObservation) and not observation.success:
        text = "The cell failed."
    else:
        text = ""
    return one_line(text, LONGEST_MESSAGE)


def _exit_code(observation: Observation | None) -> int | None:
    if isinstance(observation, CmdOutputObservation):
        code = observation.metadata.exit_code
        return None if code == -1 else code
    if isinstance(observation, CommandObservation):
        return observation.command.exit_code
    return None


def _output(observation: Observation | None) -> str:
    in_companion = IPythonRunCellObservation | BrowserOutputObservation | MCPObservation
    return observation.content[-LONGEST_OUTPUT:] if isinstance(observation, in_companion) else ""


def _note(observation: Observation | None) -> str:
    unknown = isinstance(observation, CmdOutputObservation | CommandObservation)
    return _RUNS_ON if unknown and _exit_code(observation) is None else ""
