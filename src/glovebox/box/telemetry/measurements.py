"""Counts actions, takes snapshots of a box's figures, and lists the metrics that are made of them."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct, field, structs

from glovebox.box.executor import Call, Outcome
from glovebox.box.plugin import Context, Plugin
from glovebox.errors import GloveboxError
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.status import PluginInfo, PluginState

log = logging.getLogger(__name__)

#: The upper bounds of the histogram of durations, in seconds: from a small read to a long build.
BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
#: The result of an action whose caller went away.
_CANCELLED = "cancelled"
#: How many running commands are remembered between answers; beyond that, the oldest is counted as a new one.
_MOST_COMMANDS = 1000
#: Gauges must not have the endings that Prometheus reserves for other kinds of metrics.
_GAUGE_NAME = re.compile(r"[a-z][a-z0-9_]*(?<!_total)(?<!_count)(?<!_sum)(?<!_bucket)(?<!_info)")
#: Names of the box's own metrics.
_TAKEN = frozenset({"info", "uptime_seconds", "actions_running", "action_seconds", "plugin_state"})


class Figures(Struct):
    """The figures of all actions of one kind."""

    #: How many ended, by result.
    results: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    #: How many there are in each range of `BUCKETS`, and how many took longer.
    durations: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    input_bytes: int = 0
    output_bytes: int = 0

    def copy(self) -> Figures:
        return Figures(
            dict(self.results), self.seconds, self.durations[:], self.input_bytes, self.output_bytes
        )


class Measurements:
    """An observer that counts all actions. It belongs to the event loop."""

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
        """How much a command printed since its last report; the command itself counts all of it."""
        command = call.command
        assert command is not None
        before = self._counted.pop(command.id, 0)
        if command.state != "ended":
            self._counted[command.id] = command.output_bytes
            if len(self._counted) > _MOST_COMMANDS:
                del self._counted[next(iter(self._counted))]
        return max(0, command.output_bytes - before)


def result_of(observation: Observation | None, error: GloveboxError | None) -> str:
    """The result of an action in one word: the kind of its observation, or the code of its error."""
    if observation is not None:
        return observation.observation
    return _CANCELLED if error is None else error.code


def input_bytes(action: Action[Any]) -> int:
    """The size of the text in an action: a command, the content of a file."""
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


class Snapshot(Struct, frozen=True):
    """The figures of a box at one moment."""

    uptime: float
    running: int
    actions: dict[str, Figures]
    #: How many events there have been.
    events: int
    plugins: list[PluginInfo]
    #: The gauges of plugins, by name.
    gauges: dict[str, float]


class Snapshots:
    """Takes snapshots of a box. It belongs to the event loop."""

    def __init__(self, context: Context, measurements: Measurements) -> None:
        self._context = context
        self._measurements = measurements
        self._since = time.monotonic()
        #: Plugins that a warning was logged about.
        self._broken: set[str] = set()

    async def take(self) -> Snapshot:
        gauges = await self.gauges()
        return Snapshot(
            uptime=time.monotonic() - self._since,
            running=self._measurements.running,
            actions=self._measurements.figures(),
            events=self._context.events.last,
            plugins=self._context.report(),
            gauges=gauges,
        )

    async def gauges(self) -> dict[str, float]:
        """The gauges of all plugins, without the invalid ones."""
        plugins = self._context.plugins()
        counted = await asyncio.gather(*map(_count, plugins), return_exceptions=True)
        found: dict[str, float] = {}
        for plugin, gauges in zip(plugins, counted, strict=True):
            if isinstance(gauges, BaseException):
                self._warn(plugin.name, gauges)
                continue
            for name, value in gauges.items():
                if _GAUGE_NAME.fullmatch(name) and name not in _TAKEN:
                    found[name] = found.get(name, 0.0) + value
                else:
                    self._warn(plugin.name, f"{name!r} cannot be the name of one")
        return found

    def _warn(self, plugin: str, problem: object) -> None:
        if plugin not in self._broken:
            self._broken.add(plugin)
            log.warning("gauges of plugin %s are not shown: %s", plugin, problem)


async def _count(plugin: Plugin) -> dict[str, float]:
    return {name: float(value) for name, value in plugin.gauges().items()}


#: Values of a metric, each with the values of its labels.
Values = Iterable[tuple[tuple[str, ...], float]]


class MetricSpec(NamedTuple):
    """A metric that Prometheus and OpenTelemetry get, each under a name of its own."""

    kind: Literal["counter", "gauge"]
    prometheus: str
    otel: str
    unit: str
    help: str
    labels: tuple[str, ...]
    values: Callable[[Snapshot], Values]


def _results(taken: Snapshot) -> Values:
    for kind, figures in taken.actions.items():
        for result, count in figures.results.items():
            yield (kind, result), count


def _states(taken: Snapshot) -> Values:
    for plugin in taken.plugins:
        for state in get_args(PluginState):
            yield (plugin.name, state), int(plugin.state == state)


METRICS = (
    MetricSpec("counter", "glovebox_actions_total", "glovebox.actions", "{action}",
               "Actions that ended, by result.", ("action", "result"), _results),
    MetricSpec("counter", "glovebox_input_bytes_total", "glovebox.input", "By", "Text in actions.",
               ("action",),
               lambda taken: (((kind,), one.input_bytes) for kind, one in taken.actions.items())),
    MetricSpec("counter", "glovebox_output_bytes_total", "glovebox.output", "By",
               "Output of commands, and answers of other actions.", ("action",),
               lambda taken: (((kind,), one.output_bytes) for kind, one in taken.actions.items())),
    MetricSpec("gauge", "glovebox_actions_running", "glovebox.actions.running", "{action}",
               "Actions not answered yet.", (), lambda taken: [((), taken.running)]),
    MetricSpec("counter", "glovebox_events_total", "glovebox.events", "{event}", "Events of the event log.",
               (), lambda taken: [((), taken.events)]),
    MetricSpec("gauge", "glovebox_uptime_seconds", "glovebox.uptime", "s",
               "How long the box has been running.", (), lambda taken: [((), taken.uptime)]),
    MetricSpec("gauge", "glovebox_plugin_state", "glovebox.plugin.state", "1",
               "1 for the state a plugin is in.", ("plugin", "state"), _states),
    MetricSpec("counter", "glovebox_plugin_restarts_total", "glovebox.plugin.restarts", "{restart}",
               "How often a plugin was restarted.", ("plugin",),
               lambda taken: (((one.name,), one.restarts) for one in taken.plugins)),
)  # fmt: skip
