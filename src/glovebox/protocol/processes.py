"""Processes without a session: what starts one, and what is known of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from glovebox.protocol.base import Message
from glovebox.protocol.terminal import Bill, Limits

Encoding = Literal["utf-8", "base64"]
EndReason = Literal["exit", "signal", "timeout", "oom", "limit", "lost"]


class PtySize(Message, forbid_unknown_fields=True):
    """The size of a terminal."""

    rows: int = 24
    columns: int = 80


class ProcessRequest(Message, forbid_unknown_fields=True):
    """A process to start: `argv`, or a text for `bash -c` as `shell`."""

    argv: list[str] | None = None
    shell: str | None = None
    #: Relative to the workspace, which is the default.
    cwd: str = ""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    #: `env` is all that it gets, instead of what commands of the box see.
    clear_env: bool = False
    #: Another user than the sandbox user; needs a server that runs as root.
    user: str = ""
    stdin: str | None = None
    stdin_encoding: Encoding = "utf-8"
    #: More is written to the standard input later; else it ends after `stdin`.
    stdin_open: bool = False
    #: Seconds, after which everything it started is ended.
    timeout: float | None = None
    limits: Limits | None = None
    #: A terminal for it in place of pipes; all output is then `stdout`.
    pty: PtySize | None = None
    #: It goes on when the caller of `/exec` goes away, and with `--keep-sessions` when the server is stopped.
    detached: bool = False
    tag: str = ""
    #: The same key again gives the same process.
    idempotency_key: str = ""


class ExecRequest(ProcessRequest, forbid_unknown_fields=True):
    """A process to run to its end."""

    output_encoding: Encoding = "utf-8"
    #: Bytes of each stream in the answer; the rest can be read from the process.
    max_output: int = 1 << 20


class ProcessInfo(Message):
    """A process, while it runs and after."""

    id: str
    argv: list[str]
    cwd: str
    user: str
    tag: str
    pid: int
    state: Literal["running", "ended"]
    #: Seconds since 1970.
    started: float
    ended: float | None = None
    #: Null while it runs, and if a signal ended it.
    exit_code: int | None = None
    #: The name of the signal that ended it.
    signal: str | None = None
    reason: EndReason | None = None
    #: More about the reason, for people.
    detail: str = ""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    #: How many bytes were taken for the standard input: where the next write begins.
    stdin_bytes: int = 0
    bill: Bill | None = None
    pty: bool = False
    detached: bool = False


class ExecResult(Message):
    """A process that has ended, and what it printed."""

    process: ProcessInfo
    stdout: str
    stderr: str
    encoding: Encoding
    stdout_truncated: bool
    stderr_truncated: bool


class ProcessWait(Message, forbid_unknown_fields=True):
    """How many seconds to wait at most; null is as long as it takes."""

    timeout: float | None = None


class ProcessSignal(Message, forbid_unknown_fields=True):
    """A signal by its name or number: `SIGINT`, `INT` or `2`."""

    signal: str


class ProcessOutput(Message):
    """A part of what a process printed."""

    offset: int
    end: int
    data: str


class StdinTaken(Message):
    """How many bytes of the standard input were taken: where the next write begins."""

    offset: int
    closed: bool
