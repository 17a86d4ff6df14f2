"""Milliseconds and memory that a starting box saves with means beyond plain imports, all in this file.

Measured from the start of the process until the box is ready (CPU time; without any of these: 121 ms):

* `use`: modules come from one file instead of hundreds: 10 ms. Only a bundle has the file.
* `_restore_patterns`: regular expressions come compiled from that file: 8 ms. It uses `re._cache` and `_sre`,
  which may change with a version of Python; a bundle brings the version that the file was written with.
* `defer_uvicorn`: the command line of uvicorn is not loaded: 5 ms, and 1.5 MB of memory.

Nothing depends on them: a module or a pattern that is not in the file is found or compiled as usual.
"""

from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:  # modules that are imported here do not come from the file
    from collections.abc import Iterable, Mapping, Sequence
    from types import CodeType, ModuleType
    from typing import Any

#: Where the file is, below the prefix.
FILE = "lib/preloaded"
#: The size of the number at its beginning, which is the length of the table that follows.
_LENGTH = 8


def use() -> None:
    """Load modules from the file from now on, if there is one and no package was changed since."""
    try:
        descriptor = os.open(f"{sys.prefix}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    length = int.from_bytes(os.read(descriptor, _LENGTH), "little")
    place, distributions, modules, patterns = marshal.loads(os.read(descriptor, length))  # noqa: S302 - as bytecode is
    if not set(distributions).issubset(os.listdir(f"{sys.prefix}/{place}")):
        os.close(descriptor)
        return
    sys.meta_path.insert(0, _Finder(descriptor, _LENGTH + length, modules))
    _restore_patterns(patterns)


class _Finder:
    """Finds the modules that are in the file."""

    def __init__(
        self, descriptor: int, start: int, modules: Mapping[str, tuple[str, bool, int, int]]
    ) -> None:
        """`modules`: path, whether it is a package, and the offset (from `start`) and size of its code."""
        self._descriptor = descriptor
        self._start = start
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        place, is_package, offset, size = self._modules[name]
        origin = f"{sys.prefix}/{place}"
        loader = _Loader(name, origin, self._descriptor, self._start + offset, size)
        spec = ModuleSpec(name, loader, origin=origin, is_package=is_package)
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(origin))
        return spec


class _Loader(SourceFileLoader):
    """Loads a module as usual, but reads its code from the file."""

    def __init__(self, name: str, path: str, descriptor: int, offset: int, size: int) -> None:
        super().__init__(name, path)
        self._where = descriptor, size, offset

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = marshal.loads(os.pread(*self._where))  # noqa: S302
        return code


def _restore_patterns(patterns: Iterable[tuple[str | bytes, int, tuple[Any, ...]]]) -> None:
    import _sre  # type: ignore[import-not-found]
    import re

    cache: dict[Any, Any] = re.__dict__.get("_cache", {})
    for pattern, flags, compiled in patterns:
        cache[type(pattern), pattern, flags] = _sre.compile(pattern, *compiled)


# Writing the file, in the interpreter of a bundle that is being made. Bytecode is there already.


def write(stage: str, packages: str) -> None:
    """Write the file of the bundle in `stage`, with all that a start loads from `packages` and elsewhere."""
    before = set(sys.modules)
    _import_all()
    modules: dict[str, tuple[str, bool, int, int]] = {}
    codes: list[bytes] = []
    for name in sorted(set(sys.modules) - before):
        spec = getattr(sys.modules[name], "__spec__", None)
        if spec is None or type(spec.loader) is not SourceFileLoader or spec.name != name:
            continue
        with open(spec.cached, "rb") as file:
            code = file.read()[16:]
        is_package = spec.submodule_search_locations is not None
        modules[name] = os.path.relpath(spec.origin, stage), is_package, sum(map(len, codes)), len(code)
        codes.append(code)
    distributions = sorted(name for name in os.listdir(packages) if name.endswith(".dist-info"))
    content = os.path.relpath(packages, stage), distributions, modules, _compiled_patterns()
    table = marshal.dumps(content, 2)  # in a version in which the same content makes the same bytes
    with open(os.path.join(stage, FILE), "wb") as file:
        file.write(len(table).to_bytes(_LENGTH, "little"))
        file.writelines([table, *codes])


def _import_all() -> None:
    """Import what a starting box imports."""
    import importlib

    for name in (
        "glovebox.cli.main", "glovebox.cli.commands.serve", "glovebox.server.port", "glovebox.server.run",
        "glovebox.box.terminal.holder.launch", "uvloop", "encodings.idna", "uvicorn.lifespan.off",
    ):  # fmt: skip
        importlib.import_module(name)
    plugins = importlib.import_module("glovebox.box.plugin_life")
    for name in (*plugins.ALWAYS, "browser"):
        importlib.import_module(plugins.OWN[name].partition(":")[0])


def _compiled_patterns() -> list[tuple[str | bytes, int, tuple[Any, ...]]]:
    """The patterns that are in the cache of `re`, as `_sre.compile` takes them."""
    import _sre
    import re

    patterns: list[tuple[str | bytes, int, tuple[Any, ...]]] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return getattr(_sre, name)

        def compile(self, pattern: str | bytes, all_flags: int, code: list[int], *groups: Any) -> None:
            patterns.append((pattern, flags, (int(all_flags), list(map(int, code)), *groups)))

    compiler: Any = re.__dict__["_compiler"]
    compiler._sre = Recorder()
    for _, pattern, flags in sorted(re.__dict__["_cache"], key=repr):
        compiler.compile(pattern, flags)
    compiler._sre = _sre
    return patterns


def defer_uvicorn() -> None:
    """Put the package `uvicorn` into `sys.modules`, to be executed when one of its own names is used.

    Its submodules can be imported at once. The package itself would import its command line.
    """
    if "uvicorn" in sys.modules:
        return
    import importlib.util

    spec = importlib.util.find_spec("uvicorn")
    assert spec is not None
    assert spec.loader is not None
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def load_package(name: str) -> Any:
        if name == "Config":  # submodules import it from the package
            return importlib.import_module("uvicorn.config").Config
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = load_package
    sys.modules["uvicorn"] = package
