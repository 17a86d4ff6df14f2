"""The control groups this process is in, of both versions, and their limits on memory and CPU."""

from __future__ import annotations

import os
from typing import NamedTuple

from glovebox.linux.processes import read_file

#: Version 1 expresses "no limit" as the largest number of pages there can be.
_NO_LIMIT = 1 << 60


class ControlGroup(NamedTuple):
    """A control group, and the mount point of its hierarchy."""

    directory: str
    top: str
    #: Version 2, one hierarchy for all controllers; else version 1.
    unified: bool

    @classmethod
    def find(cls, proc: str, controller: str) -> ControlGroup | None:
        """The group of this process for a controller, in the version that has the controller."""
        groups = _own_groups(proc)
        for unified, root, point, controllers in _mounts(proc):
            path = groups.get("" if unified else controller)
            if path is None or not (unified or controller in controllers):
                continue
            # A container sees its own group as the root of the mount.
            inside = os.path.relpath(path, root) if path.startswith(root) else "."
            directory = os.path.normpath(os.path.join(point, inside))
            group = cls(directory if os.path.isdir(directory) else point, point, unified)
            if not unified or controller in group.read("cgroup.controllers", "").split():
                return group
        return None

    def file(self, unified: str, separate: str) -> str:
        """The path of a file, by its names in version 2 and in version 1."""
        return os.path.join(self.directory, unified if self.unified else separate)

    def read(self, unified: str, separate: str) -> str:
        return read_file(self.file(unified, separate)).decode("utf-8", "replace").strip()

    def above(self) -> list[ControlGroup]:
        """This group and those it is in, as far as they are visible, innermost first."""
        found, directory = [self], self.directory
        while directory != self.top and directory.startswith(self.top):
            directory = os.path.dirname(directory)
            found.append(self._replace(directory=directory))
        return found


class MemoryLimit(NamedTuple):
    """A limit in bytes, and what counts against it."""

    limit: int
    used: int


def memory_limit(proc: str = "/proc") -> MemoryLimit | None:
    """The tightest limit on the memory of this process; None without a limit."""
    own = ControlGroup.find(proc, "memory")
    limits: list[MemoryLimit] = []
    for group in own.above() if own else ():
        limit = group.read("memory.max", "memory.limit_in_bytes")
        if limit.isdigit() and int(limit) < _NO_LIMIT:
            used = group.read("memory.current", "memory.usage_in_bytes")
            limits.append(MemoryLimit(int(limit), int(used) if used.isdigit() else 0))
    return min(limits, key=lambda one: one.limit - one.used, default=None)


def cpu_limit(proc: str = "/proc") -> float | None:
    """How many cores this process may use; None without a limit."""
    own = ControlGroup.find(proc, "cpu")
    limits: list[float] = []
    for group in own.above() if own else ():
        quota, _, period = group.read("cpu.max", "cpu.cfs_quota_us").partition(" ")
        if not group.unified:
            period = group.read("", "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _mounts(proc: str) -> list[tuple[bool, str, str, list[str]]]:
    """Mounts of control groups: whether of version 2, root, mount point, and controllers of version 1.

    Version 1 comes first: a controller is in one version only.
    """
    found = []
    for line in read_file(os.path.join(proc, "self/mountinfo")).decode("utf-8", "replace").splitlines():
        first, _, last = line.partition(" - ")
        fields, (kind, *options) = first.split(), (last.split() or [""])
        if len(fields) >= 5 and kind in ("cgroup", "cgroup2"):
            controllers = options[-1].split(",") if options else []
            found.append((kind == "cgroup2", fields[3], fields[4], controllers))
    return sorted(found, key=lambda mount: mount[0])


def _own_groups(proc: str) -> dict[str, str]:
    """The path of this process's group by controller; of version 2 by an empty name."""
    groups: dict[str, str] = {}
    for line in read_file(os.path.join(proc, "self/cgroup")).decode("utf-8", "replace").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups
