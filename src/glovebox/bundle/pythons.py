"""Chooses the Python of a bundle: the running one, or the system's if only that is optimized.

A distribution optimizes its Python by profiles of what programs do. Those that people build for themselves
are mostly not optimized: a box starts a quarter slower with one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from glovebox.bundle.subprocesses import ask
from glovebox.errors import NoBundle
from glovebox.json_codec import convert, decode_json
from glovebox.protocol.base import Message

SYSTEM = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
#: What a box needs of the standard library; a distribution may keep some of it in other packages.
STANDARD = "ssl, sqlite3, lzma, bz2, ctypes, zlib"
#: The option by which a Python was configured to be optimized.
_OPTIMIZED = "--enable-optimizations"
_DESCRIBE = """
import importlib.util, json, sys, sysconfig
print(json.dumps({
    "program": getattr(sys, "_base_executable", "") or sys.executable,
    "library": sysconfig.get_path("stdlib"),
    "extensions": sysconfig.get_config_var("DESTSHARED") or sysconfig.get_path("stdlib") + "/lib-dynload",
    "schemes": sysconfig.get_scheme_names(),
    "configured": sysconfig.get_config_var("CONFIG_ARGS") or "",
    "form": [sysconfig.get_config_var("SOABI") or "", importlib.util.MAGIC_NUMBER.hex()],
}))
"""


class Python(Message):
    """A Python of this machine."""

    program: Path
    #: Where its standard library is, and the part of that which is compiled.
    library: Path
    extensions: Path
    schemes: tuple[str, ...]
    configured: str
    #: What compiled packages and bytecode have to fit.
    form: tuple[str, str]


def chosen(system: Path = SYSTEM) -> Python:
    """The Python to bring. `system`: where the distribution has its own.

    Raises:
        NoBundle: the running one does not answer.
    """
    running = describe(Path(sys.executable))
    if running is None:
        raise NoBundle(f"The runtime for images could not be made: {sys.executable} does not answer.")
    if _OPTIMIZED in running.configured:
        return running
    other = describe(system)
    if other is None or other.form != running.form:
        return running
    return running if ask([other.program, "-I", "-c", f"import {STANDARD}"]) is None else other


def describe(program: Path) -> Python | None:
    """Ask a Python about itself; None if there is none."""
    if not os.access(program, os.X_OK):
        return None
    answer = ask([program, "-I", "-c", _DESCRIBE])
    if answer is None:
        return None
    found = convert(decode_json(answer), Python, dec_hook=lambda kind, text: kind(text))
    return msgspec.structs.replace(found, program=found.program.resolve())


def mark(system: Path = SYSTEM) -> str:
    """Differs when the Python that would be chosen does: another runs, or the system's was changed."""
    try:
        about = system.stat()
    except OSError:
        return sys.version
    return f"{sys.version} {about.st_size} {about.st_mtime_ns}"
