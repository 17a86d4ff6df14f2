"""How much is measured: a whole run, or a quick one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.dialects import OPERATIONS

#: What `--only` takes.
GROUPS = ("start", *OPERATIONS, "upload", "download", "memory")


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    starts: int
    #: For a server that takes long to start.
    slow_starts: int
    cold_start: bool
    clients: Sequence[int]
    #: Load per server, operation and number of clients, divided into rounds.
    seconds: float
    rounds: int
    #: One client with a slow server: that long at most, to have some samples.
    slow_seconds: float
    transfer_megabytes: int
    transfers: int
    groups: frozenset[str]

    def wants(self, *groups: str) -> bool:
        """Tell whether any of these is to be measured."""
        return any(group in self.groups for group in groups)

    @property
    def operations(self) -> Sequence[str]:
        """The requests to measure."""
        return [name for name in OPERATIONS if name in self.groups]


def whole(groups: frozenset[str]) -> Plan:
    """A run whose figures are worth keeping."""
    return Plan(
        starts=5,
        slow_starts=3,
        cold_start=True,
        clients=(1, 8, 32),
        seconds=1.2,
        rounds=3,
        slow_seconds=6.0,
        transfer_megabytes=100,
        transfers=3,
        groups=groups,
    )


def quick(groups: frozenset[str]) -> Plan:
    """A look in passing: enough to see that everything works and where the orders of magnitude are."""
    return Plan(
        starts=1,
        slow_starts=1,
        cold_start=False,
        clients=(1, 8),
        seconds=0.2,
        rounds=1,
        slow_seconds=1.5,
        transfer_megabytes=20,
        transfers=1,
        groups=groups,
    )
