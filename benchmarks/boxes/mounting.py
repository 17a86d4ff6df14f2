"""SWE-ReX where it is not complete: what its package forgets, and images that do not have it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.competitors import Say, Unavailable

_FORGOTTEN = "aiohttp"
#: Where the container has libraries that images may lack.
_LIBRARIES = "/opt/benchmark-libraries"
#: Modules of Python that need such libraries.
_MODULES = ("_ssl", "_hashlib", "_ctypes", "_bz2", "_lzma", "_uuid", "_sqlite3", "zlib")
#: Those of the C library are the image's own.
_C_LIBRARY = ("libc.so", "libm.so", "ld-linux", "libpthread", "libdl", "librt", "libpython", "linux-vdso")


def complete(python: Path, say: Say) -> None:
    """Install what its client imports and its package does not ask for, once.

    Raises:
        Unavailable: that fails.
    """
    if subprocess.run([str(python), "-c", f"import {_FORGOTTEN}"], capture_output=True).returncode == 0:
        return
    say(f"installing {_FORGOTTEN}, which the client of SWE-ReX needs")
    finished = subprocess.run(
        [str(python), "-m", "pip", "install", _FORGOTTEN], capture_output=True, text=True
    )
    if finished.returncode != 0:
        say(finished.stderr.strip()[-2000:])
        raise Unavailable(f"installing {_FORGOTTEN} failed")


def mounted(python: Path, stack: ExitStack) -> Sequence[str]:
    """Arguments of `docker run` that let an image of a kindred Linux run what an environment holds."""
    environment = python.parent.parent
    interpreter = python.resolve().parent.parent
    copies = Path(tempfile.mkdtemp(prefix="glovebox-bench-"))
    stack.callback(shutil.rmtree, copies, ignore_errors=True)
    for library in _needed(interpreter):
        shutil.copy(library, copies / library.name)
    path = os.pathsep.join((str(environment / "bin"), "/usr/local/bin", "/usr/bin", "/bin"))
    return (
        *(f"--volume={folder}:{folder}:ro" for folder in (environment, interpreter)),
        f"--volume={copies}:{_LIBRARIES}:ro",
        f"--env=LD_LIBRARY_PATH={_LIBRARIES}",
        f"--env=PATH={path}",
    )


def _needed(interpreter: Path) -> set[Path]:
    found: set[Path] = set()
    for module in _MODULES:
        for extension in interpreter.glob(f"lib/python3*/lib-dynload/{module}.*.so"):
            told = subprocess.run(["ldd", str(extension)], capture_output=True, text=True).stdout
            for line in told.splitlines():
                name, arrow, rest = line.partition(" => ")
                if arrow and rest.startswith("/") and not name.strip().startswith(_C_LIBRARY):
                    found.add(Path(rest.split()[0]))
    return found
