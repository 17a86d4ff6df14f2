from __future__ import annotations

from glovebox.box.system.stats import Stats


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
    stats.action_accepted()
    after = stats.look()
    assert after.idle_time < after.uptime
