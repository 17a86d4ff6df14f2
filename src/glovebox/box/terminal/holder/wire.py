"""The protocol between server and holder, over a socket.

A frame is a kind, the number of a terminal and a payload. Structured payloads are fields separated by NUL,
which neither paths nor arguments nor variables can contain.
"""

from __future__ import annotations

import struct

from glovebox.box.terminal.holder.lean import dataclass

#: Changes when servers are no longer compatible with older holders.
VERSION = "4"

HEADER = struct.Struct("<cII")
OFFSET = struct.Struct("<Q")

#: From the server.
BEGIN = b"b"  # first, fields: directory, secret, patience, bytes of a log to keep, kind of terminal, program
HELLO = b"h"  # first from a server that finds a holder: the secret, and with it a descriptor of the lock
OPEN = b"o"  # fields: directories of the log and of the shell's files, then those of a ShellSpec
INPUT = b"i"  # number of this input, bytes to type
COMMAND = b"t"  # number of this input, token of the command that it begins, NUL, bytes to type
RESIZE = b"r"  # fields: rows, columns
CLOSE = b"c"  # end the shell and everything it started
START = b"p"  # size of the fields, fields of a ProgramOrder, first bytes of the standard input
STDIN = b"I"  # offset, bytes for the standard input of a program
CLOSE_STDIN = b"e"  # no more bytes follow
SIGNAL = (
    b"k"  # fields: number, reason, detail; with a reason, whatever is left is killed after a grace period
)
FORGET = b"f"  # a program that has ended; what it left running goes on
QUIT = b"q"  # end everything
#: From the holder.
WELCOME = b"w"  # fields: version, process id, then its terminals
OPENED = b"O"  # fields: process id of the shell
REFUSED = b"R"  # why no shell was started
SEGMENT = b"s"  # fields: offset, path: from here on the log is in this file; first offset of the log
NEWS = b"n"  # offsets: of the log's end, and of the end marks that the shell itself printed
EXITED = b"x"  # fields: exit status, or nothing if unknown
CLOSED = b"C"  # the shell or program and all its processes have ended
HELD = b"H"  # before WELCOME, fields of a HeldProgram
STARTED = b"S"  # fields: process id of the program
NOT_STARTED = b"N"  # fields: errno, and what failed: cwd, user, program, directory, interpreter, or holder
PART = b"P"  # fields: stream, offset, path, first offset of the log: as SEGMENT, of a program
GROWN = (
    b"g"  # offsets: ends of both logs, how much of the standard input was taken and written; 1 if it is open
)
ENDED = b"E"  # offsets as in GROWN, then fields of a ProgramEnd

_PER_SESSION = 9

#: How many offsets GROWN has.
GROWN_SIZE = 5 * OFFSET.size


@dataclass(kw_only=True)
class ShellSpec:
    """The shell to start and the terminal to start it in."""

    #: A word that can stand in file names and on command lines.
    name: str
    arguments: list[str]
    environment: dict[str, str]
    cwd: str
    rows: int
    columns: int
    #: The user of the shell, or None for the user of the holder.
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    #: Not a shell for people to attach to.
    plain: bool = False
    #: The token of the mark that a shell prints when it has started.
    token: str = ""


@dataclass(kw_only=True)
class HeldTerminal:
    """A terminal of the holder, as described to a server."""

    number: int
    name: str
    pid: int
    #: The number of the newest input.
    inputs: int
    #: The offset of the log's end.
    end: int
    #: The offsets of the end marks that the shell itself printed for its last command.
    ends: list[int]
    exited: bool
    status: int | None
    segments: list[tuple[int, str]]


def offsets(*values: int) -> bytes:
    return b"".join(map(OFFSET.pack, values))


def parse_offsets(payload: bytes) -> list[int]:
    """The offsets of a payload."""
    return [value for (value,) in OFFSET.iter_unpack(payload)]


def frame(kind: bytes, number: int = 0, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, number, len(payload)) + payload


