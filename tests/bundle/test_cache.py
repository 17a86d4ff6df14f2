"""The bundle of this version is made once, by one at a time, and is there or not."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

import glovebox
from glovebox.bundle import digest, ensure
from glovebox.bundle.cache import EXTRAS, fingerprint
from glovebox.client.backend import Level, RuntimeStatus, Silent
from glovebox.errors import NoBundle
from tests.bundle.built import settings_with
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


class Heard(asyncio.Event):
    """A report that remembers, and says when the first step has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.statuses: list[RuntimeStatus] = []
        self.steps: list[str] = []

    def status(self, status: RuntimeStatus, message: str = "", level: Level = "info") -> None:
        self.statuses.append(status)
        self.begun.set()

    def progress(self, step: str, done: int, total: int | None) -> None:
        self.steps.append(step)
        self.set()


async def cancelled(task: asyncio.Task[Path]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_bundle_that_is_named_is_used_as_it_is(bundle: Path, tmp_path: Path) -> None:
    heard = Heard()
    assert await ensure(settings_with(tmp_path, GLOVEBOX_BUNDLE=str(bundle)), heard) == bundle
    assert heard.statuses == []
    assert os.listdir(tmp_path) == []


async def test_a_bundle_that_is_named_and_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoBundle, match="No such file"):
        await ensure(settings_with(tmp_path, GLOVEBOX_BUNDLE=str(tmp_path / "none.tar")), Silent())


async def test_it_is_found_again(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "glovebox").mkdir()
    kept = tmp_path / "glovebox" / f"bundle-{glovebox.__version__}-{fingerprint(EXTRAS)}.tar"
    os.symlink(bundle, kept)
    heard = Heard()
    assert await ensure(settings_with(tmp_path), heard) == kept
    assert heard.statuses == heard.steps == []
    assert len(digest(kept)) == 64


async def test_one_at_a_time_makes_it_and_what_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)
    os.makedirs(tmp_path / "glovebox/.bundle-0.0.1-0123.tar-killed/stage")  # by a builder that was killed
    one, other = Heard(), Heard()
    first = asyncio.create_task(ensure(settings, one))
    await asyncio.wait_for(one.wait(), LIMIT)
    second = asyncio.create_task(ensure(settings, other))
    await asyncio.wait_for(other.begun.wait(), LIMIT)
    assert one.statuses == other.statuses == [RuntimeStatus.BUILDING_RUNTIME]
    assert other.steps == []
    await cancelled(first)
    await asyncio.wait_for(other.wait(), LIMIT)
    assert other.steps[0] == "runtime: interpreter"
    await cancelled(second)
    left = tmp_path / "glovebox"
    await asyncio.to_thread(wait_until, lambda: os.listdir(left) == ["bundle.lock"], 30, "nothing to be left")


async def test_where_nothing_can_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "glovebox").write_text("a file, not a directory")
    with pytest.raises(NoBundle, match="cannot be kept in"):
        await ensure(settings_with(tmp_path), Silent())
