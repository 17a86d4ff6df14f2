"""Limits of control groups, which are files."""

from __future__ import annotations

from pathlib import Path

from glovebox.linux.control_groups import ControlGroup, cpu_limit, memory_limit


def group(root: Path, version: int, controller: str, own: dict[str, str], above: dict[str, str]) -> str:
    """A `proc` whose process is in a group inside another."""
    proc, top = root / "proc", root / "cgroup"
    (proc / "self").mkdir(parents=True)
    (top / "outer" / "own").mkdir(parents=True)
    kind = f"cgroup cgroup rw,{controller}" if version == 1 else "cgroup2 cgroup2 rw"
    (proc / "self" / "mountinfo").write_text(f"35 31 0:32 / {top} rw - {kind}\n")
    name = controller if version == 1 else ""
    (proc / "self" / "cgroup").write_text(f"{1 if version == 1 else 0}:{name}:/outer/own\n")
    for directory, files in ((top / "outer" / "own", own), (top / "outer", above)):
        for file, text in {"cgroup.controllers": controller, **files}.items():
            (directory / file).write_text(f"{text}\n")
    return str(proc)


def test_the_memory_limit_of_version_2_is_the_tightest_above(tmp_path: Path) -> None:
    own = {"memory.max": "max", "memory.current": "1000"}
    above = {"memory.max": "5000000", "memory.current": "2000"}
    found = memory_limit(group(tmp_path, 2, "memory", own, above))
    assert found is not None
    assert (found.limit, found.used) == (5_000_000, 2_000)


def test_the_memory_limit_of_version_1_is_known(tmp_path: Path) -> None:
    own = {"memory.limit_in_bytes": "4000000", "memory.usage_in_bytes": "1000"}
    above = {"memory.limit_in_bytes": str((1 << 63) - 4096), "memory.usage_in_bytes": "2000"}
    found = memory_limit(group(tmp_path, 1, "memory", own, above))
    assert found is not None
    assert (found.limit, found.used) == (4_000_000, 1_000)


def test_without_a_limit_none_is_told(tmp_path: Path) -> None:
    unlimited = {"memory.max": "max", "memory.current": "1000", "cpu.max": "max 100000"}
    assert memory_limit(group(tmp_path / "a", 2, "memory", unlimited, {})) is None
    assert cpu_limit(group(tmp_path / "b", 2, "cpu", unlimited, {})) is None
    assert cpu_limit(group(tmp_path / "c", 1, "cpu", {"cpu.cfs_quota_us": "-1"}, {})) is None
    assert cpu_limit(str(tmp_path)) is None
    most = {"memory.limit_in_bytes": str((1 << 63) - 4096), "memory.usage_in_bytes": "1000"}
    assert memory_limit(group(tmp_path / "d", 1, "memory", most, most)) is None


def test_the_cpu_limit_is_told_in_cores(tmp_path: Path) -> None:
    assert cpu_limit(group(tmp_path / "a", 2, "cpu", {"cpu.max": "150000 100000"}, {})) == 1.5
    one = {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}
    assert cpu_limit(group(tmp_path / "b", 1, "cpu", one, {})) == 0.5


def test_a_group_is_found_however_many_mounts_there_are(tmp_path: Path) -> None:
    proc = Path(group(tmp_path, 2, "memory", {"memory.max": "1000", "memory.current": "1"}, {}))
    mounts = proc / "self" / "mountinfo"
    others = "".join(f"{number} 31 0:28 / /other/{number} rw - tmpfs tmpfs rw\n" for number in range(5_000))
    mounts.write_text(others + mounts.read_text())
    assert ControlGroup.find(str(proc), "memory") is not None
