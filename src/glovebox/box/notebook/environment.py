"""The virtual environment of Python kernels: `pip` in a cell installs there, never into that of the server.

It lies in the home of the sandbox user and outlives kernels and servers. It is made in a millisecond: it has
links to an interpreter, and a path file that leads to the packages it begins with. Those are the packages of
`PREFIX-kernel` beside the environment of the server, as `make setup` makes it; without it, the server's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import site
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from glovebox.errors import BadKernel, NotebookError
from glovebox.settings import kernel_packages

_CONFIGURATION = "pyvenv.cfg"
_PATH_FILE = "glovebox_packages.pth"
#: `!pip` in a cell; packages bring other programs themselves.
_PIP = '#!/bin/sh\nexec "${0%/*}/python" -m pip "$@"\n'
#: Neither the environment nor the directory it starts in decides what a kernel is made of.
_ISOLATED = "-I"


@dataclass(frozen=True, slots=True)
class BasePackages:
    """The interpreter of an environment, and the packages it begins with."""

    python: str
    #: As in `python3.11`.
    version: str
    #: The text of `pyvenv.cfg`, which says where the standard library is.
    configuration: str
    packages: tuple[str, ...]

    @classmethod
    def of_environment(cls, prefix: str) -> BasePackages:
        """Those of a virtual environment. Blocks.

        Raises:
            BadKernel: it is none.
        """
        libraries = os.path.join(prefix, "lib")
        try:
            with open(os.path.join(prefix, _CONFIGURATION), encoding="utf-8") as file:
                configuration = file.read()
            version = next(name for name in sorted(os.listdir(libraries)) if name.startswith("python3."))
        except (OSError, StopIteration) as error:
            raise BadKernel(f"{prefix} is not a virtual environment, which kernels need: {error}") from error
        packages = os.path.join(libraries, version, "site-packages")
        return cls(os.path.realpath(os.path.join(prefix, "bin/python")), version, configuration, (packages,))

    @classmethod
    def of_server(cls) -> BasePackages:
        """Those that this process uses, whether in a virtual environment or not. Blocks."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        python = os.path.realpath(sys.executable)
        configuration = f"home = {os.path.dirname(python)}\ninclude-system-site-packages = false\n"
        if sys.prefix != sys.base_prefix:
            configuration = cls.of_environment(sys.prefix).configuration
        packages = site.getsitepackages()
        if site.ENABLE_USER_SITE:
            packages.insert(0, site.getusersitepackages())
        return cls(python, version, configuration, tuple(filter(os.path.isdir, packages)))


@dataclass(frozen=True, slots=True)
class KernelEnvironment:
    """A virtual environment for kernels, which may have to be made."""

    path: str
    base: BasePackages

    @property
    def programs(self) -> str:
        return os.path.join(self.path, "bin")

    def python(self, variables: Mapping[str, str]) -> KernelPython:
        """Its interpreter, for kernels with these variables. `!pip` and `!python` in a cell are its own."""
        path = variables.get("PATH", os.defpath)
        own = {"VIRTUAL_ENV": self.path, "PATH": f"{self.programs}{os.pathsep}{path}"}
        if "PYTHONHOME" in variables:  # the place of another Python; an empty one counts as none
            own["PYTHONHOME"] = ""
        return KernelPython([os.path.join(self.programs, "python"), _ISOLATED], own, self)

    def make(self) -> None:
        """Make what is missing of it. Several processes may do so at once. Blocks.

        Raises:
            OSError: it cannot be made there.
        """
        programs, configuration = self.programs, os.path.join(self.path, _CONFIGURATION)
        if os.path.exists(configuration) and os.path.exists(os.path.join(programs, "python")):
            return
        packages = os.path.join(self.path, "lib", self.base.version, "site-packages")
        for directory in (packages, programs):
            os.makedirs(directory, exist_ok=True)
        lines = [f"import site; site.addsitedir({directory!r})\n" for directory in self.base.packages]
        _replace(os.path.join(packages, _PATH_FILE), "".join(lines))
        _link(self.base.python, os.path.join(programs, "python"))
        for name in ("python3", self.base.version):
            _link("python", os.path.join(programs, name))
        for name in ("pip", "pip3"):
            _replace(os.path.join(programs, name), _PIP, 0o755)
        _replace(configuration, self.base.configuration)


@dataclass(frozen=True, slots=True)
class KernelPython:
    """The interpreter of Python kernels: a command with its variables."""

    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    #: None for an interpreter of the user's choice.
    environment: KernelEnvironment | None = None


def find_base(packages: str) -> BasePackages:
    """The packages that kernels begin with: of a virtual environment, or the default ones. Blocks.

    Raises:
        BadKernel: it is no virtual environment.
    """
    prefix = packages or kernel_packages()
    return BasePackages.of_environment(prefix) if prefix else BasePackages.of_server()


def make_environment(
    base: BasePackages, variables: Mapping[str, str], user_id: int | None
) -> KernelEnvironment:
    """Make the environment of a user's kernels, or find it. Blocks; the thread must have that user's rights.

    Raises:
        NotebookError: there is no place for it.
    """
    parts = (base.python, base.configuration, *base.packages)
    name = "kernel-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
    problems = []
    for place in _places(variables, user_id):
        found = KernelEnvironment(os.path.join(place, name), base)
        try:
            found.make()
            return found
        except OSError as error:
            problems.append(str(error))
    raise NotebookError(f"There is no place for the packages of kernels: {'; '.join(problems)}")


def _places(variables: Mapping[str, str], user_id: int | None) -> Iterable[str]:
    """Directories for it, the best first."""
    owner = os.geteuid() if user_id is None else user_id
    home = variables.get("HOME", "") if user_id is None else ""
    with contextlib.suppress(KeyError):  # a number without an account
        home = home or pwd.getpwuid(owner).pw_dir
    if os.path.isabs(data := variables.get("XDG_DATA_HOME", "")):
        yield os.path.join(data, "glovebox")
    if os.path.isabs(home):
        yield os.path.join(home, ".local/share/glovebox")
    # A home may be missing or read-only. In this directory others can write.
    place = os.path.join(tempfile.gettempdir(), f"glovebox-kernels-{owner}")
    with contextlib.suppress(OSError):
        os.mkdir(place, 0o700)
    if os.path.lexists(place) and os.lstat(place).st_uid == owner:
        yield place


def _link(target: str, path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.symlink(target, path)


def _replace(path: str, text: str, mode: int = 0o644) -> None:
    unfinished = f"{path}.{os.urandom(4).hex()}"
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, path)
