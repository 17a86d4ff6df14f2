"""`python -m benchmarks`: measure the box next to other servers and print one table."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from benchmarks import plan as plans
from benchmarks.boxes.section import libraries, measure_boxes
from benchmarks.browser.gym import GYM, gym_version
from benchmarks.browser.section import measure_browser
from benchmarks.competitors import (
    FOR_CELLS,
    Competitor,
    Glovebox,
    Reference,
    SweRexServer,
    Unavailable,
)
from benchmarks.latency import clean_up, measure_requests, set_up
from benchmarks.load import LoadError, quantile
from benchmarks.mcp.section import measure_mcp
from benchmarks.memory import pss
from benchmarks.notebook.section import measure_notebook
from benchmarks.notebook.start import measure_notebook_starts
from benchmarks.plan import GROUPS, Plan
from benchmarks.report import Cell, Report, Row
from benchmarks.servers import Target, given, run
from benchmarks.start import measure_starts
from benchmarks.terminal.findings import Findings
from benchmarks.terminal.section import measure_terminal
from benchmarks.transfer import measure_transfers
from benchmarks.trivial import calibrate
from benchmarks.vscode.section import measure_window

#: Measures of servers that run, beside the single requests.
_RUNNING = ("upload", "download", "memory", "terminal", "notebook")


def main() -> int:
    """Run the benchmark; the status is 0 when the box could be measured."""
    options = _options()
    groups = frozenset(options.only.split(",")) if options.only else frozenset(GROUPS)
    unknown = groups - set(GROUPS)
    if unknown:
        print(f"--only: unknown: {', '.join(sorted(unknown))}; known: {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    plan = plans.quick(groups) if options.quick else plans.whole(groups)
    try:
        run_ = Run(options, plan)
        report = run_.execute()
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
        return 130
    text = report.table()
    print(text)
    if options.md:
        Path(options.md).write_text(text + "\n")
    if options.json:
        Path(options.json).write_text(report.as_json() + "\n")
    return 0 if "glovebox" not in run_.absent else 1


def say(text: str) -> None:
    """Tell whoever waits what is going on; the table alone goes to standard output."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the run; a second signal must not disturb the ending of what was started."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look in passing: about five minutes")
    parser.add_argument("--no-reference", action="store_true", help="leave the OpenHands server out")
    parser.add_argument("--bare-reference", action="store_true", help="the OpenHands server without plugins")
    parser.add_argument("--no-swerex", action="store_true", help="leave SWE-ReX out")
    parser.add_argument("--reference-url", metavar="URL", help="a reference server that already runs")
    parser.add_argument("--reference-key", metavar="KEY", default="", help="its session API key")
    parser.add_argument("--only", metavar="NAMES", help=f"of: {','.join(GROUPS)}")
    parser.add_argument("--json", metavar="FILE", help="write the results there, for programs")
    parser.add_argument("--md", metavar="FILE", help="write the table there, too")
    return parser.parse_args()


