"""Stopping, upgrading and losing servers and holders, in good order and without any."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.running import running_box, wait_until
from tests.support.waiting import LIMIT
from tests.survival.mortal import MortalBox, mortal_box
from tests.survival.test_survival import Asked, alive, running_command


def holder_of(shell: int) -> int:
    """The process that holds a shell."""
    with open(f"/proc/{shell}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_sessions_that_are_to_be_kept_outlive_a_server_that_is_stopped(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--keep-sessions") as box:
        box.execute("run", command="export KEPT=yes")
        box.execute("run", command="cd /", session="other")
        asked = Asked(box, 'while [ ! -e go ]; do sleep 0.02; done; echo "kept $KEPT"')
        running_command(box)
        before = box.get("/sessions").json()
        box.stop()
        asked.after_kill()
        assert all(alive(one["pid"]) for one in before)
        box.start()
        after = {one["name"]: one for one in box.get("/sessions").json()}
        assert {name: one["pid"] for name, one in after.items()} == {
            one["name"]: one["pid"] for one in before
        }
        assert after["other"]["cwd"] == "/"
        (box.workspace / "go").touch()
        assert asked.again()["content"] == "kept yes"


#: Leaves its session and its parents, as daemons do, and says who it is.
DAEMON = """
import os, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open("daemon.tmp", "w") as file:
    file.write(str(os.getpid()))
os.rename("daemon.tmp", "daemon")
time.sleep(1000)
"""


def test_stopping_a_server_leaves_nothing_behind(tmp_path: Path) -> None:
    box = MortalBox(tmp_path)
    (box.workspace / "daemon.py").write_text(DAEMON)
    box.start()
    commands = ("sleep 1000 &", "nohup sleep 1000 &")
    jobs = [box.execute("run", command=command)["extras"]["metadata"]["pid"] for command in commands]
    box.execute("run", command=f"disown; {sys.executable} daemon.py", session="two")
    wait_until((box.workspace / "daemon").exists, what="the daemon")
    box.execute("run", command="sleep 1000", session="two", timeout=0.2)
    shells = [one["pid"] for one in box.get("/sessions").json()]
    running = [*jobs, *shells, holder_of(shells[0]), int((box.workspace / "daemon").read_text())]
    assert all(map(alive, running))
    box.stop()
    wait_until(lambda: not any(map(alive, running)), what="the end of everything")
    assert list((box.state / "sessions").iterdir()) == []
    assert not (box.state / "holder.sock").exists()


def test_ending_a_session_ends_what_it_started(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        (box.workspace / "daemon.py").write_text(DAEMON)
        kept = box.execute("run", command="sleep 1000 &")["extras"]["metadata"]["pid"]
        job = box.execute("run", command="sleep 1000 &", session="two")["extras"]["metadata"]["pid"]
        box.execute("run", command=f"{sys.executable} daemon.py", session="two")
        wait_until((box.workspace / "daemon").exists, what="the daemon")
        daemon = int((box.workspace / "daemon").read_text())
        assert alive(job)
        assert alive(daemon)
        with box.client() as client:
            assert client.delete("/sessions/two").status_code == 204
        wait_until(lambda: not alive(job) and not alive(daemon), what="the end of its processes")
        assert alive(kept)


def test_without_a_state_directory_shells_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with running_box(workspace, environment={"TMPDIR": str(temporary)}) as box:
        box.execute("run", command="sleep 1000", timeout=0.2)
        shell = box.client.get("/sessions").json()[0]["pid"]
        holder = holder_of(shell)
        assert list(temporary.iterdir())
        box.process.send_signal(signal.SIGKILL)
        box.process.wait(LIMIT)
        wait_until(lambda: not alive(shell) and not alive(holder), what="the end of shell and holder")
        wait_until(lambda: not list(temporary.iterdir()), what="nothing to be left")


def test_a_holder_that_is_killed_costs_its_shells_and_nothing_else(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        box.execute("run", command="mkdir sub; cd sub")
        asked = Asked(box, "echo before; sleep 1000", blocking=True)
        command = running_command(box)
        wait_until(lambda: box.get(f"/commands/{command}").json()["output_bytes"] > 0, what="output")
        os.kill(holder_of(box.get("/sessions").json()[0]["pid"]), signal.SIGKILL)
        asked.after_kill()
        assert asked.answer is not None
        assert asked.answer["content"] == "before"
        assert "The shell itself ended" in asked.answer["extras"]["metadata"]["suffix"]
        assert asked.answer["extras"]["metadata"]["exit_code"] == -1
        assert box.execute("run", command="pwd")["content"] == str(box.workspace / "sub")
        assert box.get(f"/commands/{command}/output", format="raw").content == b"before\r\n"


def test_without_its_holder_a_server_that_comes_back_still_has_the_output(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        asked = Asked(box, "echo before; sleep 1000", blocking=True)
        command = running_command(box)
        wait_until(lambda: box.get(f"/commands/{command}").json()["output_bytes"] > 0, what="output")
        holder = holder_of(box.get("/sessions").json()[0]["pid"])
        box.kill()
        os.kill(holder, signal.SIGKILL)
        wait_until(lambda: not alive(holder), what="the end of the holder")
        box.start()
        answer = asked.again()
        assert answer["content"] == "before"
        assert answer["extras"]["metadata"]["exit_code"] == -1
        assert box.get(f"/commands/{command}/output", format="raw").content == b"before\r\n"
        assert box.execute("run", command="echo fresh")["content"] == "fresh"


def test_a_static_command_is_picked_up_too(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        asked = Asked(box, "touch runs; while [ ! -e go ]; do sleep 0.02; done; pwd", is_static=True)
        wait_until((box.workspace / "runs").exists, what="it to run")
        box.kill()
        asked.after_kill()
        box.start()
        (box.workspace / "go").touch()
        assert asked.again()["content"] == str(box.workspace)
        wait_until(lambda: len(box.get("/sessions").json()) == 1, what="its session to end")


def test_a_state_directory_belongs_to_one_server_at_a_time(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        second = subprocess.run(
            [sys.executable, "-m", "glovebox", "serve", "0", "--state-dir", str(box.state)],
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "HOME": str(tmp_path)},
            cwd=tempfile.gettempdir(),
            check=False,
        )
        assert second.returncode == 3
        assert "Another box uses the state directory" in second.stderr
        assert box.execute("run", command="echo still here")["content"] == "still here"


def test_shells_that_no_server_comes_back_for_end_in_time(tmp_path: Path) -> None:
    box = MortalBox(tmp_path, "--orphan-seconds", "1")
    box.start()
    shell = box.get("/sessions").json()[0]["pid"]
    wait_until(lambda: box.get("/sessions").json()[0]["pid"] is not None, what="the shell")
    shell = box.get("/sessions").json()[0]["pid"]
    box.kill()
    wait_until(lambda: not alive(shell), what="the end of the shell")
    box.start()
    assert box.execute("run", command="echo new")["content"] == "new"
    box.stop()


def test_the_key_is_nowhere_in_the_holder_or_its_shells(tmp_path: Path) -> None:
    with mortal_box(tmp_path) as box:
        assert box.execute("run", command="env | grep -c SESSION_API_KEY")["content"] == "0"
        shell = box.get("/sessions").json()[0]["pid"]
        for pid in (shell, holder_of(shell)):
            assert b"SESSION_API_KEY" not in Path(f"/proc/{pid}/environ").read_bytes()
