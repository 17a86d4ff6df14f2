"""Puts what a box loads when it starts into one file, which `glovebox.cli.preloaded` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from glovebox.bundle.layout import site_packages
from glovebox.bundle.subprocesses import Stop, run

#: Runs in the interpreter of the bundle. Bytecode is there already.
_COLLECT = """
import importlib, marshal, os, sys

stage, packages = sys.argv[1:]
before = set(sys.modules)

import glovebox.cli.main, glovebox.cli.commands.serve, glovebox.server.port, glovebox.server.run, uvloop
import encodings.idna, uvicorn.lifespan.off, uvicorn.protocols.http.httptools_impl
from glovebox.box import plugin_life
from glovebox.box.terminal.holder import launch
from glovebox.cli import preloaded

for name in (*plugin_life.ALWAYS, "browser"):
    importlib.import_module(plugin_life.OWN[name].partition(":")[0])

modules, codes, size = {}, [], 0
for name in sorted(set(sys.modules) - before):
    spec = getattr(sys.modules[name], "__spec__", None)
    if type(getattr(spec, "loader", None)) is not importlib.machinery.SourceFileLoader or spec.name != name:
        continue
    with open(spec.cached, "rb") as file:
        code = file.read()[16:]
    is_package = spec.submodule_search_locations is not None
    modules[name] = os.path.relpath(spec.origin, stage), is_package, size, len(code)
    codes.append(code)
    size += len(code)


class Noting:
    def __getattr__(self, name):
        return getattr(_sre, name)

    def compile(self, pattern, all_flags, code, *groups):
        patterns.append((pattern, flags, (int(all_flags), list(map(int, code)), *groups)))


import _sre, re

patterns = []
re._compiler._sre = Noting()
for _, pattern, flags in sorted(re._cache, key=repr):
    re._compiler.compile(pattern, flags)

distributions = sorted(name for name in os.listdir(packages) if name.endswith(".dist-info"))
# In a form in which the same content makes the same bytes.
table = marshal.dumps((os.path.relpath(packages, stage), distributions, modules, patterns), 2)
with open(os.path.join(stage, preloaded.FILE), "wb") as file:
    file.write(len(table).to_bytes(preloaded.LENGTH, "little"))
    file.writelines([table, *codes])
"""


def preload(stage: Path, python: Sequence[str], stop: Stop) -> None:
    """Make the file. `python` runs the interpreter of the bundle."""
    run([*python, "-c", _COLLECT, str(stage), str(site_packages(stage))], stop, what="preloading")
