"""All measures of boxes as a host has them, one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from benchmarks.boxes.client import OURS, Client, Library
from benchmarks.boxes.command import measure_commands
from benchmarks.boxes.copies import measure_copies
from benchmarks.boxes.crowd import measure_crowd
from benchmarks.boxes.engine import OWN_IMAGE, Engine, found_engine
from benchmarks.boxes.first import KINDS, OWN_KINDS, first_findings, kept, measure_first
from benchmarks.boxes.mounting import complete, mounted
from benchmarks.boxes.overhead import measure_overhead
from benchmarks.boxes.peer import BUBBLEWRAP, CONTAINER, POOL, PROCESS
from benchmarks.boxes.tally import NOT_OFFERED, BoxFindings, Tally
from benchmarks.competitors import (
    Competitor,
    Glovebox,
    Reference,
    Say,
    SweRexServer,
    Unavailable,
    cache_folder,
)
from benchmarks.plan import BoxesPlan
from benchmarks.report import Cell

#: How the container engine is found.
Finding = Callable[[Say], AbstractContextManager[Engine]]


def libraries(competitors: Sequence[Competitor], *, is_bare: bool) -> list[Library]:
    """The clients that belong to some servers."""
    found = {
        Glovebox.name: OURS,
        Reference.name: Library(
            Reference.name,
            cache_folder() / "openhands" / "bin" / "python",
            "benchmarks.boxes.openhands_peer",
            has_plugins=not is_bare,
        ),
        SweRexServer.name: Library(
            SweRexServer.name,
            cache_folder() / "swerex" / "bin" / "python",
            "benchmarks.boxes.swerex_peer",
        ),
    }
    return [found[competitor.name] for competitor in competitors if competitor.name in found]


def measure_boxes(
    measured: Sequence[Library], plan: BoxesPlan, say: Say, find_engine: Finding = found_engine
) -> BoxFindings:
    """Measure the clients of this project and of others, with the same image and on the same engine.

    Raises:
        Unavailable: the client of this project does not start.
        LoadError: its box does not answer.
    """
    tally = Tally(say)
    findings = BoxFindings()
    with ExitStack() as stack:
        engine = _engine(stack, measured, tally, find_engine)
        if engine:
            findings.notes.append(f"containers: {engine.version()}, image {engine.image}")
        names = [library.name for library in measured]
        clients = _clients(stack, measured, engine, tally)
        found = measure_first(clients, plan, tally)
        later = BoxFindings()
        with kept(clients, found, tally) as boxes:
            later.add(measure_overhead(clients, boxes, plan, tally))
            later.add(measure_copies(clients, boxes, plan, tally))
        crowd = measure_crowd(clients, plan, tally)
        first = first_findings(found, [client.name for client in clients], tally)
        findings.notes += first.notes
        for part in (first, measure_commands(names, engine, plan, tally), crowd, later):
            findings.add(part)
    for row in findings.rows:
        for name in names:
            row.cells.setdefault(name, Cell(reason=tally.reason(name, PROCESS)))
    return findings


def _engine(
    stack: ExitStack, measured: Sequence[Library], tally: Tally, find_engine: Finding
) -> Engine | None:
    """The container engine, if there is one; what cannot be measured is excused."""
    for library in measured:
        for kind in OWN_KINDS:
            if library.name != Glovebox.name:
                tally.excuse(library.name, kind, NOT_OFFERED)
    if shutil.which("bwrap") is None:
        tally.excuse(Glovebox.name, BUBBLEWRAP, "bubblewrap is missing")
    try:
        engine = stack.enter_context(find_engine(tally.say))
    except Unavailable as problem:
        tally.say(f"boxes: without containers: {problem}")
        for library in measured:
            for kind in (CONTAINER, POOL):
                tally.excuse(library.name, kind, str(problem))
        return None
    if not engine.has_own_image:
        tally.excuse(
            Reference.name, CONTAINER, f"there is no image {OWN_IMAGE}, and its own is not built here"
        )
    return engine


def _clients(
    stack: ExitStack, measured: Sequence[Library], engine: Engine | None, tally: Tally
) -> list[Client]:
    """Those that start; all import what they need at the same time."""
    started = []
    for library in measured:
        with _dropping(library.name, tally):
            if library.name == SweRexServer.name:
                complete(library.python, tally.say)
            started.append(Client(library, engine))
            stack.callback(started[-1].close)
    clients = []
    for client in started:
        is_mounted = client.name == SweRexServer.name and engine is not None
        with _dropping(client.name, tally):
            client.wait_ready(mounted(client.library.python, stack) if is_mounted else ())
            clients.append(client)
    return clients


@contextmanager
def _dropping(name: str, tally: Tally) -> Iterator[None]:
    """A client that does not start takes no part, unless it is this project's."""
    try:
        yield
    except Unavailable as problem:
        if name == Glovebox.name:
            raise
        tally.say(f"boxes: without {name}: {problem}")
        for kind in KINDS:
            tally.excuse(name, kind, str(problem))
