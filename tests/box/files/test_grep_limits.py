from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from blockbuster import blockbuster_ctx

from glovebox.box.files.search import grep
from glovebox.protocol.files import GrepAction
from tests.box.files.acting import Acting, below, plant
from tests.box.files.searching import Engines, needs_ripgrep

_EARLIER: set[int] = set()


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    engines = Engines(tmp_path)
    yield engines
    engines.close()


async def test_a_search_ends_at_its_limit_of_results(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "MAX_RESULTS", 5)
    plant(engines.directory, {"a": "x\n" * 3, "b": b"x\0", "c": "x\n" * 3, "d": b"x\0"})
    answer = await engines.do(GrepAction(pattern="x"))
    assert (answer.total, answer.files, answer.incomplete, answer.binary) == (5, 2, True, 1)
    plant(engines.directory, {"c": "x\n" * 2})
    answer = await engines.do(GrepAction(pattern="x"))
    assert (answer.total, answer.files, answer.incomplete, answer.binary) == (5, 2, False, 2)


async def test_far_more_matches_than_are_wanted_are_cut_at_the_same_line(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "MAX_RESULTS", 700)
    plant(engines.directory, {f"{index:03}": "x\n" * 50 for index in range(100)})
    answer = await engines.do(GrepAction(pattern="x", offset=690))
    assert (answer.total, answer.incomplete) == (700, True)
    assert below(engines.directory, [match.path for match in answer.matches]) == ["013"] * 10


async def test_many_files_are_searched_in_portions(engines: Engines) -> None:
    directory = engines.directory / ("d" * 200) / ("e" * 200)
    plant(directory, {f"{'f' * 200}{index}": f"x{index}\n" for index in range(2_500)})
    answer = await engines.do(GrepAction(pattern="x\\d*7$", limit=1000))
    assert answer.total == 250


async def test_a_pattern_that_takes_forever_ends_with_the_time_given(engines: Engines) -> None:
    plant(engines.directory, {"a": "y" + "x" * 5000 + "\n"})
    action = GrepAction(pattern="(x+x+)+y", timeout=1.5)
    answer = await asyncio.wait_for(engines.python.do(action), 20)
    assert answer.incomplete
    assert (answer.total, _children()) == (0, [])


async def test_what_was_found_before_the_time_was_up_is_answered(engines: Engines) -> None:
    plant(engines.directory, {"a": "xxy\n", "b": "y" + "x" * 5000 + "\n"})
    answer = await engines.python.do(GrepAction(pattern="(x+x+)+y", timeout=2))
    assert (answer.total, answer.incomplete) == (1, True)


async def test_a_search_that_is_given_up_leaves_no_process(engines: Engines) -> None:
    plant(engines.directory, {"a": "y" + "x" * 5000 + "\n"})
    search = asyncio.create_task(engines.python.do(GrepAction(pattern="(x+x+)+y")))
    await _until(lambda: bool(_children()))
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert _children() == []


@needs_ripgrep
async def test_no_engine_leaves_a_process_or_a_descriptor(engines: Engines) -> None:
    plant(engines.directory, {"a": "x\n"})
    await engines.do(GrepAction(pattern="x"))
    before = psutil.Process().num_fds()
    for _ in range(5):
        await engines.do(GrepAction(pattern="x"))
    assert _children() == []
    assert psutil.Process().num_fds() <= before


@needs_ripgrep
async def test_ripgrep_is_used_where_it_is_installed(tmp_path: Path) -> None:
    plant(tmp_path, {"tools/rg": f'#!/bin/sh\necho >> {tmp_path}/used\nexec rg "$@"\n', "text/a": "needle\n"})
    (tmp_path / "tools/rg").chmod(0o755)
    acting = Acting(tmp_path, ripgrep=str(tmp_path / "tools/rg"))
    answer = await acting.do(GrepAction(pattern="needle", path="text"))
    acting.close()
    assert answer.total == 1
    assert (tmp_path / "used").read_text() == "\n"


@pytest.mark.parametrize(
    "program",
    [
        "#!/bin/sh\nexit 2\n",
        "#!/bin/sh\necho nonsense\n",
        "#!/bin/sh\nkill -9 $$\n",
        "#!/nonexistent/interpreter\n",
        "#!/bin/sh\nexec 0<&-\nexit 0\n",
        "#!/bin/sh\nhead -c 40000000 /dev/zero\nsleep 60\n",
        "#!/bin/sh\necho nonsense\nsleep 60\n",
    ],
)
async def test_a_broken_ripgrep_is_done_without(tmp_path: Path, program: str) -> None:
    plant(tmp_path, {"tools/rg": program, "text/a": "needle\n"})
    (tmp_path / "tools/rg").chmod(0o755)
    acting = Acting(tmp_path, ripgrep=str(tmp_path / "tools/rg"))
    answer = await acting.do(GrepAction(pattern="needle", path="text"))
    acting.close()
    assert _children() == []
    assert (answer.total, answer.incomplete) == (1, False)


async def test_a_search_does_not_block_the_event_loop(engines: Engines) -> None:
    plant(engines.directory, {".git/HEAD": "", ".gitignore": "c", "a/b": "x"})
    with blockbuster_ctx("glovebox"):
        answer = await engines.do(GrepAction(pattern="x"))
    assert answer.total == 1


async def test_more_searches_than_run_at_once_are_all_answered(engines: Engines) -> None:
    plant(engines.directory, {"a": "x\n"})
    answers = await asyncio.gather(*(engines.do(GrepAction(pattern="x")) for _ in range(12)))
    assert [answer.total for answer in answers] == [1] * 12


async def test_big_files_are_searched_to_their_end(engines: Engines) -> None:
    plant(engines.directory, {"big": b"some line of text, \xc3\xa9\n" * 200_000 + b"needle\n"})
    assert await engines.lines("needle$") == ["big:200001:needle"]
    assert await engines.lines("n[e]{2}dl.") == ["big:200001:needle"]


@pytest.fixture(autouse=True)
def _earlier() -> None:
    _EARLIER.clear()
    _EARLIER.update(child.pid for child in psutil.Process().children())


def _children() -> list[psutil.Process]:
    """What this process started since the test began; what other tests share is none of these."""
    return [child for child in psutil.Process().children() if child.pid not in _EARLIER]


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing tells that a process has begun
            await asyncio.sleep(0.01)
