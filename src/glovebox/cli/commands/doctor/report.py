"""The findings of all checks, and their text for a person."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Literal

from glovebox.protocol.base import Message

Level = Literal["ok", "warning", "problem"]
_MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}
_COLOURS = {"ok": "\x1b[32m", "warning": "\x1b[33m", "problem": "\x1b[31m"}


class Finding(Message):
    """The result of one check."""

    area: str
    name: str
    level: Level
    found: str
    #: What to do about it; empty if nothing has to be done.
    advice: str = ""


class Area:
    """Collects the findings of an area, for boxes of one backend."""

    def __init__(self, findings: list[Finding], backend: str, name: str) -> None:
        self.backend = backend
        self._findings = findings
        self._name = name

    def ok(self, name: str, found: str) -> None:
        self._findings.append(Finding(area=self._name, name=name, level="ok", found=found))

    def bad(self, name: str, found: str, advice: str, *needed_by: str) -> None:
        """A problem if the backend needs it, else a warning."""
        level: Level = "problem" if self.backend in needed_by else "warning"
        self._findings.append(Finding(area=self._name, name=name, level=level, found=found, advice=advice))


def as_text(findings: list[Finding], backend: str) -> str:
    """The findings for a person."""
    coloured = sys.stdout.isatty()
    lines = []
    for area, members in groupby(findings, key=lambda finding: finding.area):
        lines.append(area)
        for finding in members:
            mark = _MARKS[finding.level]
            if coloured:
                mark = f"{_COLOURS[finding.level]}{mark}\x1b[m"
            lines.append(f"  {mark}  {finding.name}: {finding.found}")
            if finding.advice:
                lines.append(f"           {finding.advice}")
    verdict = ", ".join(_count(findings, level) for level in ("problem", "warning"))
    return "\n".join([*lines, "", f"Boxes of the backend {backend}: {verdict}."])


def _count(findings: list[Finding], level: str) -> str:
    number = sum(finding.level == level for finding in findings)
    return f"{number or 'no'} {level}{'' if number == 1 else 's'}"
