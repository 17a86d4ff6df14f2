"""The memory monitor writes what the contract says, until it is stopped or its time is over."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading

import pytest

from glovebox.box.system.plugin import MemoryMonitor
from tests.support.running import wait_until

NAME = "glovebox.box.system.plugin"
LINE = re.compile(r"\[Memory usage\] MEM (\d+\.\d{6}) \d+\.\d{4}")


def roots() -> list[int]:
    return [os.getpid()]


def samples(caplog: pytest.LogCaptureFixture) -> list[float]:
    """Mebibytes, as logged."""
    return [float(found[1]) for message in caplog.messages if (found := LINE.fullmatch(message))]


def test_memory_is_logged_with_that_of_children(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    monitor = MemoryMonitor(roots, interval=0.01)
    monitor.start()
    wait_until(lambda: len(samples(caplog)) > 2, what="some lines")
    before = max(samples(caplog))
    code = "data = bytearray(300_000_000); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        wait_until(lambda: samples(caplog)[-1] > before + 250, what="the child's memory")
        child.kill()
    monitor.stop()
    assert caplog.messages[0] == "Memory monitoring started"
    assert caplog.messages[-1] == "Memory monitoring stopped"


def test_it_ends_after_its_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    monitor = MemoryMonitor(roots, interval=0.01, longest=0.05)
    monitor.start()
    wait_until(lambda: not any(one.name == "memory-monitor" for one in threading.enumerate()), what="its end")
    assert 1 <= len(samples(caplog)) <= 6
    monitor.stop()
    assert caplog.messages.count("Memory monitoring stopped") == 1


def test_a_failure_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)

    def broken() -> list[int]:
        raise OSError("no such thing")

    monitor = MemoryMonitor(broken)
    monitor.start()
    wait_until(lambda: "Memory monitoring failed: no such thing" in caplog.messages, what="the line")
    monitor.stop()


def test_without_a_start_there_is_nothing_to_stop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    MemoryMonitor(roots).stop()
    assert caplog.messages == []
