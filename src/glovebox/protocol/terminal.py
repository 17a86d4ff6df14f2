"""Sessions and commands of the terminal, as the box's own endpoints tell of them."""

from __future__ import annotations

from typing import ClassVar, Literal

from glovebox.protocol.base import Action, Message, Observation

#: What a command does: it has `ended`, or one of the others while it runs.
StateName = Literal[
    "running", "waiting_for_input", "waiting_for_approval", "pager", "editor", "stopped", "background",
    "ended",
]  # fmt: skip


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
    #: What it waits for an answer to, when it waits for input; what the user is asked, when for approval.
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
    #: The directory of the shell after it; null while it runs, or if that is not known.
    cwd: str | None = None
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


#: `return`: the answer comes also when a command waits for input, in a pager, in an editor, or is stopped.
OnWait = Literal["wait", "return"]


class CommandResult(Message):
    """A command, and what it printed from an offset on."""

    command: CommandInfo
    #: As a person would have seen it.
    output: str
    #: Where in the raw output `output` begins and ends; ask again from `output_end` on for what follows.
    output_offset: int = 0
    output_end: int = 0
    #: Whether something is left out of `output`; all of it is at `/commands/{id}/output`.
    truncated: bool = False
    #: The time was over, and the command goes on.
    timed_out: bool = False
    #: What a caller should know besides: what background jobs printed, that the shell is a new one.
    notes: list[str] = []


class CommandObservation(Observation):
    """A `CommandResult`; `content` is its output."""

    observation: ClassVar[str] = "command"
    message_template: ClassVar[str] = "Command `{0.command.command}`: {0.command.state}."
    command: CommandInfo
    output_offset: int = 0
    output_end: int = 0
    truncated: bool = False
    timed_out: bool = False
    notes: list[str] = []

    @property
    def success(self) -> bool:
        return self.command.exit_code == 0

    @classmethod
    def of(cls, result: CommandResult) -> CommandObservation:
        return cls(
            content=result.output,
            command=result.command,
            output_offset=result.output_offset,
            output_end=result.output_end,
            truncated=result.truncated,
            timed_out=result.timed_out,
            notes=result.notes,
        )

    @property
    def result(self) -> CommandResult:
        return CommandResult(
            command=self.command,
            output=self.content,
            output_offset=self.output_offset,
            output_end=self.output_end,
            truncated=self.truncated,
            timed_out=self.timed_out,
            notes=self.notes,
        )


class CommandAction(Action[CommandObservation]):
    """Run a text of one or more lines as one command in a persistent shell.

    The answer comes when it has ended, when `timeout` is over, or as `on_wait` says. The command goes on.
    """

    action: ClassVar[str] = "command"
    message_template: ClassVar[str] = "Running command: {0.command}"
    resumable: ClassVar[bool] = True
    command: str
    #: The shell to run it in, opened if there is none of that name.
    session: str = "main"
    on_wait: OnWait = "wait"
    #: False: the answer comes as soon as the command has begun.
    wait: bool = True
    limits: Limits | None = None
    #: How many characters of output to answer with: head, tail and what is around errors.
    budget: int | None = None


class CommandInputAction(Action[CommandObservation]):
    """Give input to the command that runs in a session, if any is given, and wait for it.

    It is answered with what was printed since the last answer.
    """

    action: ClassVar[str] = "command_input"
    message_template: ClassVar[str] = "Input for the session {0.session}: {0.text}"
    session: str = "main"
    #: What to type; a line end is the Enter key.
    text: str = ""
    #: Keys to press afterwards: `C-c`, `Enter`, `Up`, `F1`, `M-x`.
    keys: list[str] = []
    on_wait: OnWait = "return"
    budget: int | None = None
