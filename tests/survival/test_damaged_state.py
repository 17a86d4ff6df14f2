"""A damaged state directory: the box starts, what is damaged is moved aside and named, the rest is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.running import wait_until
from tests.survival.mortal import MortalBox, mortal_box
from tests.survival.test_restart import holder_of
from tests.survival.test_survival import Asked, alive, running_command

pytestmark = pytest.mark.attack


@pytest.fixture
def box(tmp_path: Path) -> Iterator[MortalBox]:
    """Two sessions with some history, and then nobody serves them."""
    with mortal_box(tmp_path) as box:
        box.execute("run", command="X=main; cd /")
        for number in range(6):
            box.execute("run", command=f"echo line-{number}")
        box.execute("run", command="Y=other; echo intact", session="other", key="of-other")
        yield box


def pids(box: MortalBox) -> dict[str, int]:
    return {one["name"]: one["pid"] for one in box.get("/sessions").json()}


def damaged(box: MortalBox) -> list[str]:
    names: list[str] = box.get("/startup").json()["damaged"]
    assert sorted(os.listdir(box.state / "damaged") if (box.state / "damaged").exists() else []) == names
    return names


def restarted(box: MortalBox, damage: Callable[[Path], object]) -> dict[str, int]:
    """The shells before, of a box whose state is damaged while nobody serves it."""
    before = pids(box)
    box.kill()
    damage(box.state)
    box.start()
    return before


def journal(state: Path, name: str = "main") -> Path:
    return state / "sessions" / name / "journal"


def log_of(state: Path, name: str = "main") -> Path:
    return sorted((state / "sessions" / name / "log").iterdir())[-1]


def check_other(box: MortalBox, before: dict[str, int]) -> None:
    """The session that was not damaged lost nothing."""
    assert pids(box)["other"] == before["other"]
    assert box.execute("run", command="echo $Y", session="other")["content"] == "other"
    again = box.execute("run", command="Y=other; echo intact", session="other", key="of-other")
    assert again["content"] == "intact"


def test_a_journal_that_is_no_text_costs_the_lines_that_are_none(box: MortalBox) -> None:
    def damage(state: Path) -> None:
        lines = journal(state).read_bytes().split(b"\n")
        lines[-5] = lines[-5][:40] + b"\xff\xfe\x80" + lines[-5][43:]
        journal(state).write_bytes(b"\n".join(lines))

    before = restarted(box, damage)
    check_other(box, before)
    assert pids(box) == before
    assert box.execute("run", command="echo $X; pwd")["content"] == "main\n/"
    assert [name.partition("-")[2] for name in damaged(box)] == ["sessions_main_journal"]
    box.kill()
    box.start()
    assert pids(box) == before
    assert len(damaged(box)) == 1  # what was rewritten is intact


@pytest.mark.parametrize("kind", ["file", "directory", "link", "pipe", "number"])
def test_something_among_the_logs_is_moved_aside(box: MortalBox, kind: str, tmp_path: Path) -> None:
    def damage(state: Path) -> None:
        stray = log_of(state).parent / ("core.1234" if kind != "number" else "17")
        if kind == "directory":
            stray.mkdir()
            (stray / "inside").write_text("x")
        elif kind == "link":
            stray.symlink_to("/dev/zero")
        elif kind == "pipe":
            os.mkfifo(stray)
        else:
            stray.write_bytes(b"x" * 100)

    before = restarted(box, damage)
    assert pids(box) == before
    assert box.execute("run", command="echo $X")["content"] == "main"
    box.execute("run", command="exit")  # a new shell goes on in the same directory
    assert box.execute("run", command="echo new")["content"] == "new"
    check_other(box, before)
    assert len(damaged(box)) == 1
    assert "sessions_main_log" in damaged(box)[0]


@pytest.mark.parametrize("size", [0, 1, 700])
def test_the_log_of_a_living_shell_may_be_cut_short(box: MortalBox, size: int) -> None:
    lines = [box.execute("run", command=f"echo {number}" + " x" * 200)["details"] for number in range(3)]
    before = restarted(box, lambda state: os.truncate(log_of(state), size))
    check_other(box, before)
    assert pids(box) == before
    assert box.execute("run", command="echo $X")["content"] == "main"
    assert box.execute("run", command="seq 3")["content"] == "1\n2\n3"
    with box.client() as client:
        lost = client.get(f"/commands/{lines[-1]['command']['id']}/output", params={"format": "raw"})
    assert (lost.status_code, lost.headers.get("X-Glovebox-Error")) == (410, "output_gone")


@pytest.mark.parametrize("size", [0, 700])
def test_new_output_is_never_taken_for_what_a_lost_log_held(box: MortalBox, size: int) -> None:
    old = box.execute("run", command="echo old" + " x" * 300)["details"]["command"]["id"]
    holder = holder_of(pids(box)["main"])

    def damage(state: Path) -> None:
        os.kill(holder, signal.SIGKILL)
        wait_until(lambda: not alive(holder), what="the end of the holder")
        os.truncate(log_of(state), size)

    restarted(box, damage)
    assert "new" in box.execute("run", command="echo new" + " y" * 3000)["content"]
    with box.client() as client:
        assert client.get(f"/commands/{old}/output", params={"format": "raw"}).status_code == 410


def test_a_command_that_runs_is_still_known_when_its_log_is_cut_short(box: MortalBox) -> None:
    asked = Asked(box, "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done; (exit 3)")
    command = running_command(box)
    box.execute("run", command=f"cd {box.workspace}", session="other")
    before = restarted(box, lambda state: os.truncate(log_of(state), 300))
    asked.after_kill()
    assert pids(box) == before
    assert box.get(f"/commands/{command}").json()["state"] != "ended"
    box.execute("run", command="touch /go", session="other")
    try:
        answer = asked.again()
    finally:
        Path("/go").unlink()
    assert answer["content"].endswith("done")
    assert answer["extras"]["metadata"]["exit_code"] == 3


def test_a_command_that_ended_is_known_to_have_when_its_log_is_cut_short(box: MortalBox) -> None:
    asked = Asked(box, f"cd {box.workspace}; while [ ! -e go ]; do sleep 0.02; done; touch done; (exit 3)")
    running_command(box)

    def damage(state: Path) -> None:
        (box.workspace / "go").touch()
        wait_until((box.workspace / "done").exists, what="the end of the command")
        os.truncate(log_of(state), 300)

    before = restarted(box, damage)
    asked.after_kill()
    assert pids(box) == before
    assert asked.again()["extras"]["metadata"]["exit_code"] == 3
    assert box.execute("run", command="echo $X")["content"] == "main"


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_journal_that_is_cut_short_costs_what_is_cut(box: MortalBox, part: float) -> None:
    def damage(state: Path) -> None:
        os.truncate(journal(state), int(journal(state).stat().st_size * part))

    before = restarted(box, damage)
    check_other(box, before)
    answer = box.execute("run", command="echo one")
    assert answer["content"].splitlines()[-1:] == ["one"], answer
    assert pids(box) == before
    assert box.execute("run", command="echo $X")["content"] == "main"


def test_a_command_that_a_cut_journal_does_not_know_is_not_typed_into(box: MortalBox) -> None:
    Asked(box, f"cat >{box.workspace}/typed", timeout=600)
    running_command(box)

    def damage(state: Path) -> None:
        os.truncate(journal(state), journal(state).stat().st_size // 2)

    before = restarted(box, damage)
    assert pids(box) == before
    refused = box.execute("run", command="echo $X", timeout=5)
    assert "NOT executed" in refused["extras"]["metadata"]["suffix"]
    box.execute("run", command="C-c", is_input=True)
    assert (box.workspace / "typed").read_bytes() == b""
    assert box.execute("run", command="echo $X")["content"] == "main"


def test_a_session_of_which_nothing_is_known_is_ended(box: MortalBox) -> None:
    def damage(state: Path) -> None:
        with journal(state).open("r+b") as file:
            file.write(b"\0" * 200)

    before = restarted(box, damage)
    check_other(box, before)
    wait_until(lambda: not alive(before["main"]), what="the end of its shell")
    assert box.execute("run", command="echo new $X")["content"] == "new"
    names = damaged(box)
    assert [name.partition("-")[2] for name in names] == ["sessions_main_journal", "sessions_main"]
    assert list((box.state / "damaged" / names[1] / "log").iterdir())


def test_a_torn_last_line_is_nothing_to_speak_of(box: MortalBox) -> None:
    def damage(state: Path) -> None:
        os.truncate(journal(state), journal(state).stat().st_size - 10)
        os.truncate(state / "answers", (state / "answers").stat().st_size - 10)

    before = restarted(box, damage)
    assert pids(box) == before
    assert damaged(box) == []


def test_lines_that_are_out_of_order_or_repeated_are_put_right(box: MortalBox) -> None:
    known = box.execute("run", command="echo known")["details"]["command"]["id"]

    def damage(state: Path) -> None:
        lines = journal(state).read_bytes().splitlines(keepends=True)
        journal(state).write_bytes(b"".join([*reversed(lines), *lines]))

    before = restarted(box, damage)
    check_other(box, before)
    assert pids(box) == before
    assert box.get(f"/commands/{known}/output", format="raw").content == b"known\r\n"
    assert box.execute("run", command="echo $X")["content"] == "main"
    assert len(damaged(box)) == 1


def test_files_of_a_former_version_are_read(box: MortalBox) -> None:
    known = box.execute("run", command="echo known", key="known")["details"]["command"]["id"]

    def damage(state: Path) -> None:
        for path in (journal(state), journal(state, "other"), state / "answers"):
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(line.split(b" ", 2)[2] for line in lines))

    before = restarted(box, damage)
    check_other(box, before)
    assert pids(box) == before
    again = box.execute("run", command="echo known", key="known")
    assert (again["content"], again["details"]["command"]["id"]) == ("known", known)
    assert damaged(box) == []


def test_a_holder_that_cannot_be_found_any_more_is_ended(box: MortalBox) -> None:
    holder = holder_of(pids(box)["main"])
    before = restarted(box, lambda state: (state / "holder.sock").unlink())
    wait_until(lambda: not any(map(alive, [holder, *before.values()])), what="the end of holder and shells")
    assert box.execute("run", command="pwd")["content"] == "/"  # where it was


#: What each file may be found to be instead.
ENTRIES = ["lock", "sessions", "kept", "answers", "answers.old", "holder.sock", "holder.log", "damaged",
           "sessions/main/journal", "sessions/main/log", "sessions/main"]  # fmt: skip


@pytest.mark.parametrize("kind", ["directory", "link", "pipe", "device", "garbage"])
def test_whatever_is_found_in_place_of_a_file_the_box_starts(
    box: MortalBox, kind: str, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("untouched")

    def damage(state: Path) -> None:
        for entry in ENTRIES:
            path = state / entry
            if not path.parent.is_dir():
                continue
            if path.exists():
                path.rename(tmp_path / entry.replace("/", "-"))
            make(path)

    def make(path: Path) -> None:
        if kind == "directory":
            path.mkdir()
            (path / "inside").write_text("x")
        elif kind == "link":
            path.symlink_to(target)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "device" and os.geteuid() == 0:
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
        else:
            path.write_bytes(os.urandom(1000))

    before = restarted(box, damage)
    assert box.execute("run", command="echo new")["content"] == "new"
    assert box.execute("run", command="echo again", key="k")["content"] == "again"
    assert damaged(box)
    wait_until(lambda: not any(map(alive, before.values())), what="the end of the shells before")
    assert target.read_text() == "untouched"


def test_a_giant_file_is_not_read(box: MortalBox) -> None:
    before = restarted(box, lambda state: os.truncate(journal(state), 1 << 40))
    check_other(box, before)
    assert box.execute("run", command="echo new")["content"] == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_another_user_has_put_there_is_not_believed(box: MortalBox) -> None:
    def damage(state: Path) -> None:
        os.chown(journal(state), 65534, 65534)
        os.chown(state / "answers", 65534, 65534)

    before = restarted(box, damage)
    assert pids(box)["main"] != before["main"]
    assert len(damaged(box)) == 3  # with what else the session had
    assert pids(box)["other"] == before["other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o777)
    os.chown(state, 65534, 65534)
    command = [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(tmp_path)]
    refused = subprocess.run(
        [*command, "--state-dir", str(state)], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 3
    assert "belongs to user 65534" in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_other_users_cannot_put_anything_there(box: MortalBox) -> None:
    for directory in (box.state, journal(box.state).parent, log_of(box.state).parent):
        refused = subprocess.run(["touch", str(directory / "planted")], user=65534, capture_output=True)
        assert refused.returncode != 0
        assert not (directory / "planted").exists()


def test_shells_of_tmux_are_found_in_a_damaged_directory_too(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--terminal", "tmux") as box:
        box.execute("run", command="X=main; cd /")

        def damage(state: Path) -> None:
            os.truncate(log_of(state), 100)
            (log_of(state).parent / "core").touch()
            (state / "answers").unlink()
            (state / "answers").mkdir()

        before = restarted(box, damage)
        assert pids(box) == before
        assert box.execute("run", command="echo $X")["content"] == "main"
        assert len(damaged(box)) == 2


def test_kernels_of_which_nothing_is_known_are_ended(tmp_path: Path) -> None:
    with mortal_box(tmp_path, "--plugins", "jupyter") as box:
        for kernel in ("main", "other"):
            box.execute("run_ipython", code="x = 1", kernel=kernel)
        before = [one["pid"] for one in box.get("/kernels").json()]
        restarted(box, lambda state: (state / "kernels.json").write_bytes(b"\0" * 500))
        assert "NameError" in box.execute("run_ipython", code="x")["content"]
        wait_until(lambda: not any(map(alive, before)), 20, "the end of the kernels")
        assert [name.partition("-")[2] for name in damaged(box)] == ["kernels.json"]
