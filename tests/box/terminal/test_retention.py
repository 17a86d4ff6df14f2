from __future__ import annotations

from glovebox.box.terminal.output.buffer import OutputBuffer, RetainedOutput, surviving
from glovebox.box.terminal.output.presentation import show


def numbered(count: int) -> list[str]:
    return [*(str(number) for number in range(1, count + 1)), ""]


def test_an_output_is_kept_whole_as_long_as_it_is_small() -> None:
    output = OutputBuffer()
    for number in range(1000):
        output.append(b"%d\n" % number)
    kept = output.take()
    assert kept == RetainedOutput(b"".join(b"%d\n" % number for number in range(1000)))
    assert len(output) == 0


def test_of_many_lines_the_newest_are_kept() -> None:
    output = OutputBuffer()
    for number in range(0, 2_000_000, 100):
        output.append(b"".join(b"%d\r\n" % (number + more) for more in range(100)))
    kept = output.take()
    assert kept.data.endswith(b"1999999\r\n")
    assert 11_000 <= kept.data.count(b"\n") < 40_000
    assert kept.dropped_lines + kept.data.count(b"\n") == 2_000_000


def test_of_a_long_line_the_beginning_and_the_end_are_kept() -> None:
    output = OutputBuffer()
    output.append(b"begin")
    for _ in range(100):
        output.append(b"x" * 100_000)
    output.append(b"end")
    kept = output.take()
    assert len(kept.data) <= 4_200_000
    assert kept.dropped_bytes + len(kept.data) == 10_000_008
    shown = show(kept, completed=True)
    assert shown.content.startswith("beginxxx")
    assert "bytes of output are not kept" in shown.content
    assert shown.content.endswith("xxxend")
    assert shown.truncated_to is None


def test_a_line_that_is_written_over_and_over_is_shown_as_it_ended() -> None:
    output = OutputBuffer()
    for number in range(1_000):
        output.append(b"".join(b"\r%7d" % (number * 1000 + more) for more in range(1_000)))
    assert show(output.take(), completed=True).content == "999999"


def test_what_is_put_back_comes_first() -> None:
    output = OutputBuffer()
    output.append(b"old")
    kept = output.take()
    output.append(b"new")
    output.put_back(kept.data)
    assert output.peek() == b"oldnew"


def test_everything_survives_that_fits_on_the_terminal() -> None:
    assert surviving(numbered(10_976), 0, completed=True) is None
    assert surviving(numbered(10_977), 0, completed=True) is not None


def test_when_the_history_is_full_a_thousand_lines_go_at_once() -> None:
    # As the reference shows: 12,000 lines begin with 1989, 50,000 with 39989, and 10,013 are counted.
    for count, first in ((12_000, "1989"), (50_000, "39989")):
        left = surviving(numbered(count), 0, completed=True)
        assert left is not None
        assert left[0] == first
        assert len(left) == 10_013


def test_lines_that_were_dropped_count_like_those_that_are_there() -> None:
    left = surviving(numbered(50_000)[30_000:], 30_000, completed=True)
    assert left is not None
    assert left[0] == "39989"


def test_a_line_wider_than_the_terminal_counts_as_several() -> None:
    left = surviving(["x" * 30_000_000, "end", ""], 0, completed=True)
    assert left is not None
    assert 9_000_000 < len(left[0]) < 11_000_000
    assert left[1:] == ["end", ""]


def test_output_of_a_running_command_is_shown_without_the_prompt_that_would_follow() -> None:
    assert surviving(numbered(10_980), 0, completed=False) is None
