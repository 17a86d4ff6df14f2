"""Damages a state directory in ways that disks, crashes, people and programs do."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[random.Random, Path], None]


def damage(seed: int, state: Path) -> list[str]:
    """Do some damage; what was damaged, relative to the directory."""
    choice = random.Random(seed)
    done: list[str] = []
    for _ in range(choice.choice((1, 1, 1, 2, 4))):
        kind = choice.choice(KINDS)
        paths = sorted(path for path in state.rglob("*") if kind in ON_ANYTHING or is_file(path))
        path = choice.choice(paths)
        if kind is stray:
            path = choice.choice(
                [state, *(path for path in paths if path.is_dir() and not path.is_symlink())]
            )
        with contextlib.suppress(PermissionError):  # it was closed before, and we are not root
            kind(choice, path)
        done.append(f"{kind.__name__} {path.relative_to(state)}")
    return done


def is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24


def flip(choice: random.Random, path: Path) -> None:
    """Some bits are others."""
    data = bytearray(path.read_bytes())
    for _ in range(min(len(data), choice.choice((1, 1, 5, 100)))):
        data[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
    path.write_bytes(data)


def overwrite(choice: random.Random, path: Path) -> None:
    """A block is garbage, zeroes or no text."""
    data = path.read_bytes()
    at, size = choice.randrange(len(data) + 1), choice.choice((1, 3, 50, 4096))
    filler = choice.choice((choice.randbytes(size), bytes(size), b"\xff" * size, b"\n" * size, b"{" * size))
    path.write_bytes(data[:at] + filler + data[at + size :])


def insert(choice: random.Random, path: Path) -> None:
    """Something was added."""
    data = path.read_bytes()
    at = choice.choice((0, choice.randrange(len(data) + 1), len(data)))
    more = (b"\n", b"\xc3(", choice.randbytes(200), b"[]\n", b'{"what":"opened"}\n', b"[" * 5000)
    path.write_bytes(data[:at] + choice.choice(more) + data[at:])


def cut(choice: random.Random, path: Path) -> None:
    """The end is missing."""
    os.truncate(path, choice.randrange(path.stat().st_size + 1))


def cut_out(choice: random.Random, path: Path) -> None:
    """A block is missing."""
    data = path.read_bytes()
    at = choice.randrange(len(data) + 1)
    path.write_bytes(data[:at] + data[at + choice.choice((1, 9, 100, 4096)) :])


def empty(choice: random.Random, path: Path) -> None:
    """Nothing is left."""
    os.truncate(path, 0)


def shuffle(choice: random.Random, path: Path) -> None:
    """Lines are in another order, and some are there more than once."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines += choice.choices(lines, k=len(lines) // 2)
    choice.shuffle(lines)
    path.write_bytes(b"".join(lines))


def repeat(choice: random.Random, path: Path) -> None:
    """The last lines are there once more."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, *lines[-choice.randint(1, 5) :]]))


def absurd(choice: random.Random, path: Path) -> None:
    """A number is out of all bounds."""
    data = path.read_bytes()
    at = choice.randrange(len(data) + 1)
    while at < len(data) and not data[at : at + 1].isdigit():
        at += 1
    number = choice.choice((b"-1", b"99999999999999999999", b"1e999", b"4611686018427387905"))
    path.write_bytes(data[:at] + number + data[at + 1 :])


def giant_line(choice: random.Random, path: Path) -> None:
    """A line does not end."""
    with path.open("ab") as file:
        file.write(choice.choice((b"x", b"{", b"\0")) * 1_000_000)


def giant_hole(choice: random.Random, path: Path) -> None:
    """It is larger than the disk."""
    os.truncate(path, 1 << 40)


def remove(choice: random.Random, path: Path) -> None:
    """It is gone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def replace(choice: random.Random, path: Path) -> None:
    """Something else has its name."""
    remove(choice, path)
    make(choice, path)


def stray(choice: random.Random, path: Path) -> None:
    """Something is there that nobody knows."""
    name = choice.choice(("core", "17", "0" * 20, "9" * 20, ".x.swp", "journal.new", "answers.new", "\udcff"))
    if not os.path.lexists(path / name):
        make(choice, path / name)


def rename(choice: random.Random, path: Path) -> None:
    """It has another name."""
    path.rename(path.with_name(choice.choice(("x" * 200, f"{path.name}~", "-rf", f"{path.name} (copy)"))))


def copy(choice: random.Random, path: Path) -> None:
    """It is there under another name too."""
    there = path.with_name(f"{path.name}-copy")
    if os.path.lexists(there):
        return
    if path.is_dir():
        shutil.copytree(path, there, symlinks=True)
    elif is_file(path):
        shutil.copyfile(path, there)


def close(choice: random.Random, path: Path) -> None:
    """Nobody may read it; root may."""
    if not path.is_symlink():
        path.chmod(0)


def make(choice: random.Random, path: Path) -> None:
    """Something that is hardly what is expected there."""
    kind = choice.randrange(6)
    if kind == 0:
        path.mkdir()
        (path / "inside").write_bytes(b"x")
    elif kind == 1:
        path.symlink_to(choice.choice(("/dev/zero", "nowhere", "/etc/passwd", ".")))
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3 and os.geteuid() == 0:
        os.mknod(path, 0o020600, os.makedev(1, 5))
    elif kind == 4:
        path.write_bytes(b"")
    else:
        path.write_bytes(choice.randbytes(500))


KINDS: list[Damage] = [
    *(flip, flip, flip, overwrite, overwrite, insert, insert, cut, cut, cut, cut_out, empty, shuffle, repeat),
    *(absurd, giant_line, giant_hole, remove, replace, replace, stray, stray, rename, copy, close),
]
ON_ANYTHING = (remove, replace, stray, rename, copy, close)
