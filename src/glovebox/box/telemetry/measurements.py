"""Counts actions as they begin and end. It belongs to the event loop and needs no library."""

from __future__ import annotations

import functools
from bisect import bisect_left
from typing import Any

from msgspec import Struct, field, structs

from glovebox.box.executor import Call, Outcome
from glovebox.errors import GloveboxError
from glovebox.protocol.base import Action, Observation

#: The upper ends, in seconds, of the ranges that durations are sorted into: a small read, a long build.
BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
#: What an action that nobody waited for any more came to.
CANCELLED = "cancelled"
#: Commands that go on after an answer and are asked for again; of more, the oldest is counted as a new one.
_MOST_COMMANDS = 1000


class Figures(Struct):
    """What is known of all actions of one kind."""

    #: How many ended, by what they came to.
    results: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    #: How many took as long as each range says; one more range is for all that took longer.
    durations: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    input_bytes: int = 0
    output_bytes: int = 0

    def copy(self) -> Figures:
        """The figures as they are now."""
        return Figures(
            dict(self.results), self.seconds, self.durations[:], self.input_bytes, self.output_bytes
        )


class Measurements:
    """An observer of all actions."""

    def __init__(self) -> None:
        self.running = 0
        self._kinds: dict[str, Figures] = {}
        #: How much of the output of commands that still run has been counted.
        self._counted: dict[str, int] = {}

    def figures(self) -> dict[str, Figures]:
        """The figures of every kind of action that has ended at least once."""
        return {kind: figures.copy() for kind, figures in self._kinds.items()}

    def started(self, action: Action[Any], call: Call) -> None:
        self.running += 1

    def finished(self, outcome: Outcome) -> None:
        action, call, observation, error, seconds = outcome
        self.running -= 1
        figures = self._kinds.get(action.action)
        if figures is None:
            figures = self._kinds[action.action] = Figures()
        result = result_of(observation, error)
        figures.results[result] = figures.results.get(result, 0) + 1
        figures.seconds += seconds
        figures.durations[bisect_left(BUCKETS, seconds)] += 1
        figures.input_bytes += input_bytes(action)
        if call.command is not None:
            figures.output_bytes += self._new_output(call)
        elif observation is not None:
            figures.output_bytes += text_bytes(observation.content)

    def _new_output(self, call: Call) -> int:
        """What a command printed since it was last reported: its own figure is for all of it."""
        command = call.command
        assert command is not None
        before = self._counted.pop(command.id, 0)
        if command.state != "ended":
            self._counted[command.id] = command.output_bytes
            if len(self._counted) > _MOST_COMMANDS:
                del self._counted[next(iter(self._counted))]
        return max(0, command.output_bytes - before)


def result_of(observation: Observation | None, error: GloveboxError | None) -> str:
    """What an action came to, in one word: the kind of its observation, or the code of its error."""
    if observation is not None:
        return observation.observation
    return CANCELLED if error is None else error.code


def input_bytes(action: Action[Any]) -> int:
    """How much text an action brings along: a command, the content of a file."""
    size = 0
    for name, default in _fields(type(action)):
        value = getattr(action, name)
        if value is not default and type(value) is str:
            size += text_bytes(value)
    return size


@functools.cache
def _fields(kind: type[Action[Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in structs.fields(kind))


def text_bytes(text: str) -> int:
    """The size of a text on the wire."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
