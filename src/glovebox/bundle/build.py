"""Makes a bundle, step by step, in a directory that is then packed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from glovebox.bundle import archive
from glovebox.bundle.elf import Linker, elf_files
from glovebox.bundle.interpreter import copy_interpreter, copy_shell
from glovebox.bundle.packages import copy_packages
from glovebox.bundle.places import COMMAND, LIBRARIES, PYTHON, ROOT, TOOLS, site_packages
from glovebox.bundle.preloading import preload
from glovebox.bundle.pythons import STANDARD, chosen
from glovebox.bundle.running import Stop, run
from glovebox.errors import NoBundle

#: Hears which step begins, how many are done, and how many there are.
Tell = Callable[[str, int, int], None]

STEPS = ("interpreter", "packages", "libraries", "bytecode", "check", "archive")
#: What a box without these could not do; if one is missing the bundle is of no use.
_MUST_LOAD = f"{STANDARD}, msgspec, uvloop, httptools, zmq, ipykernel.ipkernel, mcp"

#: Large, and hardly ever loaded.
_NOT_COMPILED = r"/pygments/(styles|lexers/(?!__init__|_mapping|python))|/pydantic/v1/|/pydoc_data/"
#: Files that no Python can read, such as templates, are no loss: its answer is not looked at.
_COMPILE = """
import compileall, py_compile, re, sys

stage, root, directory, left_out = sys.argv[1:]
compileall.compile_dir(
    directory, stripdir=stage, prependdir=root, quiet=2, workers=0, maxlevels=100,
    rx=re.compile(left_out), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
"""

_LAUNCHER = f"""\
#!{ROOT}/{PYTHON} -I
import os
import sys

# A Python of the image may be set up by this; ours is not there.
os.environ.pop("PYTHONHOME", None)
if os.getpid() == 1:
    from glovebox.cli import first

    first.stay_behind()
places = os.environ.get("PATH", os.defpath)
if not any(os.access(os.path.join(place, "bash"), os.X_OK) for place in places.split(os.pathsep)):
    os.environ["PATH"] = places + os.pathsep + "{ROOT}/{TOOLS}"

if sys.argv[1:2] == ["serve"]:
    from glovebox.cli import preloaded

    preloaded.use()

from glovebox.cli.main import main

sys.exit(main())
"""


def build(output: Path, *, extras: Sequence[str], tell: Tell, stop: Stop) -> archive.Manifest:
    """Make a bundle, which appears only when it is complete. Takes a while, and blocks.

    Raises:
        NoBundle: it cannot be made here; the text says why and what to do.
        BrokenOff: nobody wants it any more.
    """
    if sys.platform != "linux":
        raise NoBundle(
            "The runtime for images can only be made on Linux. Make it there with `glovebox bundle`, "
            "and name the file by GLOVEBOX_BUNDLE."
        )
    steps = iter(range(len(STEPS)))

    def begin() -> None:
        done = next(steps)
        stop.check()
        tell(STEPS[done], done, len(STEPS))

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as directory:
            stage = Path(directory, "stage")
            stage.mkdir()
            _fill(stage, extras, begin, stop)
            begin()
            made = archive.pack(stage, Path(directory, "packed"), stop)
            Path(directory, "packed").replace(output)
    except OSError as error:
        raise NoBundle(f"The runtime for images could not be made: {error}") from error
    tell("done", len(STEPS), len(STEPS))
    return made


def _fill(stage: Path, extras: Sequence[str], begin: Callable[[], None], stop: Stop) -> None:
    brought = chosen()
    linker = Linker(stage, brought.program)
    begin()
    programs = [*copy_interpreter(stage, brought, linker, stop), *copy_shell(stage, linker)]
    begin()
    copy_packages(stage, extras, stop)
    begin()
    for path in elf_files(site_packages(stage)):
        stop.check()
        linker.needs(path)
    linker.copy_libraries(stop)
    linker.bind(programs, list(elf_files(stage)), stop)
    _add_launcher(stage)
    python = [str(linker.loader), str(stage / PYTHON), "-I", "-B"]
    begin()
    _compile(stage, stop)
    preload(stage, python, stop)
    begin()
    run([*python, "-c", f"import {_MUST_LOAD}"], stop, what="a look at whether it works")


def _add_launcher(stage: Path) -> None:
    launcher = stage / COMMAND
    launcher.write_text(_LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)


def _compile(stage: Path, stop: Stop) -> None:
    """Bytecode that is never looked at twice: a bundle is read-only, and its files have no time."""
    command = [sys.executable, "-c", _COMPILE, str(stage), ROOT, str(stage / LIBRARIES), _NOT_COMPILED]
    run(command, stop, what="compiling")
