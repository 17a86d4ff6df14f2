"""How much is measured: a whole run, or a quick one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.dialects import OPERATIONS

#: What `--only` takes.
GROUPS = (
    "start",
    *OPERATIONS,
    "upload",
    "download",
    "memory",
    "terminal",
    "notebook",
    "mcp",
    "browser",
    "boxes",
    "vscode",
)


@dataclass(frozen=True)
class TerminalPlan:
    """The size of the measures of the terminal."""

    echo_seconds: float
    #: How many of the other servers, which need many times as long for one.
    slow_echoes: int
    echo_rounds: int
    stream_lines: int
    stream_rounds: int
    output_megabytes: int
    outputs: int
    #: Another server that needs longer for one of them is not waited for.
    slow_output_seconds: float
    sessions: int
    crowd_seconds: float
    #: One after the other in one session.
    commands: int
    long_lines: int
    #: Per server, as a command that went wrong may hang.
    long_line_seconds: float


@dataclass(frozen=True)
class NotebookPlan:
    """The size of the measures of the notebook."""

    starts: int
    #: For a server that takes long to start.
    slow_starts: int
    #: For each kind of cell, divided into rounds.
    cell_seconds: float
    #: How many of each kind of the other server, which needs many times as long for one.
    slow_cells: int
    cell_rounds: int
    #: One after the other, to see whether any is lost: this box's, and the other server's.
    checked_cells: int
    slow_checked_cells: int
    #: The same while all cores are busy.
    busy_cells: int
    slow_busy_cells: int
    streamed_cells: int
    large_cells: int
    timeouts: int


@dataclass(frozen=True)
class McpPlan:
    """The size of the measures of MCP."""

    starts: int
    #: For a server that takes long to start.
    slow_starts: int
    #: Seconds before the memory is looked at, in which background work ends.
    settle: float
    rounds: int
    #: Whole operations, calls in a session that stays open, and many calls at once, in each round.
    operations: int
    calls: int
    crowds: int
    #: Seconds that a list of tools is waited for while servers hang.
    patience: float


@dataclass(frozen=True)
class BrowserPlan:
    """The size of the measures of the browser."""

    starts: int
    #: Of BrowserGym with its pauses, which needs seconds for each step; the same for rounds.
    slow_starts: int
    #: Before the memory is looked at.
    steps: int
    #: Seconds after the last of them, in which background work ends.
    settle: float
    rounds: int
    slow_rounds: int
    #: Of the small page, in each round.
    observations: int
    large_observations: int


@dataclass(frozen=True)
class BoxesPlan:
    """The size of the measures of boxes as a host has them."""

    #: Of each kind; one more as a process, which is then asked for the rest.
    starts: int
    #: Of the reference's own server, which takes long.
    slow_starts: int
    #: `true` by each way, divided into rounds.
    commands: int
    #: The same of the other clients.
    slow_commands: int
    rounds: int
    copy_megabytes: int
    copy_files: int
    copies: int
    #: Boxes at once, and whether the reference starts as many of its own servers.
    crowd: int
    has_slow_crowd: bool
    #: A client that needs longer for them is not waited for.
    crowd_seconds: float
    #: Seconds before the memory is looked at.
    settle: float
    #: Of `glovebox run` with each backend.
    whole_commands: int


@dataclass(frozen=True)
class WindowPlan:
    """The size of the measures of a VS Code window."""

    #: Of each action, in turns.
    actions: int
    #: Terminals that are opened for a first command.
    terminals: int


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
    terminal: TerminalPlan
    notebook: NotebookPlan
    mcp: McpPlan
    browser: BrowserPlan
    boxes: BoxesPlan
    window: WindowPlan
    groups: frozenset[str]

    def wants(self, *groups: str) -> bool:
        """Tell whether any of these is to be measured."""
        return any(group in self.groups for group in groups)

    @property
    def wants_servers(self) -> bool:
        """Tell whether any of this is measured of the other servers, too."""
        return bool(self.groups - {"browser", "vscode"})

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
        terminal=TerminalPlan(
            echo_seconds=6.0,
            slow_echoes=60,
            echo_rounds=3,
            stream_lines=500,
            stream_rounds=3,
            output_megabytes=100,
            outputs=2,
            slow_output_seconds=45.0,
            sessions=50,
            crowd_seconds=3.0,
            commands=20_000,
            long_lines=20,
            long_line_seconds=40.0,
        ),
        notebook=NotebookPlan(
            starts=5,
            slow_starts=2,
            cell_seconds=3.0,
            slow_cells=60,
            cell_rounds=3,
            checked_cells=5_000,
            slow_checked_cells=600,
            busy_cells=1_000,
            slow_busy_cells=200,
            streamed_cells=30,
            large_cells=500,
            timeouts=5,
        ),
        mcp=McpPlan(
            starts=5,
            slow_starts=2,
            settle=2.0,
            rounds=5,
            operations=40,
            calls=200,
            crowds=5,
            patience=30.0,
        ),
        browser=BrowserPlan(
            starts=3,
            slow_starts=1,
            steps=20,
            settle=2.0,
            rounds=5,
            slow_rounds=2,
            observations=5,
            large_observations=2,
        ),
        boxes=BoxesPlan(
            starts=9,
            slow_starts=1,
            commands=1_500,
            slow_commands=60,
            rounds=3,
            copy_megabytes=1_000,
            copy_files=10_000,
            copies=2,
            crowd=20,
            has_slow_crowd=True,
            crowd_seconds=180.0,
            settle=2.0,
            whole_commands=7,
        ),
        window=WindowPlan(actions=200, terminals=10),
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
        terminal=TerminalPlan(
            echo_seconds=0.5,
            slow_echoes=4,
            echo_rounds=1,
            stream_lines=100,
            stream_rounds=1,
            output_megabytes=10,
            outputs=1,
            slow_output_seconds=8.0,
            sessions=8,
            crowd_seconds=0.5,
            commands=500,
            long_lines=5,
            long_line_seconds=15.0,
        ),
        notebook=NotebookPlan(
            starts=1,
            slow_starts=1,
            cell_seconds=0.5,
            slow_cells=10,
            cell_rounds=1,
            checked_cells=300,
            slow_checked_cells=40,
            busy_cells=100,
            slow_busy_cells=40,
            streamed_cells=5,
            large_cells=120,
            timeouts=1,
        ),
        mcp=McpPlan(
            starts=1,
            slow_starts=1,
            settle=1.0,
            rounds=2,
            operations=10,
            calls=20,
            crowds=2,
            patience=2.0,
        ),
        browser=BrowserPlan(
            starts=1,
            slow_starts=0,
            steps=4,
            settle=2.0,
            rounds=1,
            slow_rounds=0,
            observations=3,
            large_observations=1,
        ),
        boxes=BoxesPlan(
            starts=1,
            slow_starts=0,
            commands=60,
            slow_commands=6,
            rounds=1,
            copy_megabytes=100,
            copy_files=500,
            copies=1,
            crowd=3,
            has_slow_crowd=False,
            crowd_seconds=30.0,
            settle=0.5,
            whole_commands=1,
        ),
        window=WindowPlan(actions=15, terminals=2),
        groups=groups,
    )
