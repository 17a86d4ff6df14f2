"""Upload and download of a large file, and the memory that takes."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import statistics
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.competitors import Say
from benchmarks.dialects import NotOffered
from benchmarks.load import Address, LoadError, exchange
from benchmarks.memory import PeakGrowth
from benchmarks.plan import Plan
from benchmarks.processes import in_child
from benchmarks.report import Cell, Row
from benchmarks.servers import Target

_NAME = "large.bin"
_LIMIT = 60.0


class TransferError(Exception):
    """A file did not arrive, or not as it was sent."""


@dataclass
class _Series:
    """The results of one server in one direction."""

    rates: list[float] = field(default_factory=list)
    growths: list[float] = field(default_factory=list)
    reason: str = ""


def measure_transfers(targets: Sequence[Target], plan: Plan, say: Say) -> list[Row]:
    """Send and fetch a large file several times, the servers in turns."""
    content = os.urandom(1_000_000) * plan.transfer_megabytes
    results: dict[str, dict[str, _Series]] = {"upload": {}, "download": {}}
    for _ in range(plan.transfers):
        for target in targets:
            for direction, work in (("upload", _upload), ("download", _download)):
                series = results[direction].setdefault(target.name, _Series())
                if series.reason:
                    continue
                try:
                    _once(target, content, work, series)
                except NotOffered:
                    series.reason = "not offered"
                except (TransferError, LoadError, OSError) as problem:
                    series.reason = str(problem)
                say(f"{direction} {target.name}: {series.reason or f'{series.rates[-1]:.0f} MB/s'}")
    rows = []
    for direction, by_server in results.items():
        if plan.wants(direction):
            rows += _rows(direction, by_server, plan.transfer_megabytes)
    return rows


def _once(target: Target, content: bytes, work: Callable[[Target, bytes], float], series: _Series) -> None:
    peak = PeakGrowth(target.processes())
    seconds = work(target, content)
    growth = peak.megabytes()
    series.rates.append(len(content) / 1e6 / seconds)
    if growth is not None:
        series.growths.append(growth)


def _folder(target: Target) -> str:
    return f"{target.site.folder}/transfer"


def _upload(target: Target, content: bytes) -> float:
    head, body = target.dialect.upload(_folder(target), _NAME, content)

    def work() -> float:
        answer, took = _converse(target.site.address, [head, body], room=1 << 20)
        status, _ = _parted(answer)
        if status != 200:
            raise TransferError(f"HTTP {status}")
        return took

    seconds = in_child(work, TransferError, _LIMIT)
    _check_arrived(target, content)
    return seconds


def _check_arrived(target: Target, content: bytes) -> None:
    """Let the server's shell say what it has got.

    Raises:
        TransferError: something else than what was sent.
    """
    expected = hashlib.sha256(content).hexdigest()
    request = target.dialect.command(f"sha256sum {_folder(target)}/{_NAME}")
    for _ in range(3):
        _, body = exchange(target.site.address, request.raw)
        if target.dialect.output(body).startswith(expected):
            return
    raise TransferError("the file did not arrive as it was sent")


def _download(target: Target, content: bytes) -> float:
    raw = target.dialect.download(_folder(target))

    def work() -> float:
        answer, took = _converse(target.site.address, [raw], room=len(content) + (1 << 20))
        status, body = _parted(answer)
        if status != 200:
            raise TransferError(f"HTTP {status}")
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                received = archive.read(_NAME)
        except (zipfile.BadZipFile, KeyError) as error:
            raise TransferError(f"not the archive that was expected: {error}") from error
        if received != content:
            raise TransferError("the file came back changed")
        return took

    return in_child(work, TransferError, _LIMIT)


def _converse(address: Address, pieces: Sequence[bytes], room: int) -> tuple[bytes, float]:
    """Send everything, then receive until the server closes; return the answer and the seconds it took.

    Raises:
        TransferError: the connection broke, or the answer needs more room.
    """
    received = bytearray(b"\1") * room  # not zeros: the pages shall exist before the clock runs
    view, at = memoryview(received), 0
    began = time.perf_counter()
    try:
        with socket.create_connection(address, timeout=_LIMIT) as connection:
            for piece in pieces:
                connection.sendall(piece)
            while count := connection.recv_into(view[at : at + (1 << 20)]):
                at += count
    except OSError as error:
        raise TransferError(f"the connection broke: {error}") from error
    took = time.perf_counter() - began
    if at == room:
        raise TransferError("the answer is longer than the file")
    return bytes(view[:at]), took


def _parted(answer: bytes) -> tuple[int, bytes]:
    """Status and body of an answer that ended with its connection."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        raise TransferError("no answer")
    head = answer[:end].lower()
    body = answer[end + 4 :]
    return int(head[9:12]), _dechunked(body) if b"transfer-encoding: chunked" in head else body


def _dechunked(body: bytes) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        if end < 0:
            raise TransferError("the answer breaks off")
        size = int(body[at:end].split(b";")[0], 16)
        if size == 0:
            return b"".join(pieces)
        pieces.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def _rows(direction: str, by_server: dict[str, _Series], megabytes: int) -> list[Row]:
    label = f"{direction} of {megabytes} MB"
    rate = Row(label, "MB/s", better="higher")
    memory = Row(f"{label}, peak growth of memory (RSS)", "MB")
    for server, series in by_server.items():
        if series.reason:
            rate.cells[server] = memory.cells[server] = Cell(reason=series.reason)
            continue
        rate.cells[server] = Cell((statistics.median(series.rates),), samples=len(series.rates))
        memory.cells[server] = (
            Cell((max(series.growths),), samples=len(series.growths))
            if series.growths
            else Cell(reason="not measurable from here")
        )
    return [rate, memory]
