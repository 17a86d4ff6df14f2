"""The Python that a bundle brings: the one that makes it, without what no box uses."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from glovebox.bundle import certificates
from glovebox.bundle.elf import Linker, is_elf
from glovebox.bundle.places import PYTHON, TOOLS, standard_library
from glovebox.bundle.running import Stop

#: Parts of the standard library that stay behind.
_LEFT_OUT = re.compile(
    r"(test|tests|idlelib|tkinter|turtledemo|turtle\.py|ensurepip|lib2to3|config-.*|__pycache__|.*\.pyc"
    r"|site-packages|dist-packages|.*\.exe|.*\.a|.*\.o"
    r"|(_tkinter|_test\w*|_ctypes_test|_xxtestfuzz|xxlimited\w*|xxsubtype|nis)\..*so)"
)


def executable() -> Path:
    """The program of the Python that runs here, behind a virtual environment."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


def copy_interpreter(stage: Path, linker: Linker, stop: Stop) -> list[Path]:
    """Put the interpreter and its standard library into a bundle; its programs."""
    program = stage / PYTHON
    program.parent.mkdir(parents=True)
    shutil.copy(executable(), program)
    linker.needs(executable())
    source = Path(sysconfig.get_path("stdlib"))
    target = standard_library(stage)
    shutil.copytree(source, target, ignore=_left_out)
    extensions = Path(sysconfig.get_config_var("DESTSHARED") or source / "lib-dynload")
    if not extensions.is_relative_to(source) and extensions.is_dir():
        shutil.copytree(extensions, target / "lib-dynload", ignore=_left_out)
    for copied in (target / "lib-dynload").iterdir():
        stop.check()
        # What cannot be loaded here is not missed elsewhere.
        if linker.needs(extensions / copied.name):
            copied.unlink()
    certificates.extend(target / "ssl.py")
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
    if "deb_system" in sysconfig.get_scheme_names():
        elsewhere = target.parent / "python3" / "dist-packages"
        elsewhere.parent.mkdir()
        elsewhere.symlink_to(os.path.relpath(target / "site-packages", elsewhere.parent))
