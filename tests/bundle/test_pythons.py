"""Which Python a bundle brings, and that each kind of Python survives being brought."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from glovebox.bundle.build import copy_interpreter
from glovebox.bundle.elf import Linker, elf_files
from glovebox.bundle.layout import PYTHON
from glovebox.bundle.pythons import STANDARD, SYSTEM, Python, chosen, describe, mark
from glovebox.bundle.subprocesses import Stop, run

NOWHERE = Path("/nowhere/python3")


def running() -> Python:
    found = describe(Path(sys.executable))
    assert found is not None
    return found


def a_program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def an_other(directory: Path, *, form: tuple[str, str], is_complete: bool) -> Path:
    """A Python that tells of itself what a test wants, and is asked whether it is complete then."""
    complete = a_program(directory / "complete", f"exit {0 if is_complete else 1}")
    about = {"program": str(complete), "library": "", "extensions": "", "schemes": [], "configured": ""}
    told = json.dumps({**about, "form": form})
    return a_program(directory / "other", f"echo '{told}'")


def test_the_one_that_runs_is_told_of_without_its_environment() -> None:
    found = running()
    assert found.program == Path(sys.base_prefix, "bin", found.program.name).resolve()
    assert (found.library / "os.py").is_file()
    assert found.extensions.is_dir()


def test_without_another_it_is_the_one_that_runs(tmp_path: Path) -> None:
    broken = a_program(tmp_path / "broken", "exit 1")
    assert chosen(NOWHERE) == chosen(broken) == running()


def test_the_systems_is_taken_only_if_packages_fit_it_and_it_is_complete(tmp_path: Path) -> None:
    if "--enable-optimizations" in running().configured:
        pytest.skip("the Python that runs here is optimized, so no other is looked at")
    other = an_other(tmp_path, form=running().form, is_complete=True)
    assert chosen(other).program == tmp_path / "complete"
    assert chosen(an_other(tmp_path, form=running().form, is_complete=False)) == running()
    assert chosen(an_other(tmp_path, form=("cpython-27", "00"), is_complete=True)) == running()


def test_a_bundle_is_made_again_when_the_systems_python_was_changed(tmp_path: Path) -> None:
    system = a_program(tmp_path / "python3", "")
    before = mark(system)
    assert before != mark(NOWHERE)
    a_program(system, "exit 1")
    assert mark(system) != before


@pytest.mark.parametrize("which", ["running", "system"])
def test_it_works_when_it_is_bound_to_the_libraries_of_a_bundle(which: str, tmp_path: Path) -> None:
    python = running() if which == "running" else describe(SYSTEM)
    if python is None:
        pytest.skip(f"there is no {SYSTEM}")
    linker, stop = Linker(tmp_path, python.program), Stop()
    programs = copy_interpreter(tmp_path, python, linker, stop)
    linker.copy_libraries(stop)
    linker.bind(programs, list(elf_files(tmp_path)), stop)
    brought = (linker.loader, tmp_path / PYTHON, "-I", "-B", "-S", "-c", f"import {STANDARD}")
    run(brought, stop, what="what was brought")
