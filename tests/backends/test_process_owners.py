"""Who started a box, and whether that client is gone."""

from __future__ import annotations

import os
import subprocess
import sys

from glovebox.backends import owners


def test_a_process_is_there_until_it_has_ended() -> None:
    script = "from glovebox.backends import owners; print(owners.this_process(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert owners.is_gone(owner) is False
        assert owner != owners.this_process()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owners.is_gone(owner) is True  # nobody has taken leave of it yet, but it has ended
    assert owners.is_gone(owner) is True


def test_a_later_process_of_the_same_number_is_another_one() -> None:
    machine, boot, namespace, pid, start = owners.this_process().split(":")
    assert owners.is_gone(f"{machine}:{boot}:{namespace}:{pid}:{int(start) - 1}") is True


def test_a_restart_of_the_machine_ends_everything() -> None:
    machine, _, rest = owners.this_process().split(":", 2)
    assert owners.is_gone(f"{machine}:an-earlier-boot:{rest}") is True


def test_of_other_machines_and_containers_nothing_is_known() -> None:
    machine, boot, namespace, rest = owners.this_process().split(":", 3)
    assert owners.is_gone(f"{machine[::-1]}:{boot}:{namespace}:{rest}") is None
    assert owners.is_gone(f"{machine}:{boot}:1{namespace}:{rest}") is None
    assert owners.is_gone("somebody") is None
    assert owners.is_gone("") is None
