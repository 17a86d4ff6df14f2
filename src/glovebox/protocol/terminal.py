"""Sessions and commands of the terminal, as the box's own endpoints tell of them."""

from __future__ import annotations

from typing import Literal

from glovebox.protocol.base import Message

#: What a command does: it has `ended`, or one of the others while it runs.
StateName = Literal["running", "waiting_for_input", "pager", "editor", "stopped", "background", "ended"]


class Limits(Message):
    """What a command may use; null is no limit. Beyond it, the command is ended."""

    #: Bytes, all processes of the command together.
    memory: int | None = None
    cpu_seconds: float | None = None
    processes: int | None = None
    #: Bytes of the largest file it may write.
    file_size: int | None = None


class Bill(Message):
    """What a command used; null is not known."""

    wall_seconds: float
    cpu_seconds: float | None = None
    #: Bytes, the most that was seen of all its processes together.
    peak_memory: int | None = None
    output_bytes: int = 0


class CommandInfo(Message):
    """A command, while it runs and after."""

    id: str
    session: str
    command: str
    #: Who entered it: an `agent` with an action, or a `person` at an attached terminal.
    by: Literal["agent", "person"]
    state: StateName
    #: What it waits for an answer to, when it waits for input.
    prompt: str = ""
    #: Input is not shown: it most likely asks for a password.
    echo_off: bool = False
    #: The program in the foreground.
    program: str = ""
    #: Seconds since 1970.
    started: float
    ended: float | None = None
    #: Null while it runs; -1 if the shell went away without saying.
    exit_code: int | None = None
    #: Bytes of output so far.
    output_bytes: int = 0
    bill: Bill | None = None
    #: Why it was ended, if a limit did it.
    limit: str | None = None
    #: What the system killed for want of memory while it ran.
    oom: str | None = None


class SessionInfo(Message):
    """A persistent shell."""

    name: str
    #: Null while no shell runs; the next command starts one.
    pid: int | None
    cwd: str
    rows: int
    columns: int
    #: Seconds since 1970.
    created: float
    #: The id of the command that runs.
    command: str | None = None
    #: A person has taken it over.
    taken: bool = False
    limits: Limits = Limits()
    #: What to type to attach with tmux, if it is held by tmux.
    attach: str | None = None
