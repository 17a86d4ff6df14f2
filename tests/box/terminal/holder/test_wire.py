"""What server and holder say to each other arrives as it was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glovebox.box.terminal.holder import wire
from glovebox.box.terminal.holder.wire import HeldTerminal, ShellSpec

#: Whatever a path, an argument or a variable can be: any bytes but NUL, as Python has them.
TEXT = st.binary(max_size=30).map(lambda data: data.replace(b"\0", b"").decode("utf-8", "surrogateescape"))
NAME = TEXT.filter(lambda name: name != "" and "=" not in name)
NUMBER = st.integers(0, 2**32 - 1)
OFFSET = st.integers(0, 2**63)
KIND = st.sampled_from([wire.OPEN, wire.INPUT, wire.RESIZE, wire.CLOSE, wire.QUIT, wire.NEWS])

SPECS = st.builds(
    ShellSpec,
    name=TEXT,
    arguments=st.lists(TEXT, max_size=4),
    environment=st.dictionaries(NAME, TEXT, max_size=4),
    cwd=TEXT,
    rows=st.integers(1, 10_000),
    columns=st.integers(1, 10_000),
)
USERS = st.tuples(NUMBER, NUMBER, st.lists(NUMBER, max_size=3).map(tuple))
HELD = st.builds(
    HeldTerminal,
    number=NUMBER,
    name=TEXT,
    pid=NUMBER,
    inputs=OFFSET,
    end=OFFSET,
    ends=st.lists(OFFSET, max_size=3),
    exited=st.booleans(),
    status=st.none() | st.integers(0, 255),
    segments=st.lists(st.tuples(OFFSET, TEXT), max_size=3),
)


def described(one: ShellSpec | HeldTerminal) -> dict[str, object]:
    return {name: getattr(one, name) for name in type(one).__annotations__}


@given(st.lists(st.tuples(KIND, NUMBER, st.binary(max_size=50)), max_size=6), st.data())
def test_frames_arrive_whole_in_whatever_pieces(
    frames: list[tuple[bytes, int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(wire.frame(*one) for one in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    parser = wire.Frames()
    seen = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        seen += parser.feed(stream[begin:end])
    assert seen == frames


def test_half_a_frame_is_none() -> None:
    frame = wire.frame(wire.INPUT, 7, b"payload")
    parser = wire.Frames()
    assert [parser.feed(frame[number : number + 1]) for number in range(len(frame) - 1)] == [[]] * 15
    assert parser.feed(frame[-1:]) == [(wire.INPUT, 7, b"payload")]


@given(st.lists(TEXT, min_size=1, max_size=6))
def test_fields_are_what_they_were(values: list[str]) -> None:
    assert wire.parse_fields(wire.fields(*values)) == values


def test_numbers_and_nothing_are_fields_too() -> None:
    assert wire.parse_fields(wire.fields(3, None, "x")) == ["3", "", "x"]


@given(TEXT, TEXT, SPECS)
def test_a_shell_to_start_is_understood(log: str, scratch: str, spec: ShellSpec) -> None:
    heard_log, heard_scratch, heard = wire.parse_open(wire.pack_open(log, scratch, spec))
    assert (heard_log, heard_scratch) == (log, scratch)
    assert described(heard) == described(spec)


@given(SPECS, USERS)
def test_the_user_of_a_shell_is_understood(spec: ShellSpec, user: tuple[int, int, tuple[int, ...]]) -> None:
    spec.uid, spec.gid, spec.groups = user
    assert described(wire.parse_open(wire.pack_open("", "", spec))[2]) == described(spec)


@given(NUMBER, st.lists(HELD, max_size=3))
def test_what_is_held_is_told(pid: int, held: list[HeldTerminal]) -> None:
    version, heard_pid, heard = wire.parse_welcome(wire.pack_welcome(pid, held))
    assert (version, heard_pid) == (wire.VERSION, pid)
    assert [described(one) for one in heard] == [described(one) for one in held]


@pytest.mark.parametrize("rest", ["", "0", "1\0something\0new"])
def test_of_another_version_only_that_is_understood(rest: str) -> None:
    version, pid, held = wire.parse_welcome(wire.fields("99", 7, *rest.split("\0")))
    assert (version, pid, held) == ("99", 7, [])
