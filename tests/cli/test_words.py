"""What people see when they type something wrong, or nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import LIMIT, Home

SHOWN = 80


def test_alone_it_prints_help_that_fits_a_terminal(home: Home) -> None:
    alone = home.glovebox()
    assert (alone.returncode, alone.stderr) == (0, "")
    assert home.glovebox("--help").stdout == home.glovebox("help").stdout == alone.stdout
    assert max(map(len, alone.stdout.splitlines())) <= SHOWN
    for name in ("run", "ls", "serve", "doctor"):
        assert f"\n  {name} " in alone.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rnu -- ls", ["there is no command 'rnu'", "Did you mean run?", "glovebox --help"]),
        ("xyzzy", ["there is no command 'xyzzy'.\n"]),
        ("run --worksapce . -- ls", ["Did you mean --workspace?", "usage: glovebox run", "run --help"]),
        ("serve --prot 3000", ["Did you mean --port?", "usage: glovebox serve [FLAGS] [PORT]"]),
        ("ls everything", ["'everything' is one word too many", "usage: glovebox ls"]),
        ("completion bsh", ["'bsh' is none of bash, zsh, fish", "Did you mean bash?"]),
        ("run --isolation no -- ls", ["--isolation: 'no' is none of bubblewrap, none. Did you mean none?\n"]),
        ("serve --isolation xyzzy", ["--isolation: 'xyzzy' is none of none, bubblewrap, auto.\n"]),
        ("rm --all kept", ["give the names of boxes, or --all, not both", "usage: glovebox rm"]),
        (
            "run --volume nonsense --isolation bubblewrap -- true",
            ["--volume nonsense: write HOST:BOX[:MODE]"],
        ),
        ("url name --url http://127.0.0.1:1", ["the name of a box or its --url, not both"]),
    ],
)
def test_a_wrong_word_is_explained(home: Home, words: str, said: list[str]) -> None:
    refused = home.glovebox(*words.split())
    assert refused.returncode == 2
    assert refused.stdout == ""
    for part in said:
        assert part in refused.stderr


def test_defaults_are_written_so_that_they_can_be_read(home: Home) -> None:
    text = home.glovebox("serve", "--help").stdout
    assert "Default: .." not in text
    assert "(default: .)" in text


def test_no_boxes_are_explained(tmp_path: Path) -> None:
    empty = Home(tmp_path / "empty")
    listed = empty.glovebox("ls")
    assert (listed.returncode, listed.stdout) == (0, "")
    assert "There are no boxes" in listed.stderr
    assert "glovebox run --keep" in listed.stderr
    assert empty.glovebox("ls", "--json").stdout == "[]\n"
    assert empty.glovebox("ls", "--names").stdout == ""


# Directories that cannot be written


@pytest.mark.parametrize("command", [("run", "--", "true"), ("shell",)])
def test_a_state_directory_that_cannot_be_is_a_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    home = Home(tmp_path / "home", XDG_STATE_HOME="/proc/x")
    failed = home.glovebox(*command)
    assert "Traceback" not in failed.stderr
    if command[0] == "run":
        assert failed.returncode == 1
        assert "Boxes cannot be kept in /proc/x/glovebox/boxes" in failed.stderr
        assert "XDG_STATE_HOME" in failed.stderr


def test_doctor_does_not_believe_in_directories_that_cannot_be_written(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", XDG_STATE_HOME="/proc/x", XDG_CACHE_HOME="/proc/x")
    told = home.glovebox("doctor").stdout
    assert "/proc/x/glovebox can be written" not in told
    assert "PROBLEM  state directory: /proc/x/glovebox cannot be written" in told


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
@pytest.mark.parametrize(
    ("command", "said"),
    [(("doctor",), "cannot be written (Read-only file system)"), (("run", "--", "true"), "Read-only")],
)
def test_a_machine_that_is_read_only_is_told_of(tmp_path: Path, command: tuple[str, ...], said: str) -> None:
    home = Home(tmp_path / "home")
    prefix = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--"]
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "glovebox", *command],
        capture_output=True, text=True, timeout=LIMIT, env=home.environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if "Creating new namespace failed" in done.stderr or "bwrap:" in done.stderr:
        pytest.skip(f"bubblewrap does not work here: {done.stderr}")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert said in done.stdout + done.stderr


def test_a_copy_to_where_nothing_can_be_written_is_a_sentence(home: Home, box: str, workspace: Path) -> None:
    (workspace / "some").write_text("text")
    (workspace / "folder").mkdir(exist_ok=True)
    (workspace / "folder" / "file").write_text("text")
    for source in ("some", "folder"):
        failed = home.glovebox("cp", f"{box}:{source}", "/proc/x")
        assert failed.returncode == 1
        assert "/proc/x" in failed.stderr
        assert "cannot be written" in failed.stderr
        assert "Traceback" not in failed.stderr


def test_a_link_that_is_not_copied_is_named_as_it_is_here(home: Home, box: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "outside").symlink_to("/etc/hostname")
    copied = home.glovebox("cp", str(folder), f"{box}:elsewhere")
    assert copied.returncode == 0
    assert f"{folder}/outside is not sent" in copied.stderr


def test_a_box_that_does_not_answer_is_told_at_once(home: Home) -> None:
    for command in ("url", "open", "events", "inspect", "env"):
        done = home.glovebox(command, "--url", "http://127.0.0.1:1")
        assert "Traceback" not in done.stderr
        if command not in ("url", "env"):
            assert done.returncode == 1
            assert "does not answer" in done.stderr


def test_an_address_stands_where_the_name_of_a_box_does(home: Home, box: str) -> None:
    variables = home.glovebox("env", box).stdout
    url, key = re.findall(r"=(\S+)", variables)
    assert home.glovebox("url", f"{url}/").stdout.strip() == f"{url}/"
    for command in (["env", url], ["exec", f"{url}/", "--", "echo", variables]):
        done = home.glovebox(*command, SESSION_API_KEY=key)
        assert (done.stdout.strip(), done.returncode) == (variables.strip(), 0), done.stderr
    for command in (["inspect", "http://127.0.0.1:1"], ["exec", "http://127.0.0.1:1", "--", "ls"]):
        done = home.glovebox(*command)
        assert done.stderr == "glovebox: The box at http://127.0.0.1:1 does not answer: Connection refused\n"
        assert done.returncode == 1


def test_a_run_at_an_address_where_nothing_listens_does_not_wait(home: Home) -> None:
    done = home.glovebox("run", "--backend", "http://127.0.0.1:1", "--", "ls")
    assert done.returncode != 0
    assert "No box answers at http://127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
