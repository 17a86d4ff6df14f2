from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Home


@pytest.fixture(scope="module")
def script(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("completion")
    printed = home.glovebox("completion", "bash")
    assert (printed.returncode, printed.stderr) == (0, "")
    (directory / "script").write_text(printed.stdout)
    program = directory / "glovebox"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m glovebox "$@"\n')
    program.chmod(0o755)
    (directory / "a-directory").mkdir()
    (directory / "a-file").touch()
    return directory / "script"


def completed(home: Home, script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    asking = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        'compopt() { :; }; _glovebox; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asking, "bash", str(script), "glovebox", *words],
        capture_output=True, text=True, timeout=60, cwd=script.parent,
        env={**home.environment, "PATH": f"{script.parent}:{home.environment['PATH']}"},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_and_flags_are_completed(home: Home, script: Path) -> None:
    assert completed(home, script, "r") == ["run", "rm", "resume"]
    assert completed(home, script, "run", "--me") == ["--memory"]
    assert completed(home, script, "completion", "") == ["bash", "zsh", "fish"]
    assert completed(home, script, "run", "--isolation", "") == ["bubblewrap"]
    assert completed(home, script, "ls", "--backend", "d") == ["docker"]


def test_names_of_boxes_paths_and_programs_are_completed(home: Home, box: str, script: Path) -> None:
    for words in (("stop", "ke"), ("attach", ""), ("run", "--box", "")):
        assert box in completed(home, script, *words), words
    assert f"{box}:" in completed(home, script, "cp", "ke")
    assert "a-file" in completed(home, script, "cp", "a-")
    assert completed(home, script, "run", "--workspace", "a-") == ["a-directory"]
    assert "printf" in completed(home, script, "run", "--", "print")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_has_every_command_and_is_well_formed(home: Home, shell: str) -> None:
    text = home.glovebox("completion", shell).stdout
    for word in ("shell", "doctor", "follow-links", "glovebox ls --names"):
        assert word in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True, timeout=60)
