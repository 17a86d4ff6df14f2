"""The VS Code server of boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glovebox.box.vscode.finding import find_server
from glovebox.errors import PluginFailed

if TYPE_CHECKING:
    from glovebox.cli.doctor.finding import Patient
    from glovebox.settings.host import HostSettings

_AREA = "Programs"


def check(patient: Patient, settings: HostSettings) -> None:
    """Look for the server that a box of this user would take."""
    try:
        server = find_server(settings.environment.get("GLOVEBOX_VSCODE", ""), settings.environment)
    except PluginFailed as error:
        found, _, advice = str(error).partition(". ")
        patient.ill(_AREA, "VS Code server", found, f"For VS Code in process boxes: {advice}")
    else:
        patient.well(_AREA, "VS Code server", server.place)
