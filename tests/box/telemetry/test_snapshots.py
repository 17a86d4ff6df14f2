"""A look at the plugins of a box, some of which cannot be trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

import pytest

from glovebox.box.events import EventLog
from glovebox.box.plugin import Context, Plugin, Services
from glovebox.box.startup import Startup
from glovebox.box.telemetry.measurements import Measurements, Snapshots
from glovebox.box.telemetry.otel_observers import ThreadSnapshots
from glovebox.box.threads import Threads
from glovebox.protocol.status import PluginInfo
from glovebox.settings import Settings


class Good(Plugin):
    name: ClassVar[str] = "good"

    def gauges(self) -> Mapping[str, float]:
        return {"sessions": 2, "pages_open": 0.5}


class Same(Plugin):
    name: ClassVar[str] = "same"

    def gauges(self) -> Mapping[str, float]:
        return {"sessions": 1}


class Broken(Plugin):
    name: ClassVar[str] = "broken"

    def gauges(self) -> Mapping[str, float]:
        raise LookupError("nobody counted")


class Wordy(Plugin):
    name: ClassVar[str] = "wordy"

    def gauges(self) -> Mapping[str, float]:
        return {"fine": 1, "not fine": 1, "things_total": 1, "uptime_seconds": 1, "": 1}


class Host:
    """Has these plugins."""

    def __init__(self, *kinds: type[Plugin]) -> None:
        services = Services(Settings(), EventLog(), Threads("test", 1), asyncio.Event(), Startup())
        self.context = Context("telemetry", services, self)
        self._plugins = [kind(self.context) for kind in kinds]

    def find(self, name: str) -> Plugin | None:
        return next((plugin for plugin in self._plugins if plugin.name == name), None)

    def plugins(self) -> list[Plugin]:
        return self._plugins

    def report(self) -> list[PluginInfo]:
        return [PluginInfo(name=plugin.name, state="running") for plugin in self._plugins]

    def crashed(self, name: str, reason: str) -> None:
        raise AssertionError(reason)


async def test_what_several_plugins_count_under_one_name_is_added() -> None:
    snapshots = Snapshots(Host(Good, Same).context, Measurements())
    assert await snapshots.gauges() == {"sessions": 3, "pages_open": 0.5}


async def test_a_plugin_that_cannot_count_costs_only_its_own_figures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    snapshots = Snapshots(Host(Broken, Wordy, Good).context, Measurements())
    for _ in range(2):
        assert await snapshots.gauges() == {"fine": 1, "sessions": 2, "pages_open": 0.5}
    assert caplog.messages == [
        "gauges of plugin broken are not shown: nobody counted",
        "gauges of plugin wordy are not shown: 'not fine' cannot be the name of one",
    ]


async def test_a_thread_looks_through_the_event_loop() -> None:
    snapshots = Snapshots(Host(Good).context, Measurements())
    look = await asyncio.to_thread(ThreadSnapshots(snapshots, asyncio.get_running_loop()).take)
    assert look is not None
    assert [plugin.name for plugin in look.plugins] == ["good"]


def test_a_thread_that_comes_after_the_event_loop_sees_nothing() -> None:
    loop = asyncio.new_event_loop()
    snapshots = Snapshots(Host(Good).context, Measurements())
    loop.close()
    assert ThreadSnapshots(snapshots, loop).take() is None
