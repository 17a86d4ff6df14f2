"""The contract's words: every answer of the terminal, as pure functions."""

from __future__ import annotations

import msgspec

from glovebox.box.terminal.shell.integration import EndReport, printable
from glovebox.protocol.observations import CmdOutputMetadata, CmdOutputObservation, ErrorObservation

CONTINUED = "[Below is the output of the previous command.]\n"

_HINT = (
    "You may wait longer to see additional output by sending empty command '', "
    "send other commands to interact with the current process, "
    'send keys ("C-c", "C-z", "C-d") to interrupt/kill the previous command before sending your new command, '
    "or use the timeout parameter in execute_bash for future commands."
)


def nothing_to_retrieve() -> CmdOutputObservation:
    """An empty command, and nothing is running."""
    return CmdOutputObservation(
        content="ERROR: No previous running command to retrieve logs from.", command=""
    )


def nothing_to_interact_with() -> CmdOutputObservation:
    """Input, and nothing is running."""
    return CmdOutputObservation(content="ERROR: No previous running command to interact with.", command="")


def several_commands(commands: list[str]) -> ErrorObservation:
    """More than one command on lines of their own."""
    numbered = "\n".join(f"({number}) {command}" for number, command in enumerate(commands, 1))
    return ErrorObservation(
        content="ERROR: Cannot execute multiple commands at once.\n"
        "Please run each command separately OR chain them into a single command via && or ;\n"
        f"Provided commands:\n{numbered}"
    )


def taken_over(session: str) -> ErrorObservation:
    """A command while a person has the session."""
    return ErrorObservation(
        content=f"ERROR: A person has taken over the session {session!r}, and the command was not run. "
        "Wait until it is handed back, or use another session."
    )


def unreadable(reason: str) -> ErrorObservation:
    """A command that cannot be given to a shell."""
    return ErrorObservation(content=f"ERROR: The command cannot be run: {reason}.")


def still_running(command: str, content: str, *, continued: bool, hidden: bool) -> CmdOutputObservation:
    """A new command while the previous one runs."""
    suffix = (
        f'\n[Your command "{command}" is NOT executed. The previous command is still running - '
        "You CANNOT send new commands until the previous command is completed. "
        f"By setting `is_input` to `true`, you can interact with the current process: {_HINT}]"
    )
    metadata = CmdOutputMetadata(prefix=CONTINUED if continued else "", suffix=suffix)
    return CmdOutputObservation(content=content, command=command, metadata=metadata, hidden=hidden)


def awaits_approval(
    command: str, content: str, question: str, *, continued: bool, refused: bool = False
) -> CmdOutputObservation:
    """The command has not started: a person is asked whether it may."""
    which = f'Your command "{command}" is NOT executed. The previous' if refused else "The"
    suffix = (
        f"\n[{which} command has not started: the user has not decided yet whether to allow it "
        f"({question}). You may wait for the decision by sending empty command '', "
        'or withdraw the command by sending "C-c".]'
    )
    metadata = CmdOutputMetadata(prefix=CONTINUED if continued else "", suffix=suffix)
    return CmdOutputObservation(content=content, command=command, metadata=metadata)


def no_new_output(command: str, content: str, *, continued: bool, seconds: float) -> CmdOutputObservation:
    """The command runs on and has been silent for a while."""
    suffix = f"\n[The command has no new output after {seconds:g} seconds. {_HINT}]"
    metadata = CmdOutputMetadata(prefix=CONTINUED if continued else "", suffix=suffix)
    return CmdOutputObservation(content=content, command=command, metadata=metadata)


def timed_out(command: str, content: str, *, continued: bool, seconds: float) -> CmdOutputObservation:
    """The command runs on and the caller's time is over."""
    suffix = f"\n[The command timed out after {float(seconds)} seconds. {_HINT}]"
    metadata = CmdOutputMetadata(prefix=CONTINUED if continued else "", suffix=suffix)
    return CmdOutputObservation(content=content, command=command, metadata=metadata)


def completed(
    command: str,
    content: str,
    report: EndReport,
    *,
    prefix: str = "",
    note: str = "",
    oom: str | None = None,
    hidden: bool = False,
) -> CmdOutputObservation:
    more = f" {note}" if note else ""
    killed = f"\n[{oom}]" if oom else ""
    suffix = f"\n[The command completed with exit code {report.exit_code}.{more}]{killed}"
    metadata = _metadata(report, prefix, suffix)
    return CmdOutputObservation(content=content, command=command, metadata=metadata, hidden=hidden)


def key_sent(command: str) -> str:
    """The note that goes with a completed command after a control key."""
    return f"CTRL+{command[2].upper()} was sent."


def input_not_sent(command: str) -> str:
    """The note for input that came when the command had already ended."""
    return f'Your input "{command}" was NOT sent: the command had already ended.'


def shell_ended(
    command: str,
    content: str,
    report: EndReport | None,
    *,
    status: int | None,
    cwd: str,
    prefix: str = "",
    note: str = "",
    oom: str | None = None,
    hidden: bool = False,
) -> CmdOutputObservation:
    """The command ended the shell itself."""
    how = "ended" if status is None else f"ended with exit code {status}"
    killed = f"\n[{oom}]" if oom else ""
    suffix = (
        f"\n[The shell itself {how}, and with it everything that was set in it. "
        f"The next command gets a new shell in {printable(cwd)}.{f' {note}' if note else ''}]{killed}"
    )
    metadata = CmdOutputMetadata(prefix=prefix, suffix=suffix)
    if report is not None:
        metadata = _metadata(report, prefix, suffix)
    metadata = msgspec.structs.replace(
        metadata, exit_code=-1 if status is None else status, working_dir=printable(cwd)
    )
    return CmdOutputObservation(content=content, command=command, metadata=metadata, hidden=hidden)


def shell_was_gone(status: int | None) -> str:
    """The prefix of the first answer of a shell that took the place of one that ended unnoticed."""
    how = "" if status is None else f" with exit code {status}"
    return f"[The previous shell had ended{how}. This command ran in a new one.]\n"


def output_truncated(lines: int) -> str:
    """The prefix for output whose beginning is gone."""
    return f"[Previous command outputs are truncated. Showing the last {lines} lines of the output below.]\n"


def _metadata(report: EndReport, prefix: str, suffix: str) -> CmdOutputMetadata:
    return CmdOutputMetadata(
        exit_code=report.exit_code,
        pid=report.background_pid,
        username=report.username,
        hostname=report.hostname,
        working_dir=printable(report.working_dir),
        py_interpreter_path=printable(report.python),
        prefix=prefix,
        suffix=suffix,
    )
