from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.linux.traversal import open_enterable
from tests.support.users import public_directory

pytestmark = [pytest.mark.attack, pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")]
USER, GROUP = 54_321, 54_322


@pytest.fixture
def public() -> Iterator[Path]:
    with public_directory() as directory:
        yield directory


def enters(path: Path | str, *groups: int) -> bool:
    """Whether the user may enter, and the descriptor is of that very directory."""
    found = open_enterable(str(path), USER, {GROUP, *groups})
    if found < 0:
        return False
    try:
        return os.path.samestat(os.fstat(found), os.stat(path))
    finally:
        os.close(found)


def directory(path: Path, mode: int, user: int = 0, group: int = 0) -> Path:
    path.mkdir(parents=True)
    os.chown(path, user, group)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("mode", "user", "group", "entered"),
    [
        (0o755, 0, 0, True),
        (0o700, USER, 0, True),
        (0o710, 0, GROUP, True),
        (0o701, 0, 0, True),
        (0o700, 0, 0, False),
        (0o077, USER, 0, False),
        (0o707, 0, GROUP, False),
        (0o766, 0, 0, False),
    ],
)
def test_the_modes_say_who_enters(public: Path, mode: int, user: int, group: int, entered: bool) -> None:
    place = directory(public / "place", mode, user, group)
    assert enters(place) is entered
    assert enters(directory(place / "below", 0o777)) is entered
    assert enters(f"{place}/./below//") is entered


def test_what_is_no_plain_directory_is_in_doubt(public: Path) -> None:
    place = directory(public / "place", 0o755)
    (public / "link").symlink_to(place)
    (public / "file").touch()
    directory(place / "below", 0o755)
    for path in (
        public / "link",
        public / "link/below",
        public / "file",
        public / "none",
        f"{place}/..",
        "x",
    ):
        assert not enters(path)


def test_nothing_stays_open(public: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for path in (public, public / "none", "/root", "relative"):
        enters(path)
    assert os.listdir("/proc/self/fd") == before
