from __future__ import annotations

import random
import re
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.terminal.output.digest import Digest, digest, is_error
from glovebox.box.terminal.output.rendering import render

NOTE = re.compile(r"\n\[[\d,]+ lines?, [\d,]+ bytes in all(?:\. Read or search the rest: .*)?\]\Z")


def made(data: bytes, budget: int = 2_000, step: int = 65_536) -> Digest:
    pieces = (data[at : at + step] for at in range(0, len(data), step))
    return digest(pieces, budget=budget, command_id="c1")


def numbered(count: int, errors: dict[int, bytes] | None = None) -> bytes:
    errors = errors or {}
    return b"".join(errors.get(number, b"line %d" % number) + b"\r\n" for number in range(1, count + 1))


def rendered(data: bytes) -> str:
    return "\n".join(render(data, rows=1_000, columns=1_000)).strip()


ERRORS = """\
FAILED tests/test_a.py::test_b - assert 1 == 2
E       assert 1 == 2
E   ModuleNotFoundError: No module named 'x'
=== 1 failed, 12 passed in 0.12s ===
Traceback (most recent call last):
ValueError: invalid literal for int()
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
tests/test_a.py:12: AssertionError
main.c:3:5: error: expected ';' before 'return'
main.c:1:10: fatal error: missing.h: gone
error[E0308]: mismatched types
src/app.ts(3,5): error TS2304: Cannot find name 'x'.
main.c:(.text+0x5): undefined reference to `f'
npm ERR! code ELIFECYCLE
npm error code E404
make: *** [Makefile:3: all] Error 2
Makefile:3: *** missing separator.  Stop.
Exception in thread "main" java.lang.NullPointerException
Caused by: java.io.IOException: Stream closed
panic: runtime error: index out of range
thread 'main' panicked at src/main.rs:2:5:
--- FAIL: TestThing (0.00s)
bash: foo: command not found
sh: 1: foo: not found
cat: nothing: No such file or directory
bash: ./run: Permission denied
fatal: not a git repository
Segmentation fault (core dumped)
prog: a.c:3: main: Assertion `x == 1' failed.
assertion failed: left == right
Found 3 errors in 1 file (checked 2 source files)
2024-05-01 12:00:00 ERROR could not connect
[ERROR] Failed to execute goal
CRITICAL:root:disk is full
not ok 3 - adds numbers
BUILD FAILED
Error: Cannot find module 'x'
Error response from daemon: no such container
bash: line 1: syntax error near unexpected token `)'
time="12:00" level=error msg="no"
1 warning and 2 errors generated.
Killed
""".splitlines()

HARMLESS = """\
0 errors
no error
No error: all is well
0 errors, 0 warnings
Found 0 errors.
error_handler.py ok
src/errors.py:12: note: something
tests/test_error.py::test_error_is_shown PASSED
tests/test_fail.py::test_failing PASSED
12 passed, 0 failed
FAILED: 0
errors=0
error: 0
error: none
compiling error.c
gcc -Wall -Werror -c main.c
GET /errors 200
warning: unused variable 'x'
WARNING: error: ignored
[WARN] Failed to load cache, going on
npm WARN deprecated x@1: this had an error: use y
XFAIL tests/test_a.py::test_b
--fail-fast
raise ValueError("x")
except ValueError:
Each value   has its column
the default is panicky
*** stars ***
access denied by nobody
everything was found
import errors
""".splitlines()


@pytest.mark.parametrize("line", ERRORS)
def test_a_line_that_tells_of_an_error_is_found(line: str) -> None:
    assert is_error(line.encode())
    # The same in the middle of an output, where only lines with a hint are looked at.
    assert made(f"before\r\n{line}\r\nafter\r\n".encode()).errors == 1 + line.startswith("Traceback")


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_that_only_mentions_errors_is_not(line: str) -> None:
    assert not is_error(line.encode())
    assert made(f"before\r\n{line}\r\nafter\r\n".encode()).errors == 0


def test_output_that_fits_is_shown_as_the_terminal_would() -> None:
    data = b"  \x1b[31mred\x1b[0m\ttab\r\nold\rnew\r\n\x1b[1AX\r\nlonger text\rabc\r\n\r\n"
    assert made(data) == Digest(rendered(data), lines=5, size=len(data), shortened=False, errors=0)


