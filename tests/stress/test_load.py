"""Many commands of many shapes on a machine that is busy with something else: every answer is right."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from benchmarks.load import Address, Request, drive_through

from tests.support.running import KEY, RunningBox, running_box, wait_until

COMMANDS = 20_000
SESSIONS = 6
#: More connections, which share the main session.
SHARING = 2
#: Uses a core until it is killed, or its parent is gone.
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"

Shape = Callable[[int], tuple[str, str, int]]


def echo(number: int) -> tuple[str, str, int]:
    return f"echo word{number}", f"word{number}", 0


def several_lines(number: int) -> tuple[str, str, int]:
    command = f'for i in 1 2 3; do\n  if [ "$i" != 2 ]; then\n    echo "{number} $i"\n  fi\ndone'
    return command, f"{number} 1\n{number} 3", 0


def here_document(number: int) -> tuple[str, str, int]:
    return f"cat <<'END'\n{number} $HOME `x`\n!!\nEND", f"{number} $HOME `x`\n!!", 0


def failure(number: int) -> tuple[str, str, int]:
    status = number % 200 + 1
    return f"(echo failing {number} >&2; exit {status})", f"failing {number}", status


def silence(number: int) -> tuple[str, str, int]:
    return f"[ {number} -gt {number % 2 * number} ]", "", number % 2


def long_line(number: int) -> tuple[str, str, int]:
    text = ",".join(f"{number}.{place}" for place in range(5_000))[:4_995]
    return f"echo {text}", text, 0


def many_lines(number: int) -> tuple[str, str, int]:
    return f"seq {number} {number + 199}", "\n".join(map(str, range(number, number + 200))), 0


def unicode(number: int) -> tuple[str, str, int]:
    return f"echo 'größer — 漢字 🦊 é {number}'", f"größer — 漢字 🦊 é {number}", 0


SHAPES: list[Shape] = [
    echo,
    several_lines,
    here_document,
    failure,
    silence,
    long_line,
    many_lines,
    unicode,
]


class Asking:
    """Makes requests to a box, with the exact answers they must have."""

    def __init__(self, box: RunningBox) -> None:
        parts = urlsplit(box.url)
        self.address: Address = (parts.hostname or "", parts.port or 0)
        self._host = parts.netloc

    def run(self, command: str, session: str, content: str, status: int, cwd: str = "") -> Request:
        """A command, what it prints, its exit code, and where it leaves the shell if that is told."""
        args = {"command": command, "session": session}
        body = json.dumps({"action": {"action": "run", "args": args, "timeout": 110}}).encode()
        head = (
            f"POST /execute_action HTTP/1.1\r\nHost: {self._host}\r\nX-Session-API-Key: {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )

        def check(http_status: int, answer: bytes) -> bool:
            if http_status != 200:
                return False
            observation: dict[str, Any] = json.loads(answer)
            metadata = observation["extras"]["metadata"]
            return (
                observation["content"] == content
                and metadata["exit_code"] == status
                and cwd in ("", metadata["working_dir"])
            )

        return Request(head.encode() + body, check)

    def own_session(self, session: str, count: int, folders: list[Path]) -> list[Request]:
        """Commands of every shape for a session that nobody else uses, so that its state is known."""
        script: list[Request] = []
        for number in range(count):
            turn = number % (len(SHAPES) + 2)
            if turn < len(SHAPES):
                command, content, status = SHAPES[turn](number)
                script.append(self.run(command, session, content, status))
            elif turn == len(SHAPES):
                folder = str(folders[number // len(SHAPES) % len(folders)])
                script.append(self.run(f"cd '{folder}' && pwd", session, folder, 0, cwd=folder))
            else:  # one command lost or carried out twice, and all that follow are wrong
                counted = number // (len(SHAPES) + 2) + 1
                command = "count=$((count + 1)); echo count $count"
                script.append(self.run(command, session, f"count {counted}", 0))
        return script

    def shared_session(self, session: str, count: int, first: int) -> list[Request]:
        """Commands that do not depend on what others do in their session."""
        shaped = (SHAPES[number % len(SHAPES)](number) for number in range(first, first + count))
        return [self.run(command, session, content, status) for command, content, status in shaped]


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Every core has something else to do."""
    busy = [subprocess.Popen([sys.executable, "-I", "-S", "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


class Family:
    """The server of a box, its holder and its shells."""

    def __init__(self, box: RunningBox) -> None:
        self.server = psutil.Process(box.process.pid)
        self.members = [self.server, *self.server.children(recursive=True)]

    def descriptors(self) -> list[int]:
        return [process.num_fds() for process in self.members]

    def zombies(self) -> list[psutil.Process]:
        children = self.server.children(recursive=True)
        return [child for child in children if child.status() == psutil.STATUS_ZOMBIE]

    def has_settled(self, descriptors: list[int]) -> bool:
        """Whether nothing is left of the commands: no process, no zombie, no descriptor."""
        if {self.server, *self.server.children(recursive=True)} != set(self.members):
            return False
        return all(now <= before for now, before in zip(self.descriptors(), descriptors, strict=True))


@pytest.mark.timeout(900)  # one or two minutes on two cores that others use as well
def test_twenty_thousand_commands_on_busy_cores_are_all_answered_rightly_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / name for name in ("plain", "with space", "ümläut")]
    for folder in folders:
        folder.mkdir()
    with running_box(tmp_path / "workspace") as box:
        names = [f"worker-{number}" for number in range(SESSIONS)]
        for name in names:
            assert box.client.post("/sessions", json={"name": name}).status_code == 201
        for name in ("main", *names):
            assert box.run("echo ready", session=name) == "ready"
        family = Family(box)
        descriptors = family.descriptors()
        assert len(family.members) == 2 + 1 + SESSIONS, "the server, the holder and a shell per session"

        asking, each = Asking(box), COMMANDS // (SESSIONS + SHARING)
        scripts = [asking.own_session(name, each, folders) for name in names]
        scripts += [asking.shared_session("main", each, number * each) for number in range(SHARING)]
        with busy_cores():
            outcome = drive_through(asking.address, scripts, 840)

        assert (outcome.wrong, outcome.unanswered, outcome.reconnects) == (0, 0, 0), outcome.example
        assert outcome.right == COMMANDS
        wait_until(lambda: family.has_settled(descriptors), what="the end of everything commands used")
        assert family.zombies() == []