class Run:
    """One run: who takes part, what is measured, what came out."""

    def __init__(self, options: argparse.Namespace, plan: Plan) -> None:
        self.plan = plan
        self.reference_url: str | None = options.reference_url
        self.reference_key: str = options.reference_key
        self.is_bare: bool = options.bare_reference
        self.names = ["glovebox"]
        self.competitors: list[Competitor] = [Glovebox()]
        if plan.wants_servers and not options.no_reference:
            self.names.append(Reference.name)
            if not self.reference_url:
                self.competitors.append(Reference(is_bare=options.bare_reference))
        if plan.wants_servers and not options.no_swerex:
            self.names.append(SweRexServer.name)
            self.competitors.append(SweRexServer())
        if plan.wants("browser"):
            self.names.append(GYM)
        #: Why a server takes no part (any more).
        self.absent: dict[str, str] = {}

    def execute(self) -> Report:
        """Measure everything the plan asks for."""
        report = Report(self.names, _machine())
        began = time.perf_counter()
        for competitor in self.competitors:
            self._install(competitor, report)
        if self.plan.wants_servers:
            self._calibrate(report)
        if self.plan.wants("start"):
            report.rows += measure_starts(self._present(), self.plan, say)
        if self.plan.wants("notebook"):
            _add(measure_notebook_starts(self._present(), self.plan.notebook, say), report)
        if self.plan.operations or self.plan.wants(*_RUNNING):
            self._measure_running(report)
        if self.plan.wants("mcp"):
            self._measure_mcp(report)
        if self.plan.wants("browser"):
            self._measure_browser(report)
        if self.plan.wants("boxes"):
            self._measure_boxes(report)
        if self.plan.wants("vscode"):
            self._measure_window(report)
        self._fill_in(report)
        load = os.getloadavg()[0]
        report.notes.append(f"took {time.perf_counter() - began:.0f} s; load average {load:.2f} at the end")
        return report

    def _present(self) -> Sequence[Competitor]:
        return [competitor for competitor in self.competitors if competitor.name not in self.absent]

    def _install(self, competitor: Competitor, report: Report) -> None:
        try:
            competitor.install(say)
        except Unavailable as problem:
            self._drop(competitor.name, problem)
        else:
            report.notes.append(f"{competitor.name}: {competitor.version()}")

    def _drop(self, name: str, problem: Unavailable) -> None:
        say(f"without {name}: {problem}")
        self.absent[name] = str(problem)

    def _calibrate(self, report: Report) -> None:
        """Say what the load generator can do against a server that does nothing."""
        parts = []
        for clients in self.plan.clients:
            try:
                outcome = calibrate(clients, min(self.plan.seconds, 1.0))
            except LoadError as error:
                parts.append(f"{clients}: {error}")
                continue
            parts.append(
                f"{clients} client{'s' if clients > 1 else ''} {outcome.per_second:.0f} req/s, "
                f"p50 {quantile(outcome.latencies, 0.5):.2f} ms, "
                f"{1e6 * outcome.cpu_seconds / outcome.right:.0f} µs of its own CPU per request"
            )
        note = f"load generator against a server that does nothing: {'; '.join(parts)}"
        say(note)
        report.notes.append(note)
        report.notes.append("†: the load generator was busy more than 85 % of the time and may be the limit")

    def _measure_running(self, report: Report) -> None:
        with ExitStack() as stack:
            targets = self._start_all(stack)
            report.rows += measure_requests(targets, self.plan, say)
            if self.plan.wants("upload", "download"):
                report.rows += measure_transfers(targets, self.plan, say)
            if self.plan.wants("memory"):
                report.rows.append(_memory_row(targets))
            if self.plan.wants("terminal"):
                self._measure_terminal(targets, report)
            if self.plan.wants("notebook"):
                self._measure_notebook(targets, report)

    def _measure_terminal(self, targets: Sequence[Target], report: Report) -> None:
        try:
            _add(measure_terminal(targets, self.plan.terminal, say), report)
        except (Unavailable, LoadError) as problem:
            self._drop(Glovebox.name, Unavailable(f"terminal: {problem}"))

    def _measure_notebook(self, targets: Sequence[Target], report: Report) -> None:
        try:
            for found in measure_notebook(targets, self.plan.notebook, say):
                _add(found, report)
        except (Unavailable, LoadError) as problem:
            self._drop(Glovebox.name, Unavailable(f"notebook: {problem}"))

    def _measure_mcp(self, report: Report) -> None:
        try:
            _add(measure_mcp(self._present(), self.plan.mcp, say), report)
        except (Unavailable, LoadError) as problem:
            self._drop(Glovebox.name, Unavailable(f"mcp: {problem}"))

    def _measure_browser(self, report: Report) -> None:
        try:
            report.notes.append(f"{GYM}: {gym_version()}")
        except Unavailable as problem:
            self._drop(GYM, problem)
        try:
            _add(measure_browser(self.plan.browser, say), report)
        except (Unavailable, LoadError) as problem:
            self._drop(Glovebox.name, Unavailable(f"browser: {problem}"))

    def _measure_boxes(self, report: Report) -> None:
        measured = libraries(self._present(), is_bare=self.is_bare)
        try:
            found = measure_boxes(measured, self.plan.boxes, say)
        except (Unavailable, LoadError) as problem:
            self._drop(Glovebox.name, Unavailable(f"boxes: {problem}"))
        else:
            _add(found, report)
            report.notes += found.notes

    def _measure_window(self, report: Report) -> None:
        try:
            _add(measure_window(self.plan.window, say), report)
        except (Unavailable, LoadError) as problem:
            self._drop(Glovebox.name, Unavailable(f"vscode: {problem}"))

    def _start_all(self, stack: ExitStack) -> Sequence[Target]:
        """Start every server and keep them all running, so that they can be measured in turns."""
        targets: list[Target] = []
        for competitor in self._present():
            say(f"starting {competitor.name}")
            try:
                running = stack.enter_context(run(self._equipped(competitor)))
                running.wait_alive()
                set_up(running.target())
            except Unavailable as problem:
                self._drop(competitor.name, problem)
            else:
                targets.append(running.target())
        if self.reference_url and Reference.name in self.names:
            try:
                target = given(self.reference_url, self.reference_key, Reference.name)
                set_up(target)
            except Unavailable as problem:
                self._drop(Reference.name, problem)
            else:
                stack.callback(clean_up, target)
                targets.append(target)
        return targets

    def _equipped(self, competitor: Competitor) -> Competitor:
        """A box that is asked to run cells has the plugins for that, as the reference has."""
        needs_kernel = competitor.name == Glovebox.name and self.plan.wants("ipython")
        return Glovebox(*FOR_CELLS) if needs_kernel else competitor

    def _fill_in(self, report: Report) -> None:
        """Give every empty cell its reason."""
        for row in report.rows:
            for name in self.names:
                if name not in row.cells:
                    is_given = name == Reference.name and self.reference_url
                    row.cells[name] = Cell(
                        reason=self.absent.get(name, "given by its address" if is_given else "")
                    )


def _add(found: Findings, report: Report) -> None:
    report.rows += found.rows
    report.aims += found.aims


def _memory_row(targets: Sequence[Target]) -> Row:
    row = Row("memory after all of the above, all processes (PSS)", "MB")
    for target in targets:
        if target.running:
            row.cells[target.name] = Cell((pss(target.processes()),), samples=1)
    return row


def _machine() -> list[str]:
    tmux = shutil.which("tmux")
    shown = subprocess.run([tmux, "-V"], capture_output=True, text=True).stdout.strip() if tmux else "no tmux"
    return [
        f"{time.strftime('%Y-%m-%d %H:%M')}; {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}, {shown}; load average {os.getloadavg()[0]:.2f} at the start"
    ]


if __name__ == "__main__":
    sys.exit(main())
