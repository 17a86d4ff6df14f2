"""Makes a bundle, step by step, in a directory that is then packed."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from glovebox.bundle import archive
from glovebox.bundle.elf import Linker, elf_files, is_elf
from glovebox.bundle.layout import COMMAND, LIBRARIES, PYTHON, ROOT, TOOLS, site_packages, standard_library
from glovebox.bundle.packages import copy_packages
from glovebox.bundle.pythons import STANDARD, Python, chosen
from glovebox.bundle.subprocesses import Stop, run
from glovebox.errors import NoBundle

#: Called with the step that begins, how many are done, and how many there are.
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

if os.getpid() == 1:
    from glovebox.cli import pid1

    pid1.stay_behind()
places = os.environ.get("PATH", os.defpath)
if not any(os.access(os.path.join(place, "bash"), os.X_OK) for place in places.split(os.pathsep)):
    os.environ["PATH"] = places + os.pathsep + "{ROOT}/{TOOLS}"

if sys.argv[1:2] == ["serve"]:
    from glovebox import fast_start

    fast_start.use()

from glovebox.cli.main import main

sys.exit(main())
"""


def build(output: Path, *, extras: Sequence[str], tell: Tell, stop: Stop) -> archive.Manifest:
    """Make a bundle, which appears only when it is complete. Takes a while, and blocks.

    Raises:
        NoBundle: it cannot be made here; the text says why and what to do.
        BrokenOff: the build was cancelled.
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
    write = "import sys; from glovebox import fast_start; fast_start.write(*sys.argv[1:])"
    run([*python, "-c", write, str(stage), str(site_packages(stage))], stop, what="preloading")
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
    extend(target / "ssl.py")
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


#: Distributions keep them in different places, and OpenSSL looks only where that of the build machine did.
_ADDITION = '''

# The runtime is put into images of any distribution. Each keeps its certificates elsewhere.
_KEPT_AT = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    os.path.join(os.path.dirname(__file__), "site-packages/pip/_vendor/certifi/cacert.pem"),
)


def _set_default_verify_paths(context):
    """Those that OpenSSL finds; those of the image, or our own; unless the environment names others."""
    _SSLContext.set_default_verify_paths(context)
    if "SSL_CERT_FILE" in os.environ or "SSL_CERT_DIR" in os.environ:
        return
    for path in _KEPT_AT:
        if os.path.exists(path):
            context.load_verify_locations(cafile=path)
            return


SSLContext.set_default_verify_paths = _set_default_verify_paths
'''


def extend(module: Path) -> None:
    """Let the standard library's `ssl` look there too."""
    text = module.read_text(encoding="utf-8")
    module.write_text(text + _ADDITION, encoding="utf-8")
