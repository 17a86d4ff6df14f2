"""What a box loads when it starts, from one file instead of hundreds.

`glovebox.bundle.build` makes the file, and only a bundle has one. Nothing depends on it: what is not in
it is found as ever.
"""

from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is imported here does not come from the file
    from collections.abc import Iterable, Mapping, Sequence
    from types import CodeType, ModuleType
    from typing import Any

#: Where the file is, below the prefix.
FILE = "lib/preloaded"
#: The size of the number that it begins with: that of the table that follows.
LENGTH = 8


def use() -> None:
    """Load modules from the file from now on, if there is one and no package was changed since."""
    try:
        descriptor = os.open(f"{sys.prefix}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    length = int.from_bytes(os.read(descriptor, LENGTH), "little")
    place, distributions, modules, patterns = marshal.loads(os.read(descriptor, length))  # noqa: S302 - as bytecode is
    if not set(distributions).issubset(os.listdir(f"{sys.prefix}/{place}")):
        os.close(descriptor)
        return
    sys.meta_path.insert(0, _Finder(descriptor, LENGTH + length, modules))
    _remember(patterns)


class _Finder:
    """Finds the modules that are in the file."""

    def __init__(
        self, descriptor: int, start: int, modules: Mapping[str, tuple[str, bool, int, int]]
    ) -> None:
        """`modules`: the path of each, whether it is a package, and where its code is after `start`."""
        self._descriptor = descriptor
        self._start = start
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is; None if it is not in the file."""
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
    """Loads a module as ever, but for where its code is read from."""

    def __init__(self, name: str, path: str, descriptor: int, offset: int, size: int) -> None:
        super().__init__(name, path)
        self._where = descriptor, size, offset

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module."""
        code: CodeType = marshal.loads(os.pread(*self._where))  # noqa: S302
        return code


def _remember(patterns: Iterable[tuple[str | bytes, int, tuple[Any, ...]]]) -> None:
    """Give `re` what it would make of some patterns: compiling them takes longer than most modules."""
    import _sre  # type: ignore[import-not-found]
    import re

    cache: dict[Any, Any] = re.__dict__.get("_cache", {})
    for pattern, flags, compiled in patterns:
        cache[type(pattern), pattern, flags] = _sre.compile(pattern, *compiled)
