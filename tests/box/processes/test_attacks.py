"""What a program of the sandbox user tries against the holder, the server and the output of others."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.box.processes.test_processes import gone
from tests.support.running import KEY, RunningBox, running_box, wait_until
from tests.support.users import public_directory
from tests.survival.test_restart import holder_of

pytestmark = [pytest.mark.attack, pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")]


@pytest.fixture(scope="module")
def public() -> Iterator[Path]:
    with public_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def box(public: Path) -> Iterator[RunningBox]:
    """A box of root whose programs are those of another user."""
    flags = ("--username", "nobody", "--state-dir", str(public / "state"))
    with running_box(public / "workspace", *flags, environment={"PATH": "/usr/bin:/bin"}) as started:
        yield started


def run(box: RunningBox, shell: str, **asked: Any) -> dict[str, Any]:
    answer = box.client.post("/exec", json={"shell": shell, **asked})
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


def start(box: RunningBox, shell: str, **asked: Any) -> dict[str, Any]:
    answer = box.client.post("/processes", json={"shell": shell, **asked})
    assert answer.status_code == 201, answer.text
    process: dict[str, Any] = answer.json()
    return process


def test_programs_are_the_sandbox_users(box: RunningBox) -> None:
    done = run(box, "id -un; id -G; grep CapEff /proc/self/status")
    user, groups, capabilities = done["stdout"].splitlines()
    assert (user, done["process"]["user"]) == ("nobody", "nobody")
    assert "0" not in groups.split()
    assert capabilities.split()[1] == "0" * 16


def test_a_program_keeps_nothing_of_root(box: RunningBox) -> None:
    done = run(
        box, "grep -e ^Uid -e ^Gid -e ^Groups -e ^Cap -e ^Seccomp: /proc/self/status; ls /proc/self/fd"
    )
    status = dict(line.split(":", 1) for line in done["stdout"].splitlines() if ":" in line)
    assert set(status["Uid"].split()) == {str(pwd.getpwnam("nobody").pw_uid)}
    assert set(status["Gid"].split()) | set(status["Groups"].split()) == {str(pwd.getpwnam("nobody").pw_gid)}
    assert {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}


def test_a_program_begins_only_where_its_user_may_be(box: RunningBox, public: Path) -> None:
    hidden, way = public / "hidden", public / "workspace" / "way"
    (hidden / "open").mkdir(parents=True)
    (hidden / "open").chmod(0o777)
    hidden.chmod(0o700)
    run(box, f"ln -s {hidden}/open way")
    for path in (hidden / "open", hidden, way):
        answer = box.client.post("/exec", json={"argv": ["pwd"], "cwd": str(path)})
        assert (answer.status_code, "Permission denied" in answer.text) == (422, True), answer.text
    hidden.chmod(0o711)
    for path in (hidden / "open", way):
        assert run(box, "pwd -P", cwd=str(path))["stdout"] == f"{hidden}/open\n"


@pytest.mark.parametrize("key", ["", KEY])
def test_a_program_does_not_become_another_user_by_calling_a_box_without_a_key(
    public: Path, key: str
) -> None:
    flags = ("--username", "nobody")
    path = {"PATH": "/usr/bin:/bin"}
    with running_box(public / f"called-{bool(key)}", *flags, key=key, environment=path) as box:
        call = f'curl -s {box.url}/exec -d \'{{"argv": ["id", "-un"], "user": "root"}}\''
        done = run(box, call)
        assert "root\\n" not in done["stdout"]
        assert ("Invalid API Key" if key else "without a key") in done["stdout"], done
        mine = {"argv": ["id", "-un"], "user": "nobody"}
        assert box.client.post("/exec", json=mine).json()["stdout"] == "nobody\n"
        root = box.client.post("/exec", json={**mine, "user": "root"})
        assert (root.status_code, "root" in root.json().get("stdout", "")) == (200 if key else 422, bool(key))


def test_the_state_and_the_logs_of_others_cannot_be_reached(box: RunningBox, public: Path) -> None:
    other = start(box, "echo secret; sleep 600")
    wait_until(lambda: box.client.get(f"/processes/{other['id']}/stdout").text == "secret\n")
    state = public / "state"
    segment = next((state / "programs" / other["id"] / "out").iterdir())
    for attempt in (
        f"ls {state}",
        f"cat {segment}",
        f"echo forged >> {segment}",
        f"rm -rf {state}/programs/{other['id']}",
        f"mv {state} {state}.moved",
        f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{state}/holder.sock\")'",
    ):
        done = run(box, attempt)
        assert done["process"]["exit_code"] != 0, attempt
        assert "ermission" in done["stderr"] or "denied" in done["stderr"], done
    assert box.client.get(f"/processes/{other['id']}/stdout").text == "secret\n"
    assert segment.stat().st_mode & 0o077 == 0
    box.client.delete(f"/processes/{other['id']}")


def test_the_holder_and_the_server_cannot_be_touched(box: RunningBox) -> None:
    other = start(box, "sleep 600")
    for pid in (holder_of(other["pid"]), box.process.pid):
        for attempt in (
            f"kill -9 {pid}",
            f"ls /proc/{pid}/fd",
            f"cat /proc/{pid}/environ",
            f"cat /proc/{pid}/mem",
            f"echo 0 > /proc/{pid}/oom_score_adj",
        ):
            assert run(box, attempt)["process"]["exit_code"] != 0, attempt
    assert box.client.get(f"/processes/{other['id']}").json()["state"] == "running"
    box.client.delete(f"/processes/{other['id']}")


def test_no_variable_and_no_descriptor_leads_to_the_server(box: RunningBox) -> None:
    done = run(box, "env; ls -l /proc/self/fd; cat /proc/$PPID/environ")
    assert box.key not in done["stdout"]
    assert "socket:" not in done["stdout"]
    assert "holder" not in done["stdout"]


def test_nobody_can_say_how_another_program_ended(box: RunningBox) -> None:
    victim = start(box, "read line; exit 3", stdin_open=True)
    holder = holder_of(victim["pid"])
    # Signals to the holder and output with the words of its protocol change nothing.
    run(box, f"kill -CHLD {holder}; kill -TERM {holder}; printf 'E\\1\\0\\0\\0' > /proc/{victim['pid']}/fd/1")
    assert box.client.get(f"/processes/{victim['id']}").json()["state"] == "running"
    box.client.post(f"/processes/{victim['id']}/stdin", params={"close": True}, content=b"x\n")
    ended = box.client.post(f"/processes/{victim['id']}/wait", json={}).json()
    assert (ended["exit_code"], ended["reason"]) == (3, "exit")


def test_what_leaves_its_session_is_killed_all_the_same(box: RunningBox, public: Path) -> None:
    """A daemon that has no parent, no session and no terminal of the process is found by its variable."""
    place = public / "workspace" / "daemon"
    script = (
        "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n"
        f"  open('{place}', 'w').write(str(os.getpid()))\n  time.sleep(600)\n os._exit(0)\ntime.sleep(600)"
    )
    process = start(box, 'exec python3 -c "$SCRIPT"', env={"SCRIPT": script}, cwd=str(public / "workspace"))
    wait_until(lambda: place.exists() and place.read_text())
    daemon = int(place.read_text())
    box.client.delete(f"/processes/{process['id']}")
    wait_until(lambda: gone(daemon))


def test_a_link_in_place_of_the_working_directory_leads_nowhere_forbidden(
    box: RunningBox, public: Path
) -> None:
    (public / "workspace" / "link").symlink_to(public / "state")
    answer = box.client.post("/exec", json={"argv": ["ls"], "cwd": "link"})
    assert (answer.status_code, answer.headers["X-Glovebox-Error"]) == (422, "no_such_directory")


def test_a_flood_of_output_leaves_the_box_usable(box: RunningBox) -> None:
    floods = [start(box, "yes", timeout=2) for _ in range(2)]
    assert run(box, "echo usable")["stdout"] == "usable\n"
    for flood in floods:
        ended = box.client.post(f"/processes/{flood['id']}/wait", json={"timeout": 60}).json()
        assert ended["reason"] == "timeout"
        box.client.delete(f"/processes/{flood['id']}")
    assert run(box, "echo still")["stdout"] == "still\n"
