"""What the box and its machine use, as a plugin."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Observer
from glovebox.box.plugin import Context, Plugin
from glovebox.box.system.stats import ServerInfo, Stats
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import ValidationErrorBody, json_response
from glovebox.http.sse import EVENTS, Stream, described, message
from glovebox.linux.processes import ProcessTable

if TYPE_CHECKING:
    from glovebox.box.system.samples import Baseline, Roots


log = logging.getLogger(__name__)

INTERVAL = 0.1
LONGEST = 3600.0
_STOP_LIMIT = 5.0
_LEAST_INTERVAL, _MOST_INTERVAL = 0.1, 60.0
_MOST_PROCESSES = 100


class SystemPlugin(Plugin):
    """Statistics, and the monitor of memory."""

    name = "system"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.stats = Stats(context.services.activity)
        self._since: Baseline | None = None
        self._monitor = MemoryMonitor(self.roots)

    def roots(self) -> list[int]:
        """The processes that all processes of the box descend from."""
        return [os.getpid(), *(pid for plugin in self.context.plugins() for pid in plugin.processes())]

    async def start(self) -> None:
        self._since = await self.context.threads.run(_baseline, self.roots)
        if self.context.settings.runtime_memory_monitor:
            self._monitor.start()

    async def stop(self) -> None:
        await self.context.threads.run(self._monitor.stop)

    def observers(self) -> Iterable[Observer]:
        return (self.stats,)

    async def _server_info(self, request: Request) -> Response:
        return json_response(await self.context.threads.run(self.stats.look))

    async def _system(self, request: Request) -> Response:
        interval = _seconds(request, "interval", 1.0)
        count = requests.integer(request, "count", -1, low=1)
        top = requests.integer(request, "top", 10, high=_MOST_PROCESSES)
        return Stream(self._samples(interval, count, top), closing=self.context.closing)

    async def _samples(self, interval: float, count: int, top: int) -> AsyncGenerator[bytes, None]:
        from glovebox.box.system.samples import Sampler

        assert self._since is not None
        sampler = Sampler(self.roots, self.context.settings.working_dir, self._since)
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            yield message("system", await self.context.threads.run(sampler.sample, top))
            count -= 1
            if count == 0:
                return
            # A reader that was slow gets the next one at once, but not all that it missed.
            due = max(due + interval, loop.time())
            await asyncio.sleep(due - loop.time())

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET", "/server_info", self._server_info, "How long the box runs and what it uses",
                {200: Reply("Seconds and bytes.", ServerInfo)}, open=True,
            ),
            Endpoint(
                "GET", "/metrics/system", self._system, "What the machine and the box use, as it changes",
                {200: Reply("Server-sent events: `system`.", described("system"), EVENTS),
                 422: Reply("A parameter is not of the right form.", ValidationErrorBody)},
                description="The first event comes at once. Rates and percentages of CPU time are measured "
                "since the event before, in the first one since the box was started. It goes on until the "
                "reader leaves, or for `count` events.",
                parameters=(
                    Parameter(
                        "interval", {"type": "number", "minimum": _LEAST_INTERVAL, "maximum": _MOST_INTERVAL},
                        "Seconds from one event to the next. Default: 1.",
                    ),
                    Parameter("count", {"type": "integer", "minimum": 1}, "How many. Default: without end."),
                    Parameter(
                        "top", {"type": "integer", "minimum": 0, "maximum": _MOST_PROCESSES},
                        "How many processes to name, those that use most. Default: 10.",
                    ),
                ),
            ),
        ]  # fmt: skip


class MemoryMonitor:
    """A thread that logs the memory of the box ten times a second, for an hour at most."""

    def __init__(self, roots: Roots, *, interval: float = INTERVAL, longest: float = LONGEST) -> None:
        self._roots = roots
        self._interval = interval
        self._longest = longest
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._thread is not None:
            return
        self._stopping.clear()
        self._thread = threading.Thread(target=self._watch, name="memory-monitor", daemon=True)
        log.info("Memory monitoring started")
        self._thread.start()

    def stop(self) -> None:
        """End; without a start it does nothing. Waits for the thread."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join(_STOP_LIMIT)
        self._thread = None
        log.info("Memory monitoring stopped")

    def _watch(self) -> None:
        until = time.monotonic() + self._longest
        try:
            while time.monotonic() < until:
                used = sum(process.resident for process in ProcessTable().tree(self._roots()))
                # The words of the tool that the reference measures with: mebibytes, and seconds since 1970.
                log.info("[Memory usage] MEM %.6f %.4f", used / 2**20, time.time())
                if self._stopping.wait(self._interval):
                    return
        except (OSError, ValueError) as error:
            log.error("Memory monitoring failed: %s", error)


def _baseline(roots: Roots) -> Baseline:
    from glovebox.box.system.samples import Baseline

    return Baseline.take(roots)


def _seconds(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not _LEAST_INTERVAL <= value <= _MOST_INTERVAL:
        problem = f"Input should be a number from {_LEAST_INTERVAL:g} to {_MOST_INTERVAL:g}"
        raise InvalidParameter("float_parsing", ("query", name), problem, text)
    return value
