from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from glovebox.errors import KeyReused
from glovebox.server.replays import ActionAnswer, Replays, Run


class Work:
    """Counts how often it is done, and remembers how it was asked for."""

    def __init__(self, result: bytes = b'"done"') -> None:
        self.result = result
        self.calls: list[tuple[str, bool]] = []
        self.release = asyncio.Event()
        self.release.set()

    async def __call__(self, action_id: str, resumed: bool) -> ActionAnswer:
        self.calls.append((action_id, resumed))
        await self.release.wait()
        return answer(self.result)


def answer(body: bytes) -> ActionAnswer:
    return ActionAnswer(status=200, body=msgspec.Raw(body), details=msgspec.Raw(b"{}"))


async def once(replays: Replays, key: str, run: Run, fingerprint: str = "1") -> bytes:
    return bytes((await replays.begin(key, fingerprint, run).wait()).body)


def total_size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


async def test_a_key_runs_once_also_while_the_first_is_running() -> None:
    replays, work = Replays(), Work()
    work.release.clear()
    asked = [asyncio.create_task(once(replays, "k", work)) for _ in range(5)]
    await asyncio.sleep(0)
    work.release.set()
    assert await asyncio.gather(*asked) == [b'"done"'] * 5
    assert await once(replays, "k", work) == b'"done"'
    assert len(work.calls) == 1


async def test_a_caller_that_goes_away_does_not_stop_the_action() -> None:
    replays, work = Replays(), Work()
    work.release.clear()
    first = asyncio.create_task(once(replays, "k", work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    work.release.set()
    assert await once(replays, "k", work) == b'"done"'
    assert len(work.calls) == 1


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_key_that_comes_with_another_action_is_refused(tmp_path: Path, restarted: bool) -> None:
    replays = Replays(str(tmp_path / "answers"))
    await once(replays, "k", Work())
    if restarted:
        replays = Replays(str(tmp_path / "answers"))
    with pytest.raises(KeyReused, match="different action"):
        replays.begin("k", "2", Work())


async def test_old_results_are_forgotten_when_they_grow_too_many_or_too_large() -> None:
    for replays in (Replays(keep=2), Replays(keep_size=17)):
        work = Work(b'"1234"')
        for key in ("a", "b", "c", "a"):
            await once(replays, key, work)
        assert len(work.calls) == 4
        await once(replays, "c", work)
        assert len(work.calls) == 4


async def test_an_answer_survives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "answers")
    work = Work(b'{"body":"\xc3\xa4","n":1.50}')
    before = Replays(path).begin("k", "1", work)
    assert bytes((await before.wait()).body) == work.result
    after = Replays(path).begin("k", "1", work)
    assert after.action_id == before.action_id
    assert bytes((await after.wait()).body) == work.result
    assert len(work.calls) == 1
    assert os.stat(path).st_mode & 0o777 == 0o600


async def test_it_is_written_before_the_action_runs_and_before_its_answer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    lines: list[int] = []

    async def look(action_id: str, resumed: bool) -> ActionAnswer:
        lines.append(len(path.read_text().splitlines()))
        return answer(b"1")

    await once(Replays(str(path)), "k", look)
    assert lines == [1]
    assert len(path.read_text().splitlines()) == 2


async def test_an_action_that_a_restart_interrupted_is_resumed_with_its_id(tmp_path: Path) -> None:
    path = str(tmp_path / "answers")
    interrupted = Work()
    interrupted.release.clear()
    begun = Replays(path).begin("k", "1", interrupted)
    await asyncio.sleep(0)
    resumed = Work(b'"in the end"')
    replays = Replays(path)
    assert await once(replays, "k", resumed) == b'"in the end"'
    assert await once(replays, "k", resumed) == b'"in the end"'
    assert resumed.calls == [(begun.action_id, True)]
    assert await once(Replays(path), "k", resumed) == b'"in the end"'
    assert len(resumed.calls) == 1
    assert begun.task is not None
    begun.task.cancel()


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_a_torn_last_line_is_ignored(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "answers"
    work = Work(b'"' + b"x" * 100 + b'"')
    replays = Replays(str(path))
    await once(replays, "a", work)
    await once(replays, "b", work)
    path.write_bytes(path.read_bytes()[:-cut])
    again = Work(b'"again"')
    replays = Replays(str(path))
    assert await once(replays, "a", again) == work.result
    result = await once(replays, "b", again)
    assert result == (work.result if cut == 1 else b'"again"')  # only the line end was missing
    assert await once(Replays(str(path)), "b", again) == result
    assert len(again.calls) == (0 if cut == 1 else 1)


async def test_lines_that_are_no_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    await once(Replays(str(path)), "a", Work())
    path.write_bytes(b'\xff\xfe\n{"key": 5}\n\n' + path.read_bytes() + b'[]\n{"key":"z","result":1}\n')
    again = Work()
    await once(Replays(str(path)), "a", again)
    assert again.calls == []


async def test_the_file_is_compacted_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    replays, work = Replays(str(path), keep=3), Work()
    for number in range(50):
        await once(replays, str(number), work)
    Replays(str(path), keep=3)
    keys = {json.loads(line.split(" ", 2)[2])["key"] for line in path.read_text().splitlines()}
    assert keys == {"47", "48", "49"}
    replays = Replays(str(path), keep=3)
    await once(replays, "49", work)
    assert len(work.calls) == 50


async def test_the_file_does_not_grow_for_ever_and_running_actions_stay_in_it(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    replays = Replays(str(path), keep_size=5_000)
    slow = Work()
    slow.release.clear()
    running = replays.begin("running", "1", slow)
    work = Work(b'"' + b"x" * 500 + b'"')
    for number in range(100):
        await once(replays, str(number), work)
        assert total_size(tmp_path) < 15_000
    again = Work()
    replays = Replays(str(path), keep_size=5_000)
    assert await once(replays, "99", again) == work.result
    await once(replays, "running", again)
    assert again.calls == [(running.action_id, True)]
    slow.release.set()
    await running.wait()


async def test_a_key_that_was_forgotten_and_used_anew_keeps_its_newer_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "answers")
    replays = Replays(path, keep=1)
    await once(replays, "a", Work(b'"old"'))
    await once(replays, "b", Work())
    await once(replays, "a", Work(b'"new"'))
    assert await once(Replays(path), "a", Work(b'"neither"')) == b'"new"'


async def test_a_file_that_cannot_be_written_costs_only_the_memory_of_a_restart(tmp_path: Path) -> None:
    replays, work = Replays(str(tmp_path / "missing" / "answers")), Work()
    assert await once(replays, "k", work) == b'"done"'
    assert await once(replays, "k", work) == b'"done"'
    assert len(work.calls) == 1
