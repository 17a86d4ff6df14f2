"""The log that a holder writes: segments, what is kept of them, and a disk that is full or gone."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.box.terminal.holder.log import Log
from glovebox.box.terminal.output.log import LogFiles
from glovebox.errors import OutputGone

SEGMENT = 1 << 16
KEEP = 8 * SEGMENT


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(directory: Path) -> Iterator[Log]:
    opened = Log(str(directory), KEEP)
    yield opened
    opened.close()


def pattern(start: int, size: int) -> bytes:
    """Bytes that say where they belong."""
    first = start // 8
    data = b"".join(b"%08d" % number for number in range(first, (start + size) // 8 + 1))
    return data[start - first * 8 :][:size]


def contents(log: Log, offset: int) -> bytes:
    """Everything from an offset on, as the server reads it."""
    files = LogFiles("")
    for start, path in log.segments:
        files.begin_segment(start, path)
    pieces = []
    while data := files.fetch(offset):
        pieces.append(data)
        offset += len(data)
    return b"".join(pieces)


def test_bytes_are_where_their_offset_says(log: Log, directory: Path) -> None:
    assert [start for start, _ in log.append(b"first")] == [0]
    assert log.append(b"") == []
    assert log.append(b"second") == []
    assert (log.end, log.segments) == (11, [(0, str(directory / "00000000000000000000"))])
    assert contents(log, 0) == b"firstsecond"
    assert contents(log, 5) == b"second"
    assert contents(log, 11) == b""
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "00000000000000000000").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("piece", [1_000, SEGMENT, SEGMENT + 1, 3 * SEGMENT])
def test_a_full_segment_is_followed_by_another(log: Log, piece: int) -> None:
    begun = 0
    while log.end < 5 * SEGMENT:
        begun += len(log.append(pattern(log.end, piece)))
    assert begun > 0
    assert [start for start, _ in log.segments] == [
        number * SEGMENT for number in range(-(-log.end // SEGMENT))
    ]
    assert contents(log, 0) == pattern(0, log.end)
    assert contents(log, SEGMENT - 1) == pattern(SEGMENT - 1, log.end - SEGMENT + 1)


def test_the_oldest_segments_are_removed(log: Log, directory: Path) -> None:
    while log.end < 20 * SEGMENT:
        log.append(pattern(log.end, 10_000))
    oldest = log.segments[0][0]
    assert log.end - KEEP <= oldest <= log.end - KEEP + SEGMENT
    assert sorted(map(int, os.listdir(directory))) == [start for start, _ in log.segments]
    assert contents(log, oldest) == pattern(oldest, log.end - oldest)
    with pytest.raises(OutputGone):
        contents(log, oldest - 1)


def test_another_shell_goes_on_where_the_one_before_ended(directory: Path) -> None:
    first = Log(str(directory), KEEP)
    first.append(pattern(0, SEGMENT + 10))
    first.close()
    second = Log(str(directory), KEEP)
    assert second.end == SEGMENT + 10
    assert len(second.append(pattern(second.end, 100))) == 1
    assert contents(second, 0) == pattern(0, SEGMENT + 110)
    second.close()
    third = Log(str(directory), KEEP)
    assert third.end == SEGMENT + 110
    third.close()
    assert LogFiles.find(str(directory)).end == SEGMENT + 110


def test_a_shell_that_said_nothing_leaves_nothing(directory: Path) -> None:
    for _ in range(20):
        Log(str(directory), KEEP).close()
    assert os.listdir(directory) == []


def test_without_its_directory_the_log_goes_on(log: Log, directory: Path) -> None:
    log.append(pattern(0, 100))
    shutil.rmtree(directory)
    while log.end < 3 * SEGMENT:
        log.append(pattern(log.end, 10_000))
    start = log.segments[-1][0]
    assert 0 < start <= SEGMENT
    assert contents(log, start) == pattern(start, log.end - start)


def test_in_memory_the_oldest_is_forgotten_too(log: Log, directory: Path) -> None:
    log.append(b"x")
    shutil.rmtree(directory)
    before = len(os.listdir("/proc/self/fd"))
    while log.end < 12 << 20:
        log.append(pattern(log.end, 100_000))
    oldest = log.end - (3 << 20)
    assert contents(log, oldest) == pattern(oldest, 3 << 20)
    assert len(os.listdir("/proc/self/fd")) <= before + 4
    with pytest.raises(OutputGone):
        contents(log, SEGMENT)
    log.close()
    assert len(os.listdir("/proc/self/fd")) < before


def test_a_disk_that_takes_no_more_does_not_stop_the_log(directory: Path) -> None:
    """In a process of its own, which may not write files of more than some bytes."""
    program = (
        "import resource, signal, sys\n"
        "from tests.box.terminal.holder.test_log import contents, pattern\n"
        "from glovebox.box.terminal.holder.log import Log\n"
        "log = Log(sys.argv[1], 8 << 16)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (25_000, resource.RLIM_INFINITY))\n"
        "while log.end < 10_000: log.append(pattern(log.end, 1_000))\n"
        "assert log.append(pattern(log.end, 20_000))\n"
        "assert [start for start, _ in log.segments] == [0, 25_000], log.segments\n"
        "assert contents(log, 0) == pattern(0, 30_000)\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    result = subprocess.run(
        [sys.executable, "-c", program, str(directory)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_does_not_lose_what_comes_next(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount here")
    try:
        log = Log(str(disk / "log"), KEEP)
        while log.end < 1_000_000:
            log.append(pattern(log.end, 7_777))
        assert contents(log, 0) == pattern(0, log.end)
        log.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
