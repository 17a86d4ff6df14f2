"""All measures of cells, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.competitors import Glovebox, Say, Unavailable
from benchmarks.notebook.asking import first_cell
from benchmarks.notebook.cells import measure_cells, measure_lost_cells
from benchmarks.notebook.large import measure_large_cells
from benchmarks.notebook.start import ALL_PLUGINS
from benchmarks.notebook.stream import measure_first_output
from benchmarks.notebook.timeout import measure_timeouts
from benchmarks.openhands import OpenHands
from benchmarks.plan import NotebookPlan
from benchmarks.report import Cell
from benchmarks.servers import Target
from benchmarks.terminal.box import fresh_box
from benchmarks.terminal.findings import Findings


def measure_notebook(targets: Sequence[Target], plan: NotebookPlan, say: Say) -> Iterator[Findings]:
    """Measure fresh boxes of this project, and the other servers as far as they run cells.

    Raises:
        Unavailable: a box does not start, or runs no cells.
        LoadError: it does not answer.
    """
    with fresh_box(*ALL_PLUGINS) as own:
        first_cell(own.target)
        others = [target for target in targets if target.name != Glovebox.name]
        peers, unable = _able(others, say)
        yield _with_reasons(measure_cells(own.target, peers, plan, say), unable)
        yield _with_reasons(measure_lost_cells(own.target, peers, plan, say), unable)
        yield _with_reasons(measure_timeouts([own.target, *peers], plan, say), unable)
        no_stream = {target.name: "not offered" for target in others}
        yield _with_reasons(measure_first_output(own.target, plan, say), no_stream)
    yield measure_large_cells(plan, say)


def _with_reasons(found: Findings, unable: Mapping[str, str]) -> Findings:
    for row in found.rows:
        row.cells |= {name: Cell(reason=reason) for name, reason in unable.items()}
    return found


def _able(peers: Sequence[Target], say: Say) -> tuple[list[Target], dict[str, str]]:
    """The servers that run cells, and of the others why they do not."""
    able: list[Target] = []
    unable: dict[str, str] = {}
    for peer in peers:
        try:
            if not isinstance(peer.dialect, OpenHands):
                raise Unavailable("not offered")
            first_cell(peer)
        except Unavailable as problem:
            unable[peer.name] = str(problem)
            say(f"notebook: {peer.name} n/a: {problem}")
        else:
            able.append(peer)
    return able, unable
