"""Kernelspecs, connection files, and the first code of Python kernels."""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from glovebox.box.notebook.environment import KernelEnvironment, KernelPython
from glovebox.box.notebook.wire import ConnectionInfo
from glovebox.errors import BadKernel
from glovebox.protocol.notebook import KernelSpec

#: The kernelspec that needs none: IPython in the environment of kernels, or in one of the user's choice.
PYTHON = "python3"
#: Begins the names that processes have with their keeper.
PROCESS_PREFIX = "kernel-"
#: Where a process finds its connection file; the keeper knows the directory.
CONNECTION_FILE = "connection.json"
#: Paths of sockets must be shorter than 108 bytes everywhere.
LONGEST_PATH = 100
_SOCKETS = "{directory}/k"
_PORTS = range(20_000, 32_000)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Cells do not become history, so there is none to be kept in the user's home.
_NO_HISTORY = "--HistoryManager.hist_file=:memory:"
#: 1 means that the kernel does not check whether a parent lives: its keeper ends it.
_ENVIRONMENT = {"JPY_PARENT_PID": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


@dataclass(frozen=True, slots=True)
class Spec:
    """A kind of kernel, ready to be started."""

    name: str
    language: str
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    interrupt: Literal["signal", "message"] = "signal"
    #: The environment it runs in, unless that is the user's own.
    installed: KernelEnvironment | None = None


def check_name(name: str) -> str:
    """A name that a kernel can have.

    Raises:
        BadKernel: it is not one.
    """
    if not _NAME.fullmatch(name):
        raise BadKernel(f"{name[:100]!r} is not a name for a kernel: up to 64 letters, digits, _ and -.")
    return name


def find_spec(name: str, python: KernelPython) -> Spec:
    """The kernelspec of that name. Blocks.

    Raises:
        BadKernel: it is not installed; the text lists those that are.
    """
    if name == PYTHON:
        connection = os.path.join("{directory}", CONNECTION_FILE)
        arguments = [*python.command, "-m", "ipykernel_launcher", "-f", connection, _NO_HISTORY]
        return Spec(
            PYTHON, "python", arguments, {**_ENVIRONMENT, **python.variables}, installed=python.environment
        )
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.kernelspec import NoSuchKernel as NoSuchSpec

    try:
        found = KernelSpecManager().get_kernel_spec(name)
    except (NoSuchSpec, ValueError, OSError) as error:
        known = ", ".join(spec.name for spec in list_specs())
        raise BadKernel(f"There is no kernelspec {name!r}. Known ones: {known}.") from error
    values = {
        "connection_file": os.path.join("{directory}", CONNECTION_FILE),
        "resource_dir": found.resource_dir,
        "prefix": sys.prefix,
    }
    arguments = [_fill(argument, values) for argument in found.argv]
    ours = re.fullmatch(r"python(3(\.\d+)?)?", arguments[0])  # ours, as everyone else does
    if ours:
        arguments[:1] = python.command
    return Spec(
        name,
        found.language.lower(),
        arguments,
        {**_ENVIRONMENT, **(python.variables if ours else {}), **found.env},
        "message" if found.interrupt_mode == "message" else "signal",
        python.environment if ours else None,
    )


def list_specs() -> list[KernelSpec]:
    """The kernelspecs there are, our own first. Blocks."""
    from jupyter_client.kernelspec import KernelSpecManager

    own = KernelSpec(name=PYTHON, display_name="Python 3 (IPython)", language="python")
    others = [
        KernelSpec(name=name, display_name=str(one["display_name"]), language=str(one["language"]))
        for name, found in sorted(KernelSpecManager().get_all_specs().items())
        if name != PYTHON
        for one in [found["spec"]]
    ]
    return [own, *others]


def new_connection(transport: Literal["ipc", "tcp"], spec: str) -> ConnectionInfo:
    """Where a new kernel listens, with a new key."""
    ports = _free_ports(5) if transport == "tcp" else [1, 2, 3, 4, 5]
    return ConnectionInfo(
        transport=transport,
        ip="127.0.0.1" if transport == "tcp" else _SOCKETS,
        shell_port=ports[0],
        iopub_port=ports[1],
        stdin_port=ports[2],
        control_port=ports[3],
        hb_port=ports[4],
        key=secrets.token_hex(32),
        kernel_name=spec,
    )


def preparation() -> list[str]:
    """The code that every Python kernel runs first, piece by piece. Blocks."""
    with open(os.path.join(os.path.dirname(__file__), "in_kernel.py"), encoding="utf-8") as file:
        inside = file.read()
    return [
        # The names that the cells of the contract's own start leave behind, and no others.
        "import os, sys\nget_ipython().run_line_magic('colors', 'nocolor')\n",
        f"exec(compile({inside!r}, '<glovebox>', 'exec'), {{'__name__': 'glovebox_kernel'}})\n",
    ]


#: Loads this package in an interpreter that has not installed it, and nothing else that lies beside it.
_IMPORT_PACKAGE = """\
try:
    import glovebox as _glovebox
except ImportError:
    from importlib import machinery as _machinery, util as _util
    _found = _machinery.PathFinder.find_spec('glovebox', [{place!r}])
    _glovebox = sys.modules['glovebox'] = _util.module_from_spec(_found)
    _found.loader.exec_module(_glovebox)
    del _found, _machinery, _util
del _glovebox
"""
#: Makes the skills known in a kernel.
IMPORT = "from glovebox.box.notebook.skills import *"


def skills_code() -> str:
    """The code that makes the skills known in a Python kernel, wherever its interpreter is."""
    import glovebox

    place = os.path.dirname(os.path.dirname(os.path.abspath(glovebox.__file__)))
    return _IMPORT_PACKAGE.format(place=place) + f"{IMPORT}\n"


def why_not_started(printed: str, spec: Spec) -> str:
    """Why a kernel ended at its start."""
    python = spec.arguments[0] if spec.arguments else ""
    if "No module named ipykernel" in printed:
        return f"{python} has no ipykernel. Install it there: {python} -m pip install ipykernel"
    why = printed.strip()[-2000:] or "it printed nothing"
    if spec.installed:
        why += (
            f"\nPackages that cells installed are in {spec.installed.path}; without it, kernels begin afresh."
        )
    return why


def is_directory(path: str) -> bool:
    """Whether a kernel can start there. Blocks."""
    try:
        return os.path.isdir(path)
    except ValueError:  # it holds a null character
        return False


def _fill(argument: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), argument)


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, outside of those that the system gives out: the kernel binds them later."""
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = _PORTS[secrets.randbelow(len(_PORTS))]
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
        return ports
