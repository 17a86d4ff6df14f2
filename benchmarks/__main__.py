"""`python -m benchmarks`: measure the box next to its peers and print a table for each group."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.harness import BARE, OWN, REFERENCE, SWEREX, Group, Results, say
from benchmarks.measures import boxes, browser, mcp, notebook, processes, server, terminal, vscode
from benchmarks.peers.browsers import Gym
from benchmarks.peers.engine import DockerExec
from benchmarks.peers.openhands import Glovebox, Reference
from benchmarks.peers.swerex import SweRex
from benchmarks.processes import Failed
from benchmarks.report import Report, Table

#: In the order of the report.
GROUPS = [one.GROUP for one in (server, processes, terminal, notebook, mcp, browser, boxes, vscode)]


def main() -> int:
    """Run the benchmark; the status is 0 when the box could be measured."""
    options = _options()
    words = frozenset(options.only.split(",")) if options.only else frozenset(group.name for group in GROUPS)
    choices = choices_of(options.quick)
    known = {word for measures in choices.values() for names in measures.values() for word in names}
    if unknown := words - known:
        short = sorted(word for word in known if "." not in word)
        print(f"--only: unknown: {', '.join(sorted(unknown))}; known: {', '.join(short)}", file=sys.stderr)
        return 2
    wanted = {group: {name for name in found if words & found[name]} for group, found in choices.items()}
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        report, is_measured = measure(options, wanted)
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
        return 130
    print(report.text())
    if options.json:
        Path(options.json).write_text(report.as_json() + "\n")
    return 0 if is_measured else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the run; a second signal must not disturb the end of what was started."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: about five minutes")
    parser.add_argument("--no-reference", action="store_true", help="leave the OpenHands server out")
    parser.add_argument("--bare-reference", action="store_true", help="the OpenHands server without plugins")
    parser.add_argument("--no-swerex", action="store_true", help="leave SWE-ReX out")
    parser.add_argument(
        "--only", metavar="NAMES", help="groups (terminal) and measures (read, terminal.echo)"
    )
    parser.add_argument(
        "--before", metavar="TREE", help="another checkout, whose VS Code windows are measured in turns"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results there, for programs")
    return parser.parse_args()


def choices_of(quick: bool) -> dict[str, dict[str, set[str]]]:
    """By group, its measures and what `--only` takes for each: `server`, `server.read`, `server.read.8`.

    The name of a measure without its group is one of the first group that has it: `read`.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for group in GROUPS:
        taken = {word for measures in found.values() for words in measures.values() for word in words}
        found[group.name] = {}
        for name in (measure.name for stage in group.stages(quick) for measure in stage.measures):
            parts = {name, name.partition(".")[0]}
            found[group.name][name] = {
                group.name,
                *(parts - taken),
                *(f"{group.name}.{part}" for part in parts),
            }
    return found


def peers_of(options: argparse.Namespace, plan: Sequence[Group]) -> list[Any]:
    """The peers that the groups of a run compare; without those that were left out."""
    needed = {name for group in plan for name in group.peers}
    left_out = ({REFERENCE} if options.no_reference else set()) | ({SWEREX} if options.no_swerex else set())
    peers: list[Any] = [Glovebox(), Reference(is_bare=options.bare_reference), SweRex(), DockerExec(), Gym()]
    if options.before:
        peers.append(vscode.OtherTree(Path(options.before)))
    return [peer for peer in peers if peer.name in needed - left_out]


def measure(options: argparse.Namespace, wanted: Mapping[str, set[str]]) -> tuple[Report, bool]:
    """Measure what is wanted of each group; the report, and whether this project's box could be measured."""
    plan = [group for group in GROUPS if wanted[group.name]]
    began, peers, is_measured = time.perf_counter(), peers_of(options, plan), True
    report = Report([_machine()])
    absent = _install(peers, report)
    for group in plan:
        there = {peer.name for peer in peers} | {BARE}
        names = [name for name in group.peers if name in there]
        results = Results(group.name, names, reasons={(name, ""): why for name, why in absent.items()})
        in_group = [peer for peer in peers if peer.name in names]
        results.run(group.stages(options.quick), in_group, wanted[group.name])
        report.tables.append(Table(group.name, names, results.rows()))
        is_measured &= not results.has_own_failure
    load = os.getloadavg()[0]
    report.notes.append(f"took {time.perf_counter() - began:.0f} s; load average {load:.2f} at the end")
    return report, is_measured and OWN not in absent


def _install(peers: Sequence[Any], report: Report) -> Mapping[str, str]:
    """Install the peers; returns why some are absent."""
    absent = {}
    for peer in peers:
        try:
            peer.install()
        except Failed as problem:
            say(f"without {peer.name}: {problem}")
            absent[peer.name] = str(problem)
        else:
            report.notes.append(f"{peer.name}: {peer.version()}")
    return absent


def _machine() -> str:
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}; {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}; load average {os.getloadavg()[0]:.2f} at the start"
    )


if __name__ == "__main__":
    sys.exit(main())
