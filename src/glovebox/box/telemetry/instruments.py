"""The figures of `/metrics` as metrics of OpenTelemetry. Import this only where it is asked for."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from opentelemetry.metrics import CallbackOptions, Meter
from opentelemetry.metrics import Observation as Observed
from opentelemetry.sdk.metrics import MeterProvider

import glovebox
from glovebox.box.executor import Call, Outcome
from glovebox.box.telemetry.measurements import BUCKETS
from glovebox.box.telemetry.snapshot import Looking, Snapshot
from glovebox.protocol.base import Action
from glovebox.protocol.status import PluginState

Observe = Callable[[Snapshot], Iterable[Observed]]

#: All instruments are read in a row; they share a look.
_FRESH_SECONDS = 0.1
#: A loop that is busy for longer is not looked at this time.
_PATIENCE_SECONDS = 1.0


class LookFromThread:
    """Lets the event loop look, for a thread of the SDK that wants to know."""

    def __init__(self, looking: Looking, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = looking
        self._loop = loop
        self._last: Snapshot | None = None
        self._at = -_FRESH_SECONDS

    def __call__(self) -> Snapshot | None:
        """How the box is, or None if it does not answer."""
        if time.monotonic() - self._at > _FRESH_SECONDS:
            self._last = None if self._loop.is_closed() else self._ask()
            self._at = time.monotonic()
        return self._last

    def _ask(self) -> Snapshot | None:
        answer = asyncio.run_coroutine_threadsafe(self._looking.look(), self._loop)
        try:
            return answer.result(_PATIENCE_SECONDS)
        except TimeoutError:
            answer.cancel()
            return None


class Instruments:
    """Instruments over looks at the box; and as an observer, the durations of actions."""

    def __init__(self, provider: MeterProvider, look: LookFromThread, gauges: Iterable[str]) -> None:
        self._look = look
        meter = provider.get_meter(glovebox.__name__, glovebox.__version__)
        self._durations = meter.create_histogram(
            "glovebox.action.duration", "s", "How long actions took until they were answered.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )  # fmt: skip
        for name, unit, help_text, observe in _COUNTERS:
            meter.create_observable_counter(name, [self._callback(observe)], unit, help_text)
        for name, unit, help_text, observe in _GAUGES:
            meter.create_observable_gauge(name, [self._callback(observe)], unit, help_text)
        for name in gauges:
            counted = self._callback(functools.partial(_counted, name))
            meter.create_observable_gauge(f"glovebox.{name}", [counted], "1", "Counted by a plugin.")
        _measure_process(meter)

    def started(self, action: Action[Any], call: Call) -> None: ...

    def finished(self, outcome: Outcome) -> None:
        """Note how long it took."""
        self._durations.record(outcome.seconds, {"action": outcome.action.action})

    def _callback(self, observe: Observe) -> Callable[[CallbackOptions], Iterable[Observed]]:
        def callback(options: CallbackOptions) -> Iterable[Observed]:
            look = self._look()
            return observe(look) if look is not None else ()

        return callback


def _ended(look: Snapshot) -> Iterator[Observed]:
    for kind, figures in look.actions.items():
        for result, count in figures.results.items():
            yield Observed(count, {"action": kind, "result": result})


def _input(look: Snapshot) -> Iterator[Observed]:
    for kind, figures in look.actions.items():
        yield Observed(figures.input_bytes, {"action": kind})


def _output(look: Snapshot) -> Iterator[Observed]:
    for kind, figures in look.actions.items():
        yield Observed(figures.output_bytes, {"action": kind})


def _restarts(look: Snapshot) -> Iterator[Observed]:
    for plugin in look.plugins:
        yield Observed(plugin.restarts, {"plugin": plugin.name})


def _states(look: Snapshot) -> Iterator[Observed]:
    for plugin in look.plugins:
        for state in get_args(PluginState):
            yield Observed(int(plugin.state == state), {"plugin": plugin.name, "state": state})


def _counted(name: str, look: Snapshot) -> Iterator[Observed]:
    if name in look.gauges:
        yield Observed(look.gauges[name])


_COUNTERS: tuple[tuple[str, str, str, Observe], ...] = (
    ("glovebox.actions", "{action}", "Actions that ended, by what they came to.", _ended),
    ("glovebox.input", "By", "Text actions brought along.", _input),
    ("glovebox.output", "By", "What commands printed and other actions answered.", _output),
    ("glovebox.events", "{event}", "Events of the event log.", lambda look: [Observed(look.events)]),
    ("glovebox.plugin.restarts", "{restart}", "How often a plugin was started again.", _restarts),
)
_GAUGES: tuple[tuple[str, str, str, Observe], ...] = (
    ("glovebox.actions.running", "{action}", "Actions not answered yet.",
     lambda look: [Observed(look.running)]),
    ("glovebox.uptime", "s", "How long the box has been there.", lambda look: [Observed(look.uptime)]),
    ("glovebox.plugin.state", "1", "1 for the state a plugin is in.", _states),
)  # fmt: skip


def _measure_process(meter: Meter) -> None:
    """What the process uses, under the names of the semantic conventions."""
    import psutil

    process = psutil.Process()

    def seconds(options: CallbackOptions) -> Iterator[Observed]:
        times = process.cpu_times()
        yield Observed(times.user, {"cpu.mode": "user"})
        yield Observed(times.system, {"cpu.mode": "system"})

    def memory(options: CallbackOptions) -> Iterator[Observed]:
        yield Observed(process.memory_info().rss)

    def descriptors(options: CallbackOptions) -> Iterator[Observed]:
        yield Observed(process.num_fds())

    meter.create_observable_counter("process.cpu.time", [seconds], "s", "CPU time of the server.")
    meter.create_observable_gauge("process.memory.usage", [memory], "By", "Memory of the server.")
    meter.create_observable_gauge(
        "process.unix.file_descriptor.count", [descriptors], "{file_descriptor}", "Open descriptors."
    )