def test_no_output_is_an_empty_text() -> None:
    assert digest([], budget=1_000, command_id="c1") == Digest("", 0, 0, False, 0)
    assert digest([b"", b"\r\n"], budget=1_000, command_id="c1") == Digest("", 1, 2, False, 0)


def test_long_output_is_shown_by_its_beginning_and_its_end() -> None:
    answer = made(numbered(5_000))
    assert answer.shortened
    assert answer.lines == 5_000
    assert answer.size == len(numbered(5_000))
    lines = answer.text.split("\n")
    gap = next(at for at, line in enumerate(lines) if line.startswith("["))
    found = re.fullmatch(r"\[\.\.\. lines (\d+)-(\d+) left out \.\.\.\]", lines[gap])
    assert found
    first, last = int(found[1]), int(found[2])
    assert lines[:gap] == [f"line {number}" for number in range(1, first)]
    assert lines[gap + 1 : -1] == [f"line {number}" for number in range(last + 1, 5_001)]
    assert lines[-1] == (
        f"[5,000 lines, {answer.size:,} bytes in all. "
        "Read or search the rest: GET /commands/c1/output?offset=N or ?search=TEXT]"
    )
    assert 1_800 < len(answer.text) <= 2_000


def test_the_lines_around_an_error_are_shown_with_their_numbers() -> None:
    answer = made(numbered(5_000, {3_000: b"main.c:1: error: no"}))
    assert answer.errors == 1
    assert (
        " left out ...]\n2998-line 2998\n2999-line 2999\n3000:main.c:1: error: no\n"
        "3001-line 3001\n3002-line 3002\n3003-line 3003\n[... lines 3004-"
    ) in answer.text


def test_a_coloured_error_is_found() -> None:
    answer = made(numbered(5_000, {3_000: b"\x1b[1mmain.c:1: \x1b[31merr\x1b[1mor\x1b[0m: no"}))
    assert "\n3000:main.c:1: error: no\n" in answer.text


def test_errors_near_each_other_are_shown_together() -> None:
    answer = made(numbered(5_000, {3_000: b"error: a", 3_004: b"error: b"}))
    shown = re.findall(r"^(\d+)[:-]", answer.text, re.MULTILINE)
    assert shown == [str(number) for number in range(2_998, 3_008)]


def test_of_many_errors_the_first_and_the_last_are_shown_and_the_others_counted() -> None:
    wrong = {number: b"error: number %d" % number for number in range(300, 5_000, 50)}
    answer = made(numbered(5_500, wrong), budget=4_000)
    assert answer.errors == len(wrong)
    shown = [int(number) for number in re.findall(r"^(\d+):error", answer.text, re.MULTILINE)]
    assert shown[0] == 300
    assert shown[-1] == 4_950
    told = re.findall(r"with (\d+) more error lines", answer.text)
    assert [int(number) for number in told] == [len(wrong) - len(shown)]
    assert len(shown) >= 4


def test_when_every_line_is_an_error_none_is_shown_twice() -> None:
    data = b"".join(b"error: number %d\r\n" % number for number in range(20_000))
    answer = made(data, budget=4_000)
    shown = re.findall(r"error: number (\d+)", answer.text)
    assert len(shown) == len(set(shown))
    assert shown == sorted(shown, key=int)
    told = re.search(r"with (\d+) more error lines", answer.text)
    assert told
    assert int(told[1]) + len(shown) == answer.errors == 20_000


@pytest.mark.parametrize("shift", range(-4, 5))
def test_an_error_at_the_edge_of_a_block_is_shown_with_its_neighbours(shift: int) -> None:
    lines = [b"line %05d" % number for number in range(1, 30_001)]
    at = 3 * 65_536 // 12 + shift
    lines[at - 1] = b"error:%04d" % (at % 10_000)
    answer = made(b"\r\n".join(lines))
    shown = [f"{number}-line {number:05}" for number in range(at - 2, at + 4)]
    shown[2] = f"{at}:error:{at % 10_000:04}"
    assert "\n" + "\n".join(shown) + "\n[" in answer.text


