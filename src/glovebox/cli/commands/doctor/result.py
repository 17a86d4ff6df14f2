"""What a check has found."""

from __future__ import annotations

from typing import Literal

from glovebox.protocol.base import Message

Level = Literal["ok", "warning", "problem"]


class Finding(Message):
    """One thing that was looked at."""

    area: str
    name: str
    level: Level
    #: How it is.
    found: str
    #: What to do about it; empty if nothing has to be done.
    advice: str = ""


class Patient:
    """Collects findings; how bad one is depends on what boxes are to be made of."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.findings: list[Finding] = []

    def well(self, area: str, name: str, found: str) -> None:
        """It is as it should be."""
        self.findings.append(Finding(area=area, name=name, level="ok", found=found))

    def ill(self, area: str, name: str, found: str, advice: str, *, needed_by: tuple[str, ...] = ()) -> None:
        """It is not, which is a problem to these backends (`*` for all), and worth a word to the others."""
        level: Level = "problem" if {self.backend, "*"} & {*needed_by} else "warning"
        self.findings.append(Finding(area=area, name=name, level=level, found=found, advice=advice))
