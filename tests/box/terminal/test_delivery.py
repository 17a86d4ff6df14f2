"""What somebody plants where the files of a shell were, while the server is root and the shell is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.box.terminal.console import Console, console

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]

NAMES = ("command", "hooks", "startup")


@pytest.fixture
async def shell(tmp_path: Path, kind: str) -> AsyncIterator[Console]:
    async with console(tmp_path, kind=kind, username="nobody") as started:
        yield started


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory of the server's user with files that are called like ours."""
    directory = tmp_path / "victim"
    directory.mkdir(mode=0o700)
    for name in NAMES:
        (directory / name).write_text("precious")
        (directory / name).chmod(0o600)
    return directory


def look(directory: Path) -> dict[str, tuple[int, int, int, str]]:
    """What can be changed of a directory and the files in it."""
    return {
        path.name: (seen.st_mode, seen.st_uid, seen.st_gid, path.read_text() if path.is_file() else "")
        for path in (directory, *directory.iterdir())
        for seen in [path.stat()]
    }


async def lose_files(shell: Console) -> Path:
    """Remove the directory of a shell, as what cleans up /tmp does."""
    directory = Path(await shell.output("echo ${__gb_file%/*}"))
    shutil.rmtree(directory)
    return directory


def as_nobody(script: str, *arguments: Path | str) -> None:
    subprocess.run(
        ["sh", "-ec", script, "sh", *map(str, arguments)], check=True, user="nobody", group="nogroup", cwd="/"
    )


async def works(shell: Console) -> None:
    for number in (1, 2):
        answer = await shell.run(f"echo fine; (exit {number})")
        assert (answer.content, answer.metadata.exit_code) == ("fine", number)
    await shell.run("exec bash")
    assert await shell.output("echo again") == "again"
    assert await shell.output("echo $HOME; id -un") != ""


async def test_a_link_to_another_directory_is_not_followed(tmp_path: Path, kind: str, victim: Path) -> None:
    before = look(victim)
    async with console(tmp_path, kind=kind, username="nobody") as shell:
        directory = await lose_files(shell)
        as_nobody('ln -s "$1" "$2"', victim, directory)
        await works(shell)
        assert look(victim) == before
    assert look(victim) == before
    assert directory.is_symlink()
    directory.unlink()


async def test_links_in_a_directory_of_somebody_else_are_not_followed(shell: Console, victim: Path) -> None:
    before = look(victim)
    directory = await lose_files(shell)
    for name in NAMES:
        as_nobody('mkdir -p "$1"; ln -s "$2" "$1"', directory, victim / name)
    await works(shell)
    assert look(victim) == before
    assert {(directory / name).readlink() for name in NAMES} == {victim / name for name in NAMES}


async def test_commands_are_not_read_from_a_directory_of_somebody_else(shell: Console) -> None:
    directory = await lose_files(shell)
    as_nobody('mkdir "$1"; chmod 777 "$1"; printf \'echo wrong\\0\' >"$1/command"', directory)
    await works(shell)


async def test_what_is_lost_is_made_again(shell: Console) -> None:
    directory = await lose_files(shell)
    await works(shell)
    assert (directory.stat().st_uid, directory.stat().st_mode & 0o777) == (0, 0o750)
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o640}
