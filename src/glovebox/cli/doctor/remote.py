"""The box elsewhere that the backend `remote` means."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from glovebox.cli.doctor.finding import Patient
    from glovebox.settings.host import HostSettings

_AREA = "Box elsewhere"
_SECONDS = 5.0
_REMOTE = ("remote",)


def check(patient: Patient, settings: HostSettings) -> None:
    """Ask it whether it is there, if there should be one."""
    if not settings.url:
        if patient.backend == "remote":
            patient.ill(
                _AREA, "address", "none", "Set GLOVEBOX_URL to the address of a box.", needed_by=_REMOTE
            )
        return
    try:
        status = _status(settings.url)
    except (OSError, ValueError, http.client.HTTPException) as error:
        patient.ill(
            _AREA, "address", f"{settings.url} does not answer ({error})",
            "Start it with glovebox serve, or correct the address (GLOVEBOX_URL).", needed_by=_REMOTE,
        )  # fmt: skip
        return
    if status == 200:
        patient.well(_AREA, "address", f"{settings.url} answers")
    else:
        patient.ill(
            _AREA, "address", f"what answers at {settings.url} is not a box ({status})",
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
