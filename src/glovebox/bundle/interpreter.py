"""Puts a Python into a bundle, without what no box uses."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from glovebox.bundle import certificates
from glovebox.bundle.elf import Linker, is_elf
from glovebox.bundle.places import PYTHON, TOOLS, standard_library
from glovebox.bundle.pythons import Python
from glovebox.bundle.running import Stop

#: Parts of the standard library that stay behind; also what a distribution puts there for its own packages.
_LEFT_OUT = re.compile(
    r"(test|tests|idlelib|tkinter|turtledemo|turtle\.py|ensurepip|lib2to3|config-.*|__pycache__|.*\.pyc"
    r"|site-packages|dist-packages|.*\.exe|.*\.a|.*\.o"
    r"|EXTERNALLY-MANAGED|sitecustomize\.py"
    r"|(_tkinter|_test\w*|_ctypes_test|_xxtestfuzz|xxlimited\w*|xxsubtype|nis)\..*so)"
)


def copy_interpreter(stage: Path, python: Python, linker: Linker, stop: Stop) -> list[Path]:
    """Put the interpreter and its standard library into a bundle; its programs."""
    program = stage / PYTHON
    program.parent.mkdir(parents=True)
    shutil.copy(python.program, program)
    linker.needs(python.program)
    target = standard_library(stage)
    shutil.copytree(python.library, target, ignore=_left_out)
    extensions = python.extensions
    if not extensions.is_relative_to(python.library) and extensions.is_dir():
        shutil.copytree(extensions, target / "lib-dynload", ignore=_left_out)
    for copied in (target / "lib-dynload").iterdir():
        stop.check()
        # What cannot be loaded here is not missed elsewhere.
        if linker.needs(extensions / copied.name):
            copied.unlink()
    certificates.extend(target / "ssl.py")
    if "deb_system" in python.schemes:
        _find_packages(target)
    return [program]


def copy_shell(stage: Path, linker: Linker) -> list[Path]:
    """Put this machine's bash into a bundle, if it has one; its programs."""
    found = shutil.which("bash")
    if found is None or not is_elf(Path(found).resolve()):
        return []
    program = stage / TOOLS / "bash"
    program.parent.mkdir()
    shutil.copy(found, program)
    linker.needs(Path(found))
    return [program]


def _left_out(directory: str, names: list[str]) -> set[str]:
    return {name for name in names if _LEFT_OUT.fullmatch(name)}


def _find_packages(target: Path) -> None:
    """Debian's Python looks for packages elsewhere: lead it to where everyone has them."""
    elsewhere = target.parent / "python3" / "dist-packages"
    elsewhere.parent.mkdir()
    elsewhere.symlink_to(os.path.relpath(target / "site-packages", elsewhere.parent))
