from __future__ import annotations

import subprocess
import sys

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.system.stats import Stats
from glovebox.protocol.actions import FileReadAction


def test_a_look_tells_what_the_process_uses() -> None:
    stats = Stats()
    look = stats.look()
    assert look.resources.memory.rss > 1_000_000
    assert 0 < look.resources.memory.percent < 100
    assert look.resources.disk.total >= look.resources.disk.used > 0
    assert look.resources.io.read_bytes >= 0


def test_cpu_is_measured_between_looks() -> None:
    stats = Stats()
    stats.look()
    sum(number * number for number in range(1_000_000))
    assert stats.look().resources.cpu_percent > 0


def test_idle_time_begins_anew_with_every_action() -> None:
    stats = Stats()
    before = stats.look()
    assert before.idle_time == before.uptime
    stats.started(FileReadAction(path="x"), Call("one", EventLog()))
    after = stats.look()
    assert after.idle_time < after.uptime


def test_the_first_look_tells_the_cpu_time_since_the_process_began() -> None:
    busy = "sum(number * number for number in range(3_000_000)); "
    code = f"from glovebox.box.system.stats import Stats; {busy}print(Stats().look().resources.cpu_percent)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 0 < float(told) <= 110


def test_looks_at_the_same_time_tell_the_same() -> None:
    stats = Stats()
    first = stats.look().resources.cpu_percent
    assert first > 0
    assert stats.look().resources.cpu_percent == first
