"""A server that is killed loses nothing: the next one has the shells, the commands and every byte."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.running import wait_until
from tests.support.waiting import LIMIT
from tests.survival.mortal import MortalBox, mortal_box

KILLS = 100
#: That are killed at the same time.
BOXES = 2
#: Prints numbers, hardly ever pausing, until it is told to stop.
COUNT = """
import os, time
number = 0
while not os.path.exists("stop"):
    print(number, flush=True)
    number += 1
    time.sleep(0.0002)
print("last", number)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Asked:
    """An action that is asked for, and asked for again by its key when the server was killed meanwhile."""

    def __init__(self, box: MortalBox, command: str, **args: Any) -> None:
        self.box = box
        self.key = uuid.uuid4().hex
        self.args = {"command": command, "timeout": 60, **args}
        self.answer: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        with contextlib.suppress(httpx.TransportError):
            self.answer = self.box.execute("run", key=self.key, **self.args)

    def after_kill(self) -> None:
        """The connection breaks with the server."""
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()

    def again(self) -> dict[str, Any]:
        """Ask again with the same key."""
        return self.box.execute("run", key=self.key, **self.args)


def running_command(box: MortalBox, session: str = "main") -> str:
    """The id of the command that runs."""
    wait_until(lambda: box.get(f"/sessions/{session}").json()["command"] is not None, what="a command")
    command: str = box.get(f"/sessions/{session}").json()["command"]
    return command


def test_a_kill_in_the_middle_of_a_command_loses_neither_it_nor_its_output(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        box.execute("run", command="X=kept; mkdir sub; cd sub")
        script = 'echo "begin $X"; while [ ! -e ../go ]; do sleep 0.02; done; echo "end $X"; (exit 7)'
        asked = Asked(box, script)
        command = running_command(box)
        before = box.get("/sessions").json()
        box.kill()
        asked.after_kill()
        assert alive(before[0]["pid"])
        box.start()
        after = box.get("/sessions").json()
        assert [(one["name"], one["pid"], one["command"]) for one in after] == [
            (one["name"], one["pid"], one["command"]) for one in before
        ]
        assert box.get(f"/commands/{command}").json()["state"] != "ended"
        (box.workspace / "go").touch()
        answer = asked.again()
        assert answer["content"] == "begin kept\nend kept"
        assert answer["extras"]["metadata"]["exit_code"] == 7
        assert answer["extras"]["metadata"]["prefix"] == ""
        assert answer["extras"]["metadata"]["working_dir"] == str(box.workspace / "sub")
        assert box.get(f"/commands/{command}/output", format="raw").content == b"begin kept\r\nend kept\r\n"
        assert box.execute("run", command="echo $X $?; pwd")["content"] == f"kept 7\n{box.workspace}/sub"


def test_a_command_that_ends_while_nobody_serves_is_answered_afterwards(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        asked = Asked(box, "while [ ! -e go ]; do sleep 0.02; done; seq 1000; touch done")
        command = running_command(box)
        box.kill()
        asked.after_kill()
        (box.workspace / "go").touch()
        wait_until((box.workspace / "done").exists, what="the command to end")
        box.start()
        answer = asked.again()
        assert answer["content"].split() == [str(number) for number in range(1, 1001)]
        assert answer["details"]["command"]["id"] == command
        assert asked.again() == answer
        box.kill()
        box.start()
        assert asked.again()["content"] == answer["content"]
        assert box.get(f"/commands/{command}").json()["exit_code"] == 0
        raw = box.get(f"/commands/{command}/output", format="raw").content
        assert raw.split() == [str(number).encode() for number in range(1, 1001)]


def test_output_that_was_reported_before_the_kill_is_not_reported_again(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        first = box.execute("run", command="echo one; read -r x; echo two; read -r x; echo three", timeout=2)
        assert first["content"] == "one"
        box.kill()
        box.start()
        second = box.execute("run", command="go", is_input=True, timeout=2)
        assert (second["content"], second["extras"]["metadata"]["prefix"]) == (
            "two",
            "[Below is the output of the previous command.]\n",
        )
        box.kill()
        box.start()
        refused = box.execute("run", command="echo new")
        assert "NOT executed" in refused["extras"]["metadata"]["suffix"]
        assert box.execute("run", command="go", is_input=True)["content"] == "three"


def test_input_with_a_key_is_typed_once(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        box.execute("run", command='while read -r line; do echo "got $line"; done', timeout=0.3)
        asked = Asked(box, "word", is_input=True, blocking=True, timeout=3)
        command = running_command(box)
        wait_until(lambda: box.get(f"/commands/{command}").json()["output_bytes"] > 0, what="an echo")
        box.kill()
        asked.after_kill()
        box.start()
        assert asked.again()["content"] == "got word"
        raw = box.get(f"/commands/{command}/output", format="raw").content
        assert raw.count(b"got word") == 1


@pytest.mark.timeout(900)
def test_a_hundred_kills_at_random_moments_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Numbers are printed without a pause while servers come and go; each must be there once.

    Starting takes most of the time, so several boxes share the kills.
    """
    with ThreadPoolExecutor(BOXES) as threads:
        folders = [tmp_path / str(number) for number in range(BOXES)]
        outcomes = [
            threads.submit(count_through_kills, folder, KILLS // BOXES, random.Random(1807 + number))
            for number, folder in enumerate(folders)
        ]
    for outcome in outcomes:
        outcome.result()


def count_through_kills(directory: Path, kills: int, chance: random.Random) -> None:
    """Kill a server that often while numbers are printed, and see each of them once."""
    directory.mkdir()
    with mortal_box(directory) as box:
        (box.workspace / "count.py").write_text(COUNT)
        asked = Asked(box, f"{sys.executable} count.py", blocking=True, timeout=600)
        command = running_command(box)
        offset, seen = 0, b""
        for _ in range(kills):
            wanted = offset + chance.randrange(1, 4_000)
            while offset < wanted:
                piece = box.get(f"/commands/{command}/output", format="raw", offset=offset).content
                seen += piece
                offset += len(piece)
            box.kill()
            box.start()
        asked.after_kill()
        (box.workspace / "stop").touch()
        answer = asked.again()
        seen += box.get(f"/commands/{command}/output", format="raw", offset=offset, limit=1 << 30).content
        lines = seen.decode().split("\r\n")
        count = len(lines) - 2
        assert lines == [*map(str, range(count)), f"last {count}", ""]
        assert answer["extras"]["metadata"]["exit_code"] == 0
        assert answer["content"].endswith(f"last {count}")
        assert box.execute("run", command="echo alive")["content"] == "alive"
