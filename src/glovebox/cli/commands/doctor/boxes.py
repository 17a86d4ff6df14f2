"""Boxes that nobody answers for any more."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from glovebox.backends import owners
from glovebox.cli.engines import candidates

if TYPE_CHECKING:
    from glovebox.cli.commands.doctor.result import Patient
    from glovebox.settings.host import HostSettings

_REMOTE_AREA = "Box elsewhere"
_SECONDS = 5.0
_REMOTE = ("remote",)


def check_remote(patient: Patient, settings: HostSettings) -> None:
    """Ask it whether it is there, if there should be one."""
    if not settings.url:
        if patient.backend == "remote":
            patient.ill(
                _REMOTE_AREA,
                "address",
                "none",
                "Set GLOVEBOX_URL to the address of a box.",
                needed_by=_REMOTE,
            )
        return
    try:
        status = _status(settings.url)
    except (OSError, ValueError, http.client.HTTPException) as error:
        patient.ill(
            _REMOTE_AREA, "address", f"{settings.url} does not answer ({error})",
            "Start it with glovebox serve, or correct the address (GLOVEBOX_URL).", needed_by=_REMOTE,
        )  # fmt: skip
        return
    if status == 200:
        patient.well(_REMOTE_AREA, "address", f"{settings.url} answers")
    else:
        patient.ill(
            _REMOTE_AREA, "address", f"what answers at {settings.url} is not a box ({status})",
            "Correct the address (GLOVEBOX_URL).", needed_by=_REMOTE,
        )  # fmt: skip


def _status(url: str) -> int:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not of the form http://host:port")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/alive")
        return connection.getresponse().status
    finally:
        connection.close()


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
    from glovebox.backends.process.records import BoxRecords
    from glovebox.errors import NoSuchBox

    found = []
    for directory in BoxRecords(settings.state).directories():
        try:
            record = directory.read()
        except NoSuchBox:
            continue
        if not record.spec.keep and owners.is_gone(record.owner):
            found.append(directory.name)
    return found


def _containers(settings: HostSettings) -> list[str] | None:
    """None if no engine can be asked."""
    from glovebox.backends.docker.labels import BOX, KEEP, OWNER

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
