"""What shells offer when Tab is pressed: each of them is asked in its own way."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.cli.support import LIMIT, Home
from tests.support.running import wait_until
from tests.support.waiting import readable

SHELLS = ("bash", "zsh", "fish")
#: One key puts all that is offered on the line, another tells the line and empties it.
_BASHRC = """
PS1='ready> '
source ./script
tell() { printf '%s\\n' "$READLINE_LINE" >>told; READLINE_LINE=; }
bind '"\\C-t": insert-completions'
bind -x '"\\C-g": tell'
"""
_ZSHRC = """
PS1='ready> '
autoload -Uz compinit
compinit -u -D
source "$ZDOTDIR/script"
every() { _main_complete; compstate[insert]=all compstate[list]= }
tell() { print -r -- "$BUFFER" >>"$ZDOTDIR/told"; BUFFER= }
zle -C every complete-word every
zle -N tell
bindkey '^T' every '^G' tell
"""


class Shell:
    """A shell that has read its script, in a directory with a program, a file and a directory."""

    def __init__(self, home: Home, directory: Path, name: str) -> None:
        self.name = name
        self.directory = directory
        self.environment = {**home.environment, "PATH": f"{directory}/bin:{home.environment['PATH']}"}

    def offers(self, *words: str) -> set[str]:
        """What it offers for the last of the words after `glovebox`."""
        raise NotImplementedError

    def close(self) -> None:
        """End it."""

    def run(self, *command: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, cwd=self.directory, env=self.environment
        )
        assert done.stderr == ""
        return done.stdout


class Fish(Shell):
    """It can be asked, and finds the script where people put it."""

    def __init__(self, home: Home, directory: Path, name: str) -> None:
        super().__init__(home, directory, name)
        place = directory / "home/.config/fish/completions"
        place.mkdir(parents=True)
        shutil.copy(directory / "script", place / "glovebox.fish")
        # Its own home only: the boxes are known by XDG_STATE_HOME.
        self.environment["HOME"] = str(directory / "home")

    def offers(self, *words: str) -> set[str]:
        """What it offers, without what it says about that."""
        told = self.run("fish", "-c", "complete -C $argv[1]", "--", " ".join(("glovebox", *words)))
        return {line.partition("\t")[0].rstrip("/") for line in told.splitlines()}


class Typed(Shell):
    """One that completes in a terminal only, and is asked with keys."""

    #: What it reads first, and how it is started.
    setup: ClassVar[tuple[str, str]]
    command: ClassVar[tuple[str, ...]]

    def __init__(self, home: Home, directory: Path, name: str) -> None:
        super().__init__(home, directory, name)
        file, text = self.setup
        (directory / file).write_text(text)
        self._told = directory / "told"
        self._told.touch()
        self._asked = 0
        self._controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 400, 0, 0))
        self._process = subprocess.Popen(
            self.command,
            cwd=directory,
            env={**self.environment, "ZDOTDIR": str(directory), "TERM": "xterm"},
            preexec_fn=lambda: os.login_tty(terminal),
        )
        os.close(terminal)
        self._shown = b""
        wait_until(lambda: b"ready> " in self._look(), LIMIT, f"the prompt of {name}")

    def offers(self, *words: str) -> set[str]:
        """What it puts on the line in place of the last word."""
        line = " ".join(("glovebox", *words))
        self._asked += 1
        os.write(self._controller, line.encode() + b"\x14\x07")
        wait_until(lambda: self._answer() is not None, LIMIT, f"an answer to {line!r}")
        answer = self._answer() or line
        return set() if answer == line else {word.rstrip("/=") for word in answer.split()[len(words) :]}

    def _answer(self) -> str | None:
        self._look()  # or it could not go on printing
        told = self._told.read_text()
        return told.splitlines()[-1] if told.endswith("\n") and told.count("\n") == self._asked else None

    def _look(self) -> bytes:
        while readable(self._controller, 0):
            self._shown += os.read(self._controller, 65_536)
        return self._shown

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._controller)


class Bash(Typed):
    setup = (".bashrc", _BASHRC)
    command = ("bash", "--rcfile", ".bashrc", "-i")


class Zsh(Typed):
    setup = (".zshrc", _ZSHRC)
    command = ("zsh", "-i")


@pytest.fixture(scope="module", params=SHELLS)
def shell(
    request: pytest.FixtureRequest, home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} to test with: install {name}")
    directory = tmp_path_factory.mktemp("completion")
    printed = home.glovebox("completion", name)
    assert (printed.returncode, printed.stderr) == (0, "")
    (directory / "script").write_text(printed.stdout)
    for made in ("bin", "a-directory"):
        (directory / made).mkdir()
    (directory / "a-file").touch()
    program = directory / "bin/glovebox"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m glovebox "$@"\n')
    program.chmod(0o755)
    kind: type[Shell] = {"bash": Bash, "zsh": Zsh, "fish": Fish}[name]
    started = kind(home, directory, name)
    yield started
    started.close()


def test_commands_and_flags_are_completed(shell: Shell) -> None:
    assert shell.offers("r") == {"run", "rm", "resume"}
    assert {"--help", "--version"} <= shell.offers("--")
    assert shell.offers("run", "--me") == {"--memory"}
    assert shell.offers("completion", "") == set(SHELLS)
    assert shell.offers("run", "--isolation", "") == {"bubblewrap", "none"}
    assert shell.offers("run", "--name", "") == set()
    assert shell.offers("ls", "--backend", "d") == {"docker"}
    assert shell.offers("ls", "--backend=d") == {"--backend=docker"}


def test_names_of_boxes_paths_and_programs_are_completed(shell: Shell, box: str) -> None:
    assert shell.offers("stop", "ke") == {box}
    assert box in shell.offers("run", "--box", "")
    assert shell.offers("cp", "ke") == {f"{box}:"}
    assert shell.offers("cp", "a-") == {"a-directory", "a-file"}
    assert shell.offers("run", "--workspace", "a-") == {"a-directory"}
    assert shell.offers("run", "--keep", "--", "printen") == {"printenv"}
    assert shell.offers("run", "printen") == {"printenv"}


@pytest.mark.parametrize("name", SHELLS)
def test_the_script_of_each_shell_has_every_command_and_is_well_formed(home: Home, name: str) -> None:
    text = home.glovebox("completion", name).stdout
    for word in ("shell", "doctor", "follow-links", "glovebox ls --names"):
        assert word in text
    if shutil.which(name):
        subprocess.run([name, "-n"], input=text, text=True, check=True, timeout=60)