@pytest.mark.parametrize("shift", range(-4, 5))
def test_an_error_at_the_edge_of_head_or_tail_is_shown_once_with_its_neighbours(shift: int) -> None:
    plain = made(numbered(5_000))
    gap = re.search(r"lines (\d+)-(\d+) left out", plain.text)
    assert gap
    for edge in (int(gap[1]), int(gap[2])):
        # As long as the line it takes the place of, so that nothing moves.
        at = edge + shift
        answer = made(numbered(5_000, {at: b"line %d" % at + b" FAILED"}), budget=2_000)
        numbers = [int(n) for n in re.findall(r"^(?:\d+[:-])?line (\d+)", answer.text, re.MULTILINE)]
        assert len(numbers) == len(set(numbers))
        assert numbers == sorted(numbers)
        assert {at - 2, at - 1, at, at + 1, at + 2, at + 3} <= set(numbers)


def test_the_exception_that_ends_a_traceback_is_an_error_whatever_its_name() -> None:
    frames = b"".join(b'  File "a.py", line %d, in f\r\n    g()\r\n' % number for number in range(4_000))
    data = (
        numbered(3_000) + b"Traceback (most recent call last):\r\n" + frames + b"Oops\r\n" + numbered(3_000)
    )
    answer = made(data)
    assert answer.errors == 2
    assert "\n3001:Traceback (most recent call last):\n" in answer.text
    assert "\n11002:Oops\n" in answer.text


def test_an_error_far_to_the_right_is_to_be_seen() -> None:
    answer = made(numbered(5_000, {3_000: b"x" * 900 + b" error: here " + b"y" * 900}), budget=4_000)
    assert re.search(r"^3000:…x+ error: here y+…$", answer.text, re.MULTILINE)


def test_a_line_without_end_is_shown_by_its_beginning_and_its_end() -> None:
    answer = made(b"begin" + b"x" * 10_000_000 + b"end")
    assert answer.lines == 1
    assert answer.size == 10_000_008
    assert re.fullmatch(r"beginx+…x+end\n\[1 line, 10,000,008 bytes .*\]", answer.text)
    assert 1_500 < len(answer.text) <= 2_000


def test_characters_of_long_lines_are_never_cut_in_half() -> None:
    for shift in range(4):
        answer = made(b"x" * shift + "🎉".encode() * 500_000)
        assert set(NOTE.sub("", answer.text)) <= {"x", "🎉", "…"}


def test_a_long_line_between_others_is_cut_and_the_others_are_not() -> None:
    answer = made(b"first\r\n" + b"x" * 3_000_000 + b"\r\nlast\r\n")
    assert re.fullmatch(r"first\nx+…x+\nlast\n\[3 lines, .*\]", answer.text)


def test_a_progress_bar_is_one_line_and_shown_as_it_ended() -> None:
    bar = b"".join(b"\r%7d of 300000" % number for number in range(300_000))
    answer = made(b"start\r\n" + bar + b"\r\ndone\r\n")
    assert answer == Digest("start\n 299999 of 300000\ndone", 3, len(bar) + 15, False, 0)


def test_what_a_shorter_text_does_not_cover_is_still_to_be_seen() -> None:
    bar = b"\rxxxxxxxxxx long" + b"\r12345" * 200_000
    assert made(bar).text == "12345xxxxx long"


def test_output_of_many_progress_bars_counts_by_what_is_seen() -> None:
    data = b"".join(b"\r".join(b"%d%%" % part for part in range(100)) + b"\r\n" for _ in range(2_000))
    answer = made(data, budget=20_000)
    assert answer.text == "\n".join(["99%"] * 2_000)
    assert not answer.shortened


def test_movements_between_lines_in_long_output_leave_each_line_where_it_is() -> None:
    answer = made(b"\x1b[2A\x1b[2Kone\r\n\x1b[2Ktwo\r\n" * 20_000)
    assert set(answer.text.split("\n")[:3]) == {"one", "two"}
    assert answer.lines == 40_000


def test_garbage_is_bounded() -> None:
    data = random.Random(1).randbytes(500_000)
    answer = made(data)
    assert answer.size == 500_000
    assert answer.lines == data.count(b"\n") + (not data.endswith(b"\n"))
    assert len(answer.text) <= 2_000
    assert answer.text.encode().decode() == answer.text


