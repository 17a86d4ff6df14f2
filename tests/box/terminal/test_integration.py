from __future__ import annotations

import subprocess

import pytest

from glovebox.box.terminal.shell.integration import EndReport, MarkParser, ShellMark, unquote

END = b"\x1b]1807;D;abc\x1f3\x1f42\x1fme\x1fhost\x1f'/tmp'\x1f'/usr/bin/python'\x07"


def test_output_and_marks_are_told_apart() -> None:
    begin = b"\x1b]1807;C;abc\x07"
    data = b"before" + begin + b"out" + END + b"after"
    found = MarkParser().feed(data, 100)
    assert found[:3] == [(b"before", 100), (ShellMark("C", "abc", raw=begin), 106), (b"out", 119)]
    assert isinstance(found[3][0], ShellMark)
    assert found[4] == (b"after", 100 + data.index(b"after"))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_mark_is_found_in_whatever_pieces_it_comes(size: int) -> None:
    parser = MarkParser()
    data = b"one\x1b[1mtwo" + END + b"three"
    found = [
        item
        for start in range(0, len(data), size)
        for item, at in parser.feed(data[start : start + size], start)
        if data[at:].startswith(item.raw if isinstance(item, ShellMark) else item)
    ]
    marks = [item for item in found if isinstance(item, ShellMark)]
    output = b"".join(item for item in found if not isinstance(item, ShellMark))
    assert [mark.kind for mark in marks] == ["D"]
    assert output == b"one\x1b[1mtwothree"


def test_a_mark_without_an_end_does_not_hide_the_one_that_follows() -> None:
    parser = MarkParser()
    assert parser.feed(b"\x1b]1807;D;forged") == []
    found = [item for item, _ in parser.feed(END)]
    assert found[0] == b"\x1b]1807;D;forged"
    assert isinstance(found[1], ShellMark)
    assert found[1].token == "abc"


def test_output_that_only_begins_like_a_mark_is_not_held_for_ever() -> None:
    found = MarkParser().feed(b"\x1b]1807;" + b"x" * 40_000)
    assert found == [(b"\x1b]1807;" + b"x" * 40_000, 0)]


def test_an_end_mark_says_how_the_command_ended() -> None:
    ((mark, _),) = MarkParser().feed(END)
    assert isinstance(mark, ShellMark)
    assert EndReport.parse(mark) == EndReport(
        exit_code=3,
        background_pid=42,
        username="me",
        hostname="host",
        working_dir="/tmp",
        python="/usr/bin/python",
    )


def test_a_missing_background_process_is_minus_one() -> None:
    ((mark, _),) = MarkParser().feed(END.replace(b"\x1f42\x1f", b"\x1f\x1f"))
    assert isinstance(mark, ShellMark)
    report = EndReport.parse(mark)
    assert report is not None
    assert report.background_pid == -1


def test_a_mark_with_other_fields_is_no_report() -> None:
    assert EndReport.parse(ShellMark("D", "abc", (b"0",))) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"plain",
        b"it's",
        b'say "hi"',
        b"a\nb",
        b"tab\there",
        b"\xff\xfe",
        "ü — 日本".encode(),
        b"$x\\",
        b"\x1b\x07",
    ],
)
def test_quoting_by_bash_is_undone(text: bytes) -> None:
    quoted = subprocess.run(
        ["bash", "-c", 'printf %s "${1@Q}"', "bash", text], stdout=subprocess.PIPE, check=True
    ).stdout
    assert unquote(quoted) == text
