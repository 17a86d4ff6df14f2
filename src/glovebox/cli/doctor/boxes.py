"""Boxes that nobody answers for any more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from glovebox.backends import owners
from glovebox.cli.engines import candidates

if TYPE_CHECKING:
    from glovebox.cli.doctor.finding import Patient
    from glovebox.settings.host import HostSettings

_AREA = "Boxes"
_ADVICE = "They are removed when the next box starts, or with: glovebox rm NAME"


def check(patient: Patient, settings: HostSettings) -> None:
    """Look for boxes whose client is gone."""
    for backend, orphans in (("process", _processes(settings)), ("docker", _containers(settings))):
        if orphans:
            patient.ill(_AREA, backend, f"the clients of {', '.join(orphans)} are gone", _ADVICE)
        elif orphans is not None:
            patient.well(_AREA, backend, "none is left over")


def _processes(settings: HostSettings) -> list[str]:
    from glovebox.backends.process.records import Records
    from glovebox.errors import NoSuchBox

    found = []
    for directory in Records(settings.state).directories():
        try:
            record = directory.read()
        except NoSuchBox:
            continue
        if not record.spec.keep and owners.is_gone(record.owner):
            found.append(directory.name)
    return found


def _containers(settings: HostSettings) -> list[str] | None:
    """None if no engine can be asked."""
    from glovebox.backends.docker.describing import BOX, KEEP, OWNER

    engine = next((engine for engine in candidates(settings) if engine.answers()), None)
    if engine is None:
        return None
    wanted = quote(json.dumps({"label": [BOX]}))
    try:
        containers = engine.get(f"/containers/json?all=1&filters={wanted}")
    except (OSError, ValueError):
        return None
    labels = [container.get("Labels") or {} for container in containers]
    return [
        label[BOX] for label in labels if label.get(KEEP) != "true" and owners.is_gone(label.get(OWNER, ""))
    ]
