"""What a box loads when it starts comes from one file, and is what it would be without."""

from __future__ import annotations

from pathlib import Path

from glovebox.bundle import ROOT
from tests.bundle.images import EmptyImage

PYTHON = f"{ROOT}/bin/python3"
USE = "from glovebox import fast_start; fast_start.use()\n"
#: A package, a module of a package, and one of the standard library.
LOOK = """
import inspect, asyncio, glovebox.server.app, starlette.applications
for module in (asyncio, glovebox.server.app, starlette.applications):
    print(module.__file__, module.__cached__, getattr(module, "__path__", None), module.__package__)
    print(module.__spec__.has_location, module.__spec__.parent, len(inspect.getsource(module)))
"""
#: What a start loads from files of their own.
START = """
import importlib, sys
from importlib.machinery import SourceFileLoader

before = set(sys.modules)
import glovebox.cli.main, glovebox.cli.commands.serve, glovebox.server.run
from glovebox.box import plugin_life

for name in plugin_life.ALWAYS:
    plugin_life.load(name, plugin_life.OWN[name])
for name in sorted(set(sys.modules) - before):
    if type(getattr(sys.modules[name], "__loader__", None)) is SourceFileLoader:
        print(name)
"""
PATTERNS = """
import re, re._compiler, glovebox.server.run
known = list(re._cache.items())
print(len(known))
print([pattern for (_, pattern, flags), made in known if re._compiler.compile(pattern, flags) != made])
"""


def test_modules_are_as_they_would_be_without(image: EmptyImage) -> None:
    assert image.run(PYTHON, "-c", USE + LOOK) == image.run(PYTHON, "-c", LOOK)


def test_all_that_a_start_loads_comes_from_the_file(image: EmptyImage) -> None:
    assert image.run(PYTHON, "-c", USE + START) == ""


def test_patterns_are_as_they_would_be_without(image: EmptyImage) -> None:
    number, different = image.run(PYTHON, "-c", USE + PATTERNS).splitlines()
    assert int(number) > 50
    assert different == "[]"


def test_it_is_left_alone_when_packages_have_changed(image: EmptyImage) -> None:
    packages = next(Path(image.root, ROOT.lstrip("/"), "lib").glob("python3.*")) / "site-packages"
    installed = next(packages.glob("starlette-*.dist-info"))
    other = installed.rename(packages / "starlette-0.0.1.dist-info")
    try:
        assert "starlette.routing" in image.run(PYTHON, "-c", USE + START).split()
    finally:
        other.rename(installed)


def test_without_it_everything_is_found_as_ever(image: EmptyImage) -> None:
    made = image.root / ROOT.lstrip("/") / "lib/preloaded"
    other = made.rename(made.with_name("elsewhere"))
    try:
        assert "starlette.routing" in image.run(PYTHON, "-c", USE + START).split()
    finally:
        other.rename(made)
