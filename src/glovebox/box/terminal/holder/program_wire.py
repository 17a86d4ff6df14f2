"""What server and holder tell each other about programs without a shell."""

from __future__ import annotations

from glovebox.box.terminal.holder import wire
from glovebox.box.terminal.holder.lean import dataclass


@dataclass(kw_only=True)
class ProgramOrder:
    """A program to start without a shell, and what it starts with."""

    #: The directory of its logs.
    directory: str
    #: The value of the variable that its processes are found by.
    name: str
    #: What the server wants to know of it after a restart; the holder does not read it.
    label: str
    arguments: list[str]
    environment: dict[str, str]
    cwd: str
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    #: The size of its terminal; without one it has pipes.
    rows: int = 0
    columns: int = 0
    timeout: float | None = None
    #: Its standard input stays open after the first bytes.
    stdin_open: bool = False
    #: Bytes of the largest file it may write.
    file_size: int | None = None
    #: What it leaves in the background is killed when it has ended.
    contained: bool = False
    #: How many bytes of each log are kept.
    keep: int = 1 << 30


@dataclass(kw_only=True)
class ProgramEnd:
    """How a program ended."""

    #: Null if a signal killed it, whose number is in `signal`.
    code: int | None
    signal: int
    #: Why it was ended: `timeout`, `limit` or another word of the server; empty if it ended by itself.
    reason: str
    detail: str
    #: Seconds since 1970.
    ended: float
    cpu_seconds: float
    #: Bytes, of its largest process; 0 if unknown.
    peak_memory: int


@dataclass(kw_only=True)
class HeldProgram:
    """A program of the holder, as described to a server."""

    number: int
    name: str
    label: str
    pid: int
    #: As in GROWN.
    grown: list[int]
    end: ProgramEnd | None
    #: Offset and path of each file of both logs.
    segments: tuple[list[tuple[int, str]], list[tuple[int, str]]]


def pack_start(order: ProgramOrder, stdin: bytes) -> bytes:
    packed = wire.fields(
        order.directory,
        order.name,
        order.label,
        order.cwd,
        wire.pack_user(order.uid, order.gid, order.groups),
        order.rows,
        order.columns,
        None if order.timeout is None else repr(order.timeout),
        int(order.stdin_open),
        order.file_size,
        int(order.contained),
        order.keep,
        len(order.arguments),
        *order.arguments,
        *(f"{name}={value}" for name, value in order.environment.items()),
    )
    return wire.OFFSET.pack(len(packed)) + packed + stdin


def parse_start(payload: bytes) -> tuple[ProgramOrder, bytes]:
    (size,) = wire.OFFSET.unpack_from(payload)
    end = wire.OFFSET.size + size
    directory, name, label, cwd, user, rows, columns, timeout, *rest = wire.parse_fields(
        payload[wire.OFFSET.size : end]
    )
    stdin_open, file_size, contained, keep, count, *rest = rest
    uid, gid, groups = wire.parse_user(user)
    order = ProgramOrder(
        directory=directory,
        name=name,
        label=label,
        cwd=cwd,
        uid=uid,
        gid=gid,
        groups=groups,
        rows=int(rows),
        columns=int(columns),
        timeout=float(timeout) if timeout else None,
        stdin_open=stdin_open == "1",
        file_size=int(file_size) if file_size else None,
        contained=contained == "1",
        keep=int(keep),
        arguments=rest[: int(count)],
        environment=dict(variable.split("=", 1) for variable in rest[int(count) :]),
    )
    return order, payload[end:]


def pack_end(end: ProgramEnd | None) -> list[str | int | None]:
    """The fields of a ProgramEnd; one empty field if there is none yet."""
    if end is None:
        return [None]
    return [
        "1", end.code, end.signal, end.reason, end.detail, repr(end.ended), repr(end.cpu_seconds),
        end.peak_memory,
    ]  # fmt: skip


def parse_end(values: list[str]) -> ProgramEnd | None:
    """The reverse of `pack_end`; what was used is removed from the list."""
    if not values.pop(0):
        return None
    code, number, reason, detail, ended, cpu_seconds, peak_memory = values[:7]
    del values[:7]
    return ProgramEnd(
        code=int(code) if code else None,
        signal=int(number),
        reason=reason,
        detail=detail,
        ended=float(ended),
        cpu_seconds=float(cpu_seconds),
        peak_memory=int(peak_memory),
    )


def pack_held(held: HeldProgram) -> bytes:
    values: list[str | int | None] = [held.name, held.label, held.pid, ",".join(map(str, held.grown))]
    values += pack_end(held.end)
    for segments in held.segments:
        values.append(len(segments))
        for start, path in segments:
            values += [start, path]
    return wire.fields(*values)


def parse_held(number: int, payload: bytes) -> HeldProgram:
    name, label, pid, grown, *rest = wire.parse_fields(payload)
    end = parse_end(rest)
    logs: list[list[tuple[int, str]]] = []
    for _ in range(2):
        after = 1 + 2 * int(rest[0])
        pairs, rest = rest[1:after], rest[after:]
        logs.append([(int(start), path) for start, path in zip(pairs[::2], pairs[1::2], strict=True)])
    return HeldProgram(
        number=number,
        name=name,
        label=label,
        pid=int(pid),
        grown=[int(offset) for offset in grown.split(",")],
        end=end,
        segments=(logs[0], logs[1]),
    )