def fields(*values: str | int | None) -> bytes:
    """A payload of fields; None is an empty one."""
    return b"\0".join(
        b"" if value is None else str(value).encode("utf-8", "surrogateescape") for value in values
    )


def parse_fields(payload: bytes) -> list[str]:
    """The fields of a payload."""
    return payload.decode("utf-8", "surrogateescape").split("\0")


class Frames:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def size(self) -> int:
        """How many bytes of an incomplete frame there are."""
        return len(self._held)

    def feed(self, data: bytes) -> list[tuple[bytes, int, bytes]]:
        """The complete frames so far: kind, number, payload."""
        held = self._held
        held += data
        found: list[tuple[bytes, int, bytes]] = []
        position = 0
        while len(held) - position >= HEADER.size:
            kind, number, size = HEADER.unpack_from(held, position)
            end = position + HEADER.size + size
            if len(held) < end:
                break
            found.append((kind, number, bytes(held[position + HEADER.size : end])))
            position = end
        del held[:position]
        return found


def pack_open(log: str, scratch: str, spec: ShellSpec) -> bytes:
    """The payload of OPEN: the directories of the log and of the shell's files, and the shell."""
    switch = pack_user(spec.uid, spec.gid, spec.groups)
    variables = [f"{name}={value}" for name, value in spec.environment.items()]
    return fields(
        log,
        scratch,
        spec.name,
        spec.cwd,
        spec.rows,
        spec.columns,
        switch,
        int(spec.plain),
        spec.token,
        len(spec.arguments),
        *spec.arguments,
        *variables,
    )


def parse_open(payload: bytes) -> tuple[str, str, ShellSpec]:
    log, scratch, name, cwd, rows, columns, switch, plain, token, count, *rest = parse_fields(payload)
    uid, gid, groups = parse_user(switch)
    spec = ShellSpec(
        name=name,
        cwd=cwd,
        rows=int(rows),
        columns=int(columns),
        arguments=rest[: int(count)],
        environment=dict(variable.split("=", 1) for variable in rest[int(count) :]),
        uid=uid,
        gid=gid,
        groups=groups,
        plain=plain == "1",
        token=token,
    )
    return log, scratch, spec


def pack_user(uid: int | None, gid: int | None, groups: tuple[int, ...]) -> str | None:
    """The user of a shell or program as one field."""
    return None if uid is None else f"{uid}:{gid}:{','.join(map(str, groups))}"


def parse_user(text: str) -> tuple[int | None, int | None, tuple[int, ...]]:
    if not text:
        return None, None, ()
    uid, gid, groups = text.split(":")
    return int(uid), int(gid), tuple(int(group) for group in groups.split(",") if group)


def pack_welcome(pid: int, held: list[HeldTerminal]) -> bytes:
    values: list[str | int | None] = [VERSION, pid, len(held)]
    for one in held:
        values += [one.number, one.name, one.pid, one.inputs, one.end, int(one.exited), one.status]
        values += [",".join(map(str, one.ends)), len(one.segments)]
        for start, path in one.segments:
            values += [start, path]
    return fields(*values)


def parse_welcome(payload: bytes) -> tuple[str, int, list[HeldTerminal]]:
    """The version and the process id of a holder, and its terminals."""
    version, pid, count, *rest = parse_fields(payload)
    held: list[HeldTerminal] = []
    if version != VERSION:
        return version, int(pid), held
    for _ in range(int(count)):
        number, name, shell, inputs, end, exited, status, ends, pieces = rest[:_PER_SESSION]
        after = _PER_SESSION + 2 * int(pieces)
        pairs = rest[_PER_SESSION:after]
        rest = rest[after:]
        held.append(
            HeldTerminal(
                number=int(number),
                name=name,
                pid=int(shell),
                inputs=int(inputs),
                end=int(end),
                ends=[int(at) for at in ends.split(",") if at],
                exited=exited == "1",
                status=int(status) if status else None,
                segments=[(int(start), path) for start, path in zip(pairs[::2], pairs[1::2], strict=True)],
            )
        )
    return version, int(pid), held
