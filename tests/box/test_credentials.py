"""Threads that use files as another user."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from glovebox.box.credentials import assume_user
from glovebox.box.threads import Threads

NOBODY = 65534

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that everybody can reach and write to."""
    for directory in (tmp_path, *tmp_path.parents[:3]):
        directory.chmod(directory.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    return tmp_path


async def test_a_thread_with_the_rights_of_a_user_reads_and_creates_as_that_user(shared: Path) -> None:
    (shared / "secret").write_text("root's")
    (shared / "secret").chmod(0o600)
    (shared / "link").symlink_to(shared / "secret")
    pool = Threads("nobody", 2, initializer=partial(assume_user, NOBODY))
    try:
        with pytest.raises(PermissionError):
            await pool.run((shared / "link").read_text)
        with pytest.raises(PermissionError):
            await pool.run(Path(f"/proc/{os.getpid()}/environ").read_bytes)
        await pool.run((shared / "new").write_text, "nobody's")
    finally:
        pool.close()
    assert (shared / "new").stat().st_uid == NOBODY
    assert (shared / "secret").read_text() == "root's", "the other threads keep their rights"


async def test_a_thread_that_cannot_be_prepared_does_no_work() -> None:
    def fail() -> None:
        raise PermissionError("not allowed")

    done: list[int] = []
    pool = Threads("unfit", 2, initializer=fail)
    try:
        with pytest.raises(PermissionError, match="not allowed"):
            await pool.run(done.append, 1)
    finally:
        pool.close()
    assert not done
