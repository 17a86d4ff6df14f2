"""The measures of the terminal see what really happened."""

from __future__ import annotations

import os

import psutil
import pytest
from benchmarks.load import LoadError, exchange
from benchmarks.terminal.box import descriptors, fresh_box
from benchmarks.terminal.findings import at_least, below, of
from benchmarks.terminal.long_lines import CHARACTERS, long_text
from benchmarks.terminal.stream import Events, Lines

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_events_are_told_when_their_last_byte_is_there_wherever_the_pieces_are_cut() -> None:
    sent = HEAD + chunk(b'event: started\ndata: {"id": 1}\n\nevent: out') + chunk(b"put\ndata: {}\n\n")
    for size in (1, 7, len(sent)):
        events = Events()
        told = [event for at in range(0, len(sent), size) for event in events.feed(sent[at : at + size])]
        assert told == [("started", b'{"id": 1}'), ("output", b"{}")]


def test_an_error_is_not_a_stream() -> None:
    with pytest.raises(LoadError, match="no stream"):
        Events().feed(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")


def test_a_line_has_arrived_when_its_end_has() -> None:
    lines = Lines()
    lines.add("0 1000000\r\n1 20", now=3_000_000)
    lines.add("00000\r\n", now=7_000_000)
    assert lines.checked(2) == [2.0, 5.0]


@pytest.mark.parametrize("text", ["0 1\n", "0 1\n0 1\n", "1 1\n0 1\n"])
def test_lines_that_are_missing_or_not_in_order_are_no_result(text: str) -> None:
    lines = Lines()
    lines.add(text, now=2)
    with pytest.raises(LoadError, match="of 2 lines"):
        lines.checked(2)


def test_an_aim_says_what_was_reached() -> None:
    assert below("latency", 1.5, 2, "ms").reached is True
    assert below("latency", 2.5, 2, "ms").reached is False
    assert at_least("rate", 39.6, 40, "MB/s").reached is False
    assert at_least("rate", 40, 40, "MB/s").reached is True
    assert of("the other is", 250, 2, 100).reached is True
    assert of("the other is", 150, 2, 100).reached is False


def test_an_aim_without_a_figure_is_neither_reached_nor_missed() -> None:
    assert below("latency", None, 2, "ms").reached is None
    assert of("the other is", None, 2, 100).reached is None


def test_a_long_command_has_the_length_it_is_called_by() -> None:
    assert len(f"echo {long_text(3)}") == CHARACTERS
    assert long_text(3) != long_text(4)


def test_descriptors_are_counted() -> None:
    me = psutil.Process()
    before = descriptors(me)
    read, write = os.pipe()
    try:
        assert descriptors(me) == before + 2
    finally:
        os.close(read)
        os.close(write)


def test_a_fresh_box_shows_its_server_its_holder_and_its_shells() -> None:
    with fresh_box() as box:
        for request in (box.target.dialect.session("other"), box.target.dialect.echo("hello", "other")):
            assert request.accepts(*exchange(box.site.address, request.raw))
        assert box.holder.ppid() == box.server.pid
        assert {box.shell().ppid(), box.shell("other").ppid()} == {box.holder.pid}
        assert 0 < box.holder_memory()[0] <= box.holder_memory()[1]
        processes = (box.server, box.holder, box.shell())
    psutil.wait_procs(processes, timeout=10)
    assert not any(process.is_running() for process in processes)
