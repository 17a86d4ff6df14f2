from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from pathlib import Path

from tests.cli.support import Home, Window


def test_boxes_are_listed_as_a_table_as_json_and_by_name(home: Home, box: str) -> None:
    table = home.glovebox("ls", "--backend", "all")
    assert (table.returncode, table.stderr) == (0, "")
    head, *rows = table.stdout.splitlines()
    assert head.split() == ["NAME", "BACKEND", "STATE", "AGE", "URL", "MADE", "OF"]
    [row] = [row for row in rows if row.startswith(f"{box} ")]
    assert "process  running, kept" in row
    assert "http://127.0.0.1:" in row
    [info] = [info for info in home.listed() if info["name"] == box]
    assert (info["backend"], info["state"], info["keep"]) == ("process", "running", True)
    assert "key" not in info
    assert home.glovebox("ls", "--names", "--backend", "process").stdout.split() == [box]


def test_a_backend_that_is_named_must_answer(home: Home) -> None:
    refused = home.glovebox("ls", "--backend", "docker")
    assert refused.returncode == 1
    assert "no-engine.sock" in refused.stderr
    assert refused.stdout == ""


def test_a_box_is_paused_resumed_stopped_and_removed(home: Home) -> None:
    started = home.glovebox("run", "--keep", "--name", "mortal", "--", "touch", "file")
    assert "glovebox rm mortal" in started.stderr

    def state() -> str:
        return next((str(info["state"]) for info in home.listed() if info["name"] == "mortal"), "none")

    for command, expected in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        done = home.glovebox(command, "mortal")
        assert (done.returncode, done.stdout, done.stderr) == (0, "mortal\n", ""), command
        assert state() == expected
    # One that is stopped is started by whoever uses it, with its files.
    assert home.glovebox("run", "--box", "mortal", "--", "ls").stdout == "file\n"
    removed = home.glovebox("rm", "--json", "mortal", "nobody")
    assert removed.returncode == 1
    assert json.loads(removed.stdout) == ["mortal"]
    assert removed.stderr == "glovebox: There is no box 'nobody'. These are there: glovebox ls\n"
    assert state() == "none"


def test_removing_needs_names_or_all(home: Home) -> None:
    for arguments in (("rm",), ("rm", "--all", "some")):
        refused = home.glovebox(*arguments)
        assert refused.returncode == 2
        assert "--all" in refused.stderr


def test_the_log_of_a_box_is_shown_and_followed_until_it_ends(home: Home, box: str) -> None:
    shown = home.glovebox("logs", box)
    assert "Glovebox serves " in shown.stdout
    first = json.loads(home.glovebox("logs", "--json", box).stdout.splitlines()[0])
    assert first == shown.stdout.splitlines()[0]
    assert home.glovebox("run", "--keep", "--name", "talker", "--", "true").returncode == 0
    with home.running("logs", "-f", "talker") as following:
        assert following.stdout is not None
        assert "Glovebox serves " in following.stdout.readline()
        assert home.glovebox("stop", "talker").returncode == 0
        following.communicate(timeout=60)
        assert following.returncode == 0
    assert home.glovebox("rm", "talker").returncode == 0


def test_a_box_is_attached_to_by_its_name(home: Home, box: str) -> None:
    with closing(Window(home, "attach", box)) as person:
        person.see(b"attached to main")
        person.press(b"echo $GREETING\r")
        person.see(b"hello there")
        person.press(b"\x1d")
        assert person.end() == 0
    refused = home.glovebox("attach", "--watch", box, "--url", "http://127.0.0.1:1")
    assert refused.returncode == 2
    assert "not both" in refused.stderr
    missing = home.glovebox("attach", "--watch", "nobody")
    assert missing.returncode == 1
    assert "There is no box 'nobody'" in missing.stderr


# glovebox cp


def test_files_go_into_a_box_as_cp_would_put_them(
    home: Home, box: str, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "tool.zip").write_bytes(b"no archive at all \x00\xff")
    (tmp_path / "tool.zip").chmod(0o755)
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "leaf").write_text("leaf")
    (tmp_path / "tree" / "empty").mkdir()
    for source, destination in (
        ("tool.zip", "in/"),
        ("tool.zip", "in/renamed"),
        ("tree", "in"),
        ("tree", "in/copy"),
        ("tool.zip", f"{workspace}/in/tree"),
    ):
        done = home.glovebox("cp", source, f"{box}:{destination}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
    into = workspace / "in"
    for name in ("tool.zip", "renamed", "tree/tool.zip"):
        assert (into / name).read_bytes() == b"no archive at all \x00\xff"
        assert (into / name).stat().st_mode & stat.S_IXUSR
    for name in ("tree", "copy"):
        assert (into / name / "deep" / "leaf").read_text() == "leaf"
        assert (into / name / "empty").is_dir()


def test_files_come_out_of_a_box_as_cp_would_put_them(
    home: Home, box: str, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "out" / "deep").mkdir(parents=True)
    (workspace / "out" / "deep" / "leaf").write_bytes(b"\x00leaf")
    (workspace / "out" / "script").write_text("#!/bin/sh\n")
    (workspace / "out" / "script").chmod(0o755)
    for source, destination in (
        ("out/deep/leaf", "."),
        ("out/deep/leaf", "renamed"),
        ("out", "fresh"),
        ("out", "."),
        (f"{workspace}/out/script", "new/"),
    ):
        done = home.glovebox("cp", f"{box}:{source}", destination, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for name in ("leaf", "renamed", "fresh/deep/leaf", "out/deep/leaf"):
        assert (tmp_path / name).read_bytes() == b"\x00leaf", name
    assert os.access(tmp_path / "new" / "script", os.X_OK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "leaf", "new", "out", "renamed"]


def test_copying_tells_what_is_wrong(home: Home, box: str, tmp_path: Path) -> None:
    for arguments, status, words in (
        (("nothing", f"{box}:"), 1, "There is no nothing"),
        ((f"{box}:nothing", "."), 1, "nothing in the box"),
        (("nobody:file", "."), 1, "There is no box 'nobody'"),
        (("a", "b"), 2, "BOX:PATH"),
        ((f"{box}:a", f"{box}:b"), 2, "BOX:PATH"),
    ):
        refused = home.glovebox("cp", *arguments, cwd=tmp_path)
        assert refused.returncode == status, arguments
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr


def test_copying_tells_a_program_where_things_are(
    home: Home, box: str, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "note").write_text("note")
    into = home.glovebox("cp", "--json", str(tmp_path / "note"), f"{box}:noted")
    assert json.loads(into.stdout) == {"box": box, "path": f"{workspace}/noted"}
    out = home.glovebox("cp", "--json", f"{box}:noted", str(tmp_path / "back"))
    assert json.loads(out.stdout) == {"path": str(tmp_path / "back"), "files": 1}
    assert (out.stderr, into.stderr) == ("", "")
