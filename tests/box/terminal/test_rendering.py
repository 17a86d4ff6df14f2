from __future__ import annotations

import pytest

from glovebox.box.terminal.output.rendering import LiveText, render, split_unfinished


def test_repetitions_are_bounded() -> None:
    assert text(b"ab\x1b[3b\x1b[1A") == "abbbb"
    assert len(text(b"a" + b"\x1b[999b" * 20_000)) <= 1_000_001


def text(data: bytes) -> str:
    return "\n".join(render(data, rows=1000, columns=1000))


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        (b"plain\r\ntext\r\n", "plain\ntext\n"),
        (b"x\ty\r\n", "x       y\n"),
        ("日\tx".encode(), "日      x"),
        (b"trailing   \r\n", "trailing\n"),
        (b"longer text\rabc", "abcger text"),
        (b"\r50%\r100%\r\ndone", "100%\ndone"),
        (b"\rlonger\rlong\r", "longer"),
        (b"old old\r\x1b[Knew\r\x1b[2Knewer", "newer"),
        (b"old old\x1b[2K\rnew", "new"),
        (b"12345\r\tX\rab", "ab345   X"),
        ("日本語\rab".encode(), "ab本語"),
        (b"abc\b\bX", "aXc"),
        (b"\x1b[31mred\x1b[0m \x1b[1;32mgreen\x1b[m", "red green"),
        (b"\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K rest", "match rest"),
        (b"12345\x1b[3DX", "12X45"),
        (b"12345\x1b[3D\x1b[K", "12"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"a\x07b\x00c\x0ed", "abcd"),
        (b"a\vb", "a\n b"),
        (b"a\xff\xfeb", "ab"),
        (b"a\xe2\x82b", "a\ufffdb"),
        ("héllo — Ωμέγα 🎉".encode(), "héllo — Ωμέγα 🎉"),
        (b"one\r\r\ntwo", "one\ntwo"),
        (b"no\nreturn", "no\nreturn"),
    ],
)
def test_bytes_become_what_a_person_would_have_seen(printed: bytes, seen: str) -> None:
    assert text(printed) == seen


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        (b"a\r\nb\r\n\x1b[2A\x1b[KX\r\n", "X\nb\n"),
        (b"one\r\ntwo\x1b[1;1HONE", "ONE\ntwo"),
        (b"old\r\nold\x1b[H\x1b[2Jnew", "new\n"),
        (b"keep\r\nbelow\x1b[1;5H\x1b[J", "keep"),
        (b"a\r\nb\r\nc\x1b[2;1H\x1b[Lnew", "a\nnew\nb\nc"),
        (b"a\r\nb\r\nc\x1b[2;1H\x1b[M", "a\nc"),
        (b"abc\x1b[1G\x1b[2P\x1b[A", "c"),
        (b"abc\x1b[1G\x1b[2@\x1b[A", "  abc"),
        (b"abcd\x1b[2G\x1b[2X\x1b[A", "a  d"),
        (b"x\x1b[3b\x1b[A", "xxxx"),
        (b"ab\x1b7cd\x1b8X", "abXd"),
        (b"a\r\nb\x1bMX", "aX\nb"),
        (b"x\x1b[3Cy\x1b[A", "x   y"),
        ("日本\x1b[1GX\x1b[A".encode(), "X 本"),
        ("e\u0301\x1b[A!".encode(), "e\u0301!"),
        (b"shell\r\n\x1b[?1049h\x1b[Heditor\x1b[?1049lback", "shell\nback"),
        (b"shell\r\n\x1b[?1049h\x1b[Heditor", "editor"),
    ],
)
def test_cursor_movements_are_followed(printed: bytes, seen: str) -> None:
    assert text(printed) == seen


def test_a_line_that_is_longer_than_the_screen_is_one_line() -> None:
    assert text(b"x" * 2500 + b"\r\n") == "x" * 2500 + "\n"


def test_moving_up_stops_at_the_top_of_the_screen() -> None:
    printed = b"".join(b"line %d\r\n" % number for number in range(2000)) + b"\x1b[9999AX"
    lines = render(printed, rows=1000, columns=1000)
    assert lines[0] == "line 0"
    assert lines[1001] == "Xine 1001"


def test_absurd_movements_cost_nothing() -> None:
    assert len(text(b"\x1b[99999999;99999999Hx\x1b[99999999b\x1b[99999999L")) < 10_000_000


@pytest.mark.parametrize(
    ("data", "rest"),
    [
        (b"complete\r\n", b""),
        ("complete é€🎉".encode(), b""),
        (b"half \xc3", b"\xc3"),
        (b"half \xe2\x82", b"\xe2\x82"),
        (b"half \xf0\x9f\x8e", b"\xf0\x9f\x8e"),
        (b"half \x1b[3", b"\x1b[3"),
        (b"half \x1b]0;tit", b"\x1b]0;tit"),
        (b"\x1b[?1049hscreen\x1b[?1049lback", b""),
    ],
)
def test_what_is_cut_in_half_is_kept_for_the_next_time(data: bytes, rest: bytes) -> None:
    assert split_unfinished(data) == (data.removesuffix(rest), rest)


def test_the_screen_of_a_program_is_shown_again_as_long_as_it_is_there() -> None:
    data = b"before\x1b[?1049hscreen"
    assert split_unfinished(data) == (data, b"\x1b[?1049hscreen")


def test_live_text_comes_as_soon_as_it_can_be_read() -> None:
    live = LiveText()
    pieces = [b"h\xc3", b"\xa9llo\r", b"\n\x1b[3", b"1mred\x1b[0m", b" 1%\r2%", b"\x07!"]
    fed = [live.feed(piece) for piece in pieces]
    assert [text for text, _ in fed] == ["h", "éllo", "\n", "red", " 1%\r2%", "!"]
    assert [settled for _, settled in fed] == [1, 6, 8, 20, 26, 28]
    assert live.feed(b"end\xc3") == ("end", 31)
    assert live.flush() == ("\ufffd", 32)
