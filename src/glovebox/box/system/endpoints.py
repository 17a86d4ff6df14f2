"""`/server_info` and `/metrics/system`: what the box uses, once and as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.system.stats import ServerInfo, Stats
from glovebox.box.threads import Threads
from glovebox.http import parameters
from glovebox.http.endpoints import Answer, Endpoint, Parameter
from glovebox.http.parameters import InvalidParameter
from glovebox.http.responses import ValidationErrorBody, json_response
from glovebox.http.sse import EVENTS, Stream, described, message

if TYPE_CHECKING:  # what takes samples is loaded once the box serves
    from glovebox.box.system.sampling import Baseline, Roots

LEAST_INTERVAL, MOST_INTERVAL = 0.1, 60.0
MOST_PROCESSES = 100


class SystemEndpoints:
    """The endpoints."""

    def __init__(
        self, stats: Stats, roots: Roots, workspace: str, threads: Threads, closing: asyncio.Event
    ) -> None:
        self._stats = stats
        self._roots = roots
        self._workspace = workspace
        self._threads = threads
        self._closing = closing
        self._since: Baseline | None = None

    async def start(self) -> None:
        """Measure from now on."""
        self._since = await self._threads.run(_look, self._roots)

    async def server_info(self, request: Request) -> Response:
        """How long the box runs and what it uses."""
        return json_response(await self._threads.run(self._stats.look))

    async def system(self, request: Request) -> Response:
        """What the machine and the box use, again and again."""
        interval = _seconds(request, "interval", 1.0)
        count = parameters.integer(request, "count", -1, low=1)
        top = parameters.integer(request, "top", 10, high=MOST_PROCESSES)
        return Stream(self._samples(interval, count, top), closing=self._closing)

    async def _samples(self, interval: float, count: int, top: int) -> AsyncGenerator[bytes, None]:
        from glovebox.box.system.sampling import Sampler

        assert self._since is not None
        sampler = Sampler(self._roots, self._workspace, self._since)
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            yield message("system", await self._threads.run(sampler.sample, top))
            count -= 1
            if count == 0:
                return
            # A reader that was slow gets the next one at once, but not all that it missed.
            due = max(due + interval, loop.time())
            await asyncio.sleep(due - loop.time())

    def endpoints(self) -> list[Endpoint]:
        """Their declarations."""
        return [
            Endpoint(
                "GET", "/server_info", self.server_info, "How long the box runs and what it uses",
                {200: Answer("Seconds and bytes.", ServerInfo)}, open=True,
            ),
            Endpoint(
                "GET", "/metrics/system", self.system, "What the machine and the box use, as it changes",
                {200: Answer("Server-sent events: `system`.", described("system"), EVENTS),
                 422: Answer("A parameter is not of the right form.", ValidationErrorBody)},
                description="The first event comes at once. Rates and percentages of CPU time are measured "
                "since the event before, in the first one since the box was started. It goes on until the "
                "reader leaves, or for `count` events.",
                parameters=(
                    Parameter(
                        "interval", {"type": "number", "minimum": LEAST_INTERVAL, "maximum": MOST_INTERVAL},
                        "Seconds from one event to the next. Default: 1.",
                    ),
                    Parameter("count", {"type": "integer", "minimum": 1}, "How many. Default: without end."),
                    Parameter(
                        "top", {"type": "integer", "minimum": 0, "maximum": MOST_PROCESSES},
                        "How many processes to name, those that use most. Default: 10.",
                    ),
                ),
            ),
        ]  # fmt: skip


def _look(roots: Roots) -> Baseline:
    from glovebox.box.system.sampling import Baseline

    return Baseline.take(roots)


def _seconds(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not LEAST_INTERVAL <= value <= MOST_INTERVAL:
        problem = f"Input should be a number from {LEAST_INTERVAL:g} to {MOST_INTERVAL:g}"
        raise InvalidParameter("float_parsing", ("query", name), problem, text)
    return value
