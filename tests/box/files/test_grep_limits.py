from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from blockbuster import blockbuster_ctx

from glovebox.box.files.search import grep, line_search
from glovebox.protocol.files import GrepAction
from tests.box.files.acting import Acting, below, plant
from tests.box.files.searching import matching
from tests.support.waiting import until

_EARLIER: set[int] = set()


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    acting = Acting(tmp_path)
    yield acting
    acting.close()


async def test_a_search_ends_at_its_limit_of_results(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "MAX_RESULTS", 5)
    plant(acting.directory, {"a": "x\n" * 3, "b": b"x\0", "c": "x\n" * 3, "d": b"x\0"})
    answer = await acting.do(GrepAction(pattern="x"))
    assert (answer.total, answer.files, answer.incomplete, answer.binary) == (5, 2, True, 1)
    plant(acting.directory, {"c": "x\n" * 2})
    answer = await acting.do(GrepAction(pattern="x"))
    assert (answer.total, answer.files, answer.incomplete, answer.binary) == (5, 2, False, 2)


async def test_far_more_matches_than_are_wanted_are_cut_at_the_same_line(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "MAX_RESULTS", 700)
    plant(acting.directory, {f"{index:03}": "x\n" * 50 for index in range(100)})
    answer = await acting.do(GrepAction(pattern="x", offset=690))
    assert (answer.total, answer.incomplete) == (700, True)
    assert below(acting.directory, [match.path for match in answer.matches]) == ["013"] * 10


async def test_many_files_are_searched_in_portions(acting: Acting) -> None:
    directory = acting.directory / ("d" * 200) / ("e" * 200)
    plant(directory, {f"{'f' * 200}{index}": f"x{index}\n" for index in range(2_500)})
    answer = await acting.do(GrepAction(pattern="x\\d*7$", limit=1000))
    assert answer.total == 250


async def test_a_search_that_takes_forever_ends_with_the_time_given(acting: Acting) -> None:
    _plant_endless(acting.directory / "a")
    answer = await asyncio.wait_for(acting.do(GrepAction(pattern="x", timeout=1.5)), 20)
    assert answer.incomplete
    assert (answer.total, _children()) == (0, [])


async def test_a_pattern_that_takes_other_engines_forever_is_searched_at_once(acting: Acting) -> None:
    plant(acting.directory, {"a": "y" + "x" * 5000 + "\n", "b": "xxy\n"})
    answer = await acting.do(GrepAction(pattern="(x+x+)+y"))
    assert (answer.total, answer.incomplete) == (1, False)


async def test_what_was_found_before_the_time_was_up_is_answered(acting: Acting) -> None:
    plant(acting.directory, {"a": "xxy\n"})
    _plant_endless(acting.directory / "b")
    answer = await acting.do(GrepAction(pattern="x", timeout=3))
    assert (answer.total, answer.incomplete) == (1, True)


async def test_a_wrong_pattern_is_refused_even_if_there_is_no_time(acting: Acting) -> None:
    plant(acting.directory, {"a": "xxy\n"})
    refused = await acting.refused(GrepAction(pattern="a{2,1}", timeout=0))
    assert refused.error_id == "invalid_pattern"


async def test_a_line_that_is_far_too_long_is_counted_as_unreadable(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_search, "_LONGEST_LINE", 1 << 20)
    plant(acting.directory, {"a": "x\n", "b": "x" + "y" * (3 << 20) + "\nx\n", "c": "x\n"})
    answer = await acting.do(GrepAction(pattern="x"))
    assert below(acting.directory, [match.path for match in answer.matches]) == ["a", "c"]
    assert (answer.skipped, answer.incomplete) == (1, False)


async def test_a_search_that_is_given_up_leaves_no_process(acting: Acting) -> None:
    _plant_endless(acting.directory / "a")
    search = asyncio.create_task(acting.do(GrepAction(pattern="x")))
    await until(lambda: bool(_children()))
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert _children() == []


async def test_no_search_leaves_a_process_or_a_descriptor(acting: Acting) -> None:
    plant(acting.directory, {"a": "x\n"})
    await acting.do(GrepAction(pattern="x"))
    before = psutil.Process().num_fds()
    for _ in range(5):
        await acting.do(GrepAction(pattern="x"))
    assert _children() == []
    assert psutil.Process().num_fds() <= before


@pytest.mark.parametrize(
    "program", ["#!/bin/sh\necho nonsense\nsleep 60\n", "#!/nonexistent/interpreter\n", ""]
)
async def test_a_broken_ripgrep_is_an_error_that_leaves_no_process(
    acting: Acting, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    plant(acting.directory, {"tools/rg": program, "text/a": "needle\n"})
    (acting.directory / "tools/rg").chmod(0o755)
    monkeypatch.setattr(line_search, "ripgrep", lambda: str(acting.directory / "tools/rg"))
    refused = await acting.refused(GrepAction(pattern="needle", path="text"))
    assert (refused.error_id, _children()) == ("io_error", [])


async def test_a_ripgrep_that_dies_makes_the_answer_incomplete(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(acting.directory, {"tools/rg": "#!/bin/sh\nkill -9 $$\n", "text/a": "needle\n"})
    (acting.directory / "tools/rg").chmod(0o755)
    monkeypatch.setattr(line_search, "ripgrep", lambda: str(acting.directory / "tools/rg"))
    answer = await acting.do(GrepAction(pattern="needle", path="text"))
    assert (answer.total, answer.incomplete) == (0, True)


async def test_a_search_does_not_block_the_event_loop(acting: Acting) -> None:
    plant(acting.directory, {".git/HEAD": "", ".gitignore": "c", "a/b": "x"})
    with blockbuster_ctx("glovebox"):
        answer = await acting.do(GrepAction(pattern="x"))
    assert answer.total == 1


async def test_more_searches_than_run_at_once_are_all_answered(acting: Acting) -> None:
    plant(acting.directory, {"a": "x\n"})
    answers = await asyncio.gather(*(acting.do(GrepAction(pattern="x")) for _ in range(12)))
    assert [answer.total for answer in answers] == [1] * 12


async def test_big_files_are_searched_to_their_end(acting: Acting) -> None:
    plant(acting.directory, {"big": b"some line of text, \xc3\xa9\n" * 200_000 + b"needle\n"})
    assert await matching(acting, "needle$") == ["big:200001:needle"]
    assert await matching(acting, "n[e]{2}dl.") == ["big:200001:needle"]


def _plant_endless(path: Path) -> None:
    """Make a file that takes minutes to search, and no space."""
    with path.open("wb") as file:
        file.truncate(1 << 42)


@pytest.fixture(autouse=True)
def _earlier() -> None:
    _EARLIER.clear()
    _EARLIER.update(child.pid for child in psutil.Process().children())


def _children() -> list[psutil.Process]:
    """What this process started since the test began; what other tests share is none of these."""
    return [child for child in psutil.Process().children() if child.pid not in _EARLIER]
