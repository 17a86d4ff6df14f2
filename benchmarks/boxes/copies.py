"""A large file and a tree of small ones, into a box and out of it."""

from __future__ import annotations

import hashlib
import os
import statistics
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.boxes.client import Client
from benchmarks.boxes.peer import PROCESS, Begun
from benchmarks.boxes.tally import NOT_ASKED, BoxFindings, Tally
from benchmarks.competitors import SweRexServer
from benchmarks.load import LoadError
from benchmarks.memory import PeakGrowth
from benchmarks.plan import BoxesPlan
from benchmarks.report import Cell, Row

_MEGABYTE = 1_000_000
_SMALL = 2_000
_PER_DIRECTORY = 100
#: The kind of work for which a client may be excused.
_COPIES = "copies"
_IN, _OUT = "into the box", "out of the box"
#: Prints how many files there are, and a hash of all of them in the order of their names.
_LOOK = (
    "cd {directory} && find . -type f | wc -l && "
    "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum | cut -d ' ' -f 1"
)


@dataclass(frozen=True)
class _Load:
    """What is copied."""

    label: str
    #: A directory, and what of it is sent.
    directory: Path
    source: Path
    #: How much it is, in the unit that its speed is told in.
    amount: float
    unit: str
    files: int
    digest: str

    @property
    def is_tree(self) -> bool:
        """Whether it is sent as a directory."""
        return self.directory == self.source


@dataclass
class _Copies:
    """All copies of one load by one client."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {_IN: [], _OUT: []})
    #: How far the memory of the client and of the box rose.
    growths: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: {_IN: [], _OUT: []})


def measure_copies(
    clients: Sequence[Client], boxes: Mapping[str, Begun], plan: BoxesPlan, tally: Tally
) -> BoxFindings:
    """Copy with each client in turns; every copy is compared with what was sent."""
    findings = BoxFindings()
    for client in clients:
        if client.name == SweRexServer.name:
            tally.excuse(
                client.name, _COPIES, "it copies in the client's own process, or to a container only"
            )
        elif client.name not in boxes:
            tally.excuse(client.name, _COPIES, tally.reason(client.name, PROCESS) or NOT_ASKED)
    with _loads(plan) as loads:
        for load in loads:
            done = {client.name: _Copies() for client in clients}
            for _ in range(plan.copies):
                for client in clients:
                    if tally.reason(client.name, _COPIES):
                        continue
                    with tally.excusing(client.name, _COPIES):
                        _copy(client, boxes[client.name].workspace, load, done[client.name])
                        tally.say(f"boxes, {load.label}: {client.name} {_shown(load, done[client.name])}")
            findings.rows += _rows(load, done, tally)
    return findings


@contextmanager
def _loads(plan: BoxesPlan) -> Iterator[Sequence[_Load]]:
    """One large file, and a tree of small ones, on the disk of this machine."""
    with tempfile.TemporaryDirectory(prefix="glovebox-bench-") as folder:
        one, many = Path(folder) / "one", Path(folder) / "many"
        one.mkdir()
        block = os.urandom(_MEGABYTE)
        whole = hashlib.sha256()
        with open(one / "large", "wb") as file:
            for number in range(plan.copy_megabytes):
                file.write(piece := number.to_bytes(8, "big") + block[8:])
                whole.update(piece)
        label = f"a file of {plan.copy_megabytes} MB"
        yield (
            _Load(label, one, one / "large", plan.copy_megabytes, "MB/s", 1, whole.hexdigest()),
            _small_files(many, plan.copy_files),
        )


def _small_files(directory: Path, count: int) -> _Load:
    whole = hashlib.sha256()
    for number in range(count):
        path = directory / f"d{number // _PER_DIRECTORY:04}" / f"{number % _PER_DIRECTORY:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = f"{number:8}".encode() * (_SMALL // 8)
        path.write_bytes(content)
        whole.update(content)
    label = f"{count} files of {_SMALL // 1000} kB"
    return _Load(label, directory, directory, count, "files/s", count, whole.hexdigest())


def _copy(client: Client, workspace: str, load: _Load, done: _Copies) -> None:
    """Once into the box and out of it again.

    Raises:
        LoadError: what arrives is not what was sent.
    """
    place = f"{workspace}/copied"
    client.output(f"rm -rf {place} && mkdir -p {place}")
    growth = _Growth(client)
    seconds = client.copy_in(load.source, place, is_tree=load.is_tree)
    growth.note(done, _IN)
    done.rates[_IN].append(load.amount / seconds)
    seen = client.output(_LOOK.format(directory=place)).split()
    if seen != [str(load.files), load.digest]:
        raise LoadError(f"{load.label}: the box has something else: {' '.join(seen)[:100]}")
    growth = _Growth(client)
    seconds, archive = client.copy_out(place)
    growth.note(done, _OUT)
    done.rates[_OUT].append(load.amount / seconds)
    try:
        if _look(archive) != (load.files, load.digest):
            raise LoadError(f"{load.label}: something else came out of the box")
    finally:
        archive.unlink()


def _look(archive: Path) -> tuple[int, str]:
    """How many files an archive has, and a hash of all of them in the order of their names."""
    whole = hashlib.sha256()
    with zipfile.ZipFile(archive) as files:
        names = sorted(name for name in files.namelist() if not name.endswith("/"))
        for name in names:
            with files.open(name) as file:
                while piece := file.read(1 << 20):
                    whole.update(piece)
    return len(names), whole.hexdigest()


class _Growth:
    """How far the memory of a client and of its box rises from now on."""

    def __init__(self, client: Client) -> None:
        self._client = PeakGrowth([client.process()])
        self._box = PeakGrowth(client.boxes())

    def note(self, done: _Copies, way: str) -> None:
        """Take it down, if the kernel tells."""
        both = self._client.megabytes(), self._box.megabytes()
        if both[0] is not None and both[1] is not None:
            done.growths[way].append((both[0], both[1]))


def _rows(load: _Load, done: Mapping[str, _Copies], tally: Tally) -> list[Row]:
    rows = []
    for way in (_IN, _OUT):
        rate = Row(f"boxes: {load.label} {way}", load.unit, better="higher")
        growth = Row(f"boxes: {load.label} {way}, peak growth of memory, client / box", "MB")
        for name, copies in done.items():
            missing = Cell(reason=tally.reason(name, _COPIES))
            rates, growths = copies.rates[way], copies.growths[way]
            rate.cells[name] = Cell((statistics.median(rates),), samples=len(rates)) if rates else missing
            both = tuple(statistics.median(values) for values in zip(*growths, strict=True))
            growth.cells[name] = Cell(both, samples=len(growths)) if both else missing
        rows += [rate, growth]
    return rows


def _shown(load: _Load, copies: _Copies) -> str:
    return ", ".join(f"{rates[-1]:.0f} {load.unit} {way}" for way, rates in copies.rates.items())
