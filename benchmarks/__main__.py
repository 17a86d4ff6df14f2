"""`python -m benchmarks`: measure the box next to its peers and print one table."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from benchmarks.harness import OWN, Group, say
from benchmarks.load import calibrate, quantile
from benchmarks.measures import boxes, browser, mcp, notebook, server, terminal, vscode
from benchmarks.peers.browsers import GYM, gym_version
from benchmarks.peers.openhands import Glovebox, Reference
from benchmarks.peers.server import Peer
from benchmarks.peers.swerex import SweRex
from benchmarks.processes import Failed
from benchmarks.report import Report

#: Groups beside that of the servers, whose measures have names of their own, in the order of the report.
GROUPS: Mapping[str, Group] = {
    "terminal": terminal.GROUP,
    "notebook": notebook.GROUP,
    "mcp": mcp.GROUP,
    "browser": browser.GROUP,
    "boxes": boxes.GROUP,
    "vscode": vscode.GROUP,
}
#: What `--only` takes.
NAMES = (*server.NAMES, *GROUPS)


def main() -> int:
    """Run the benchmark; the status is 0 when the box could be measured."""
    options = _options()
    wanted = frozenset(options.only.split(",")) if options.only else frozenset(NAMES)
    if unknown := wanted - set(NAMES):
        print(f"--only: unknown: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        report, is_measured = measure(options, wanted)
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
        return 130
    text = report.table()
    print(text)
    if options.md:
        Path(options.md).write_text(text + "\n")
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
    parser.add_argument("--reference-url", metavar="URL", default="", help="a reference that already runs")
    parser.add_argument("--reference-key", metavar="KEY", default="", help="its session API key")
    parser.add_argument("--only", metavar="NAMES", help=f"of: {','.join(NAMES)}")
    parser.add_argument("--json", metavar="FILE", help="write the results there, for programs")
    parser.add_argument("--md", metavar="FILE", help="write the table there, too")
    return parser.parse_args()


def peers_of(options: argparse.Namespace, wanted: frozenset[str]) -> list[Peer]:
    """The servers that are compared; a run of the browser or of VS Code needs only this project's."""
    peers: list[Peer] = [Glovebox()]
    if wanted - {"browser", "vscode"}:
        if not options.no_reference:
            url, key = options.reference_url, options.reference_key
            peers.append(Reference(is_bare=options.bare_reference, url=url, key=key))
        if not options.no_swerex:
            peers.append(SweRex())
    return peers


def measure(options: argparse.Namespace, wanted: frozenset[str]) -> tuple[Report, bool]:
    """Measure what is wanted; the report, and whether this project's box could be measured."""
    peers = peers_of(options, wanted)
    names = [*(peer.name for peer in peers), *([GYM] if "browser" in wanted else [])]
    report, began, is_measured = Report(names, [_machine()]), time.perf_counter(), True
    absent = _install(peers, report)
    if len(peers) > 1 or wanted - {"browser", "vscode"}:
        report.notes.append(_calibration((1, 8) if options.quick else (1, 8, 32)))
    if "browser" in wanted:
        with suppress(Failed):  # its column will say why
            report.notes.append(f"{GYM}: {gym_version()}")
    plan = [("server", server.GROUP, {"wanted": wanted & set(server.NAMES)})]
    plan += [(name, group, {}) for name, group in GROUPS.items() if name in wanted]
    for label, group, changes in plan:
        if label != "server" or changes["wanted"]:
            size = group.size(quick=options.quick, **changes)
            present = [peer for peer in peers if peer.name not in absent]
            results = group.results(label, size, names, present)
            for name, reason in absent.items():
                results.reasons[name, ""] = reason
            report.rows += results.rows(group.measures(size))
            report.aims += group.aims(results)
            report.notes += results.notes
            is_measured &= not results.has_own_failure
    load = os.getloadavg()[0]
    report.notes.append(f"took {time.perf_counter() - began:.0f} s; load average {load:.2f} at the end")
    return report, is_measured and OWN not in absent


def _install(peers: Sequence[Peer], report: Report) -> dict[str, str]:
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


def _calibration(numbers: Sequence[int]) -> str:
    parts = []
    for clients in numbers:
        try:
            outcome = calibrate(clients, 0.5)
        except Failed as problem:
            parts.append(f"{clients}: {problem}")
            continue
        parts.append(
            f"{clients} client{'s' if clients > 1 else ''} {outcome.per_second:.0f} req/s, "
            f"p50 {quantile(outcome.values, 0.5):.2f} ms, "
            f"{1e6 * outcome.cpu_seconds / outcome.right:.0f} µs of its own CPU per request"
        )
    return f"load generator against a server that does nothing: {'; '.join(parts)}"


def _machine() -> str:
    tmux = shutil.which("tmux")
    shown = subprocess.run([tmux, "-V"], capture_output=True, text=True).stdout.strip() if tmux else "no tmux"
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}; {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}, {shown}; load average {os.getloadavg()[0]:.2f} at the start"
    )


if __name__ == "__main__":
    sys.exit(main())
