"""How commands and programs ended, and what they do meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from glovebox.errors import CommandFailed
from glovebox.protocol.terminal import Bill, StateName

#: Characters of output in the message of an error.
_SHOWN = 2_000
_WORDS: dict[str, str] = {
    "waiting_for_input": "waits for input",
    "waiting_for_approval": "waits for the user's approval",
    "pager": "shows its output in a pager",
    "editor": "has opened an editor",
    "stopped": "is stopped",
}


@dataclass(frozen=True)
class CommandOutcome:
    """How a command ended. Printing it prints its output."""

    command: str
    exit_code: int
    #: What a person would have seen on the terminal.
    output: str
    seconds: float
    id: str = ""
    session: str = ""
    #: Whether parts of the output are left out.
    truncated: bool = False
    #: CPU time and memory, if known.
    bill: Bill | None = None
    #: Remarks of the box, such as why the command was ended.
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def stdout(self) -> str:
        """The same as `output`: a terminal has one stream. `exec` keeps the streams apart."""
        return self.output

    @property
    def stderr(self) -> str:
        """Always empty: a terminal has one stream. `exec` keeps the streams apart."""
        return ""

    def check(self) -> Self:
        """The outcome itself if the exit code is 0.

        Raises:
            CommandFailed: it is not; the text has the end of the output.
        """
        if not self.ok:
            raise CommandFailed(
                failure_text(self.command, ending(self.exit_code), self.output),
                exit_code=self.exit_code,
                output=self.output,
            )
        return self

    def __str__(self) -> str:
        return self.output

    def __repr__(self) -> str:
        return f"<CommandOutcome {shortened(self.command)}: {ending(self.exit_code)}, {self.seconds:.1f} s>"


@dataclass(frozen=True)
class CommandStatus:
    """What a command does right now."""

    command: str
    state: StateName
    #: What it has printed so far.
    output: str
    #: The question that it asks, if it waits for input; what its user is asked, if it waits for approval.
    prompt: str = ""
    #: Whether it asks for something that is not shown, most likely a password.
    asks_password: bool = False
    #: None while it runs.
    exit_code: int | None = None
    #: The program in the foreground.
    program: str = ""

    @property
    def ended(self) -> bool:
        """Whether the command has ended."""
        return self.state == "ended"

    @property
    def waits(self) -> bool:
        """Whether it needs something to go on: an answer, a key, a signal."""
        return self.state in _WORDS and self.state != "waiting_for_approval"

    @property
    def description(self) -> str:
        """The state in words: `waits for a password: [sudo] password for ada:`."""
        if self.ended:
            return f"has ended: {ending(self.exit_code)}"
        words = "waits for a password" if self.asks_password else _WORDS.get(self.state, "runs")
        if self.prompt:
            return f"{words}: {self.prompt}"
        return f"{words} ({self.program})" if self.program and self.state in ("pager", "editor") else words

    def __repr__(self) -> str:
        return f"<CommandStatus {shortened(self.command)} {self.description}>"


@dataclass(frozen=True)
class ExecOutcome:
    """How a program ended, and what it wrote."""

    #: The program and its arguments, or the text for the shell.
    command: str
    #: Its exit status; 128 and the number of the signal if a signal ended it.
    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    seconds: float
    #: The signal that ended it, such as `SIGKILL`.
    signal: str | None = None
    #: Why it ended: `exit`, `signal`, `timeout`, `oom`, `limit`; `lost` if that is not known.
    reason: str = "exit"

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def stdout(self) -> str:
        """Standard output as text; what is not UTF-8 is replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; what is not UTF-8 is replaced."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def output(self) -> str:
        """Standard output, and after it standard error."""
        return self.stdout + self.stderr

    def check(self) -> Self:
        """The outcome itself if the exit code is 0.

        Raises:
            CommandFailed: it is not; the text has the end of the output.
        """
        if not self.ok:
            what = f"{self.signal} ({self.reason})" if self.signal else f"exit code {self.exit_code}"
            raise CommandFailed(
                failure_text(self.command, what, self.stderr or self.stdout),
                exit_code=self.exit_code,
                output=self.output,
            )
        return self

    def __repr__(self) -> str:
        return f"<ExecOutcome {shortened(self.command)}: exit code {self.exit_code}, {self.seconds:.1f} s>"


def ending(exit_code: int | None) -> str:
    """How a command ended, in words; a command that ended with its session has no exit code (-1)."""
    return "no exit code" if exit_code is None or exit_code < 0 else f"exit code {exit_code}"


def failure_text(command: str, what: str, output: str) -> str:
    """The message of an error about a command, with the end of its output."""
    end = output.rstrip()
    end = end if len(end) <= _SHOWN else f"[...]{end[-_SHOWN:]}"
    return f"{shortened(command)}: {what}" + (f"\n{end}" if end else "")


def shortened(command: str, most: int = 60) -> str:
    """The beginning of a command's first line, in quotes."""
    line = command.strip().partition("\n")[0]
    return repr(line if line == command.strip() and len(line) <= most else f"{line[:most]}...")