@pytest.mark.parametrize("budget", [-1, 0, 1, 199, 200])
def test_a_tiny_budget_is_raised_to_one_in_which_something_can_be_said(budget: int) -> None:
    answer = made(numbered(100_000, {50_000: b"error: x"}), budget=budget)
    assert answer == made(numbered(100_000, {50_000: b"error: x"}), budget=200)
    assert answer.text.startswith("line 1\n")
    assert "\nline 100000\n[100,000 lines, " in answer.text
    assert "/commands/c1/output" in answer.text
    assert len(answer.text) <= 200


def test_an_id_that_is_too_long_is_left_out() -> None:
    answer = digest([numbered(1_000)], budget=300, command_id="c" * 500)
    assert len(answer.text) <= 300
    assert answer.text.startswith("line 1\n")
    assert answer.text.endswith(" bytes in all]")


def test_memory_does_not_grow_with_the_output() -> None:
    def pieces() -> Iterator[bytes]:
        for number in range(200):
            yield b"%05d some line of text\r\n" % number * 2_000 + b"error: x\r\n" * 3 + b"x" * 10_000

    tracemalloc.start()
    try:
        answer = digest(pieces(), budget=2_000, command_id="c1")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.size > 12_000_000
    assert peak < 3_000_000


WORDS = st.sampled_from(
    [
        *(b"plain text", b"x" * 300, b"y" * 70_000, b"\r\n", b"\n", b"\r", b"\t", b"", b"   ", b"\x1b[31m"),
        *(b"\x1b[0m", b"\x1b[2A", b"\x1b[K", b"error: no", b"FAILED a", b"\b\b", "é🎉日".encode(), b"\xff"),
        *(b"\xe2\x82", b"Traceback (most recent call last):\n", b"  indented\r\n", b"E   assert\r\n"),
        *(b"line of text\r\n" * 200, b"line of text\r\n" * 8_000, b"12%\r13%\r" * 500, b"\x1b[?1049h"),
    ]
)
OUTPUTS = st.lists(st.one_of(WORDS, st.binary(max_size=20)), max_size=30).map(b"".join)
BUDGETS = st.one_of(st.integers(0, 700), st.integers(700, 40_000))


@settings(max_examples=60, deadline=None)
@given(data=OUTPUTS, budget=BUDGETS, step=st.integers(1, 200_000))
def test_pieces_do_not_matter(data: bytes, budget: int, step: int) -> None:
    step = max(step, len(data) // 2_000 + 1)
    assert made(data, budget, step) == made(data, budget, max(1, len(data)))


@settings(max_examples=120, deadline=None)
@given(data=OUTPUTS, budget=BUDGETS)
def test_an_answer_is_never_longer_than_its_budget(data: bytes, budget: int) -> None:
    answer = made(data, budget)
    assert len(answer.text) <= max(200, budget)
    assert answer.size == len(data)
    assert answer.lines == data.count(b"\n") + (data[-1:] not in (b"", b"\n"))
    if not re.search(rb"\x1b\[(?:2A|\?)|[\x80-\xff\x00-\x08\x0b\x0c\x0e-\x1f]", data):
        assert answer.shortened == (len(rendered(data)) > max(200, budget))


PLAIN = st.lists(st.text(st.sampled_from("ab é日🎉:-"), max_size=120), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(lines=PLAIN, times=st.integers(1, 300), budget=st.integers(200, 5_000), wrong=st.booleans())
def test_head_and_tail_are_the_beginning_and_the_end(
    lines: list[str], times: int, budget: int, wrong: bool
) -> None:
    lines = lines * times
    if wrong:
        lines.insert(len(lines) // 2, "error: no")
    data = "\r\n".join(lines).encode()
    whole = rendered(data)
    answer = made(data, budget)
    if not answer.shortened:
        assert answer.text == whole
        return
    shown = NOTE.sub("", answer.text)
    assert shown != answer.text
    parts = re.split(r"\n?^\[\.\.\..*\]$\n?|…", shown, flags=re.MULTILINE)
    assert len(parts) > 1
    assert whole.startswith(parts[0])
    assert whole.endswith(parts[-1])
    assert len(parts[-1]) > 10
