"""All checks, and what they found as text."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING

from glovebox.cli.commands.doctor import boxes, engine, machine, package, programs
from glovebox.cli.commands.doctor.result import Finding, Patient

if TYPE_CHECKING:
    from glovebox.settings.host import HostSettings

_MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}
_COLOURS = {"ok": "\x1b[32m", "warning": "\x1b[33m", "problem": "\x1b[31m"}


def findings(settings: HostSettings, backend: str) -> list[Finding]:
    """What there is to know for boxes of this backend."""
    patient = Patient(backend)
    checks = (
        package.check,
        machine.check,
        programs.check,
        programs.check_vscode,
        engine.check,
        boxes.check_remote,
        boxes.check,
    )
    for check in checks:
        check(patient, settings)
    return patient.findings


def as_text(found: list[Finding], backend: str) -> str:
    """The findings for a person."""
    coloured = sys.stdout.isatty()
    lines = []
    for area, members in groupby(found, key=lambda finding: finding.area):
        lines.append(area)
        for finding in members:
            mark = _MARKS[finding.level]
            if coloured:
                mark = f"{_COLOURS[finding.level]}{mark}\x1b[m"
            lines.append(f"  {mark}  {finding.name}: {finding.found}")
            if finding.advice:
                lines.append(f"           {finding.advice}")
    problems = sum(finding.level == "problem" for finding in found)
    warnings = sum(finding.level == "warning" for finding in found)
    verdict = f"{_counted(problems, 'problem')}, {_counted(warnings, 'warning')}"
    lines += ["", f"Boxes of the backend {backend}: {verdict}."]
    return "\n".join(lines)


def _counted(number: int, thing: str) -> str:
    return f"{number or 'no'} {thing}{'' if number == 1 else 's'}"
