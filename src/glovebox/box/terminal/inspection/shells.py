"""A shell, as seen from outside: whether it was replaced, and whether it waits at its prompt."""

from __future__ import annotations

import os

import msgspec

from glovebox.box.terminal import processes
from glovebox.box.terminal.inspection import tty


class ShellSample(msgspec.Struct, frozen=True):
    """A shell in one moment."""

    #: The name of its process, which nobody else can change.
    name: str
    #: Where its program lies in memory, which changes when it replaces itself with another (`exec`).
    image: tuple[bytes, ...]
    stopped: bool
    #: It has the terminal, and no program that it started does.
    foreground: bool
    #: The same, and it sleeps.
    waiting: bool
    #: It is a bash that was given nothing to run, so when it waits it does so at its prompt, most likely.
    interactive: bool
    #: Its line editor reads keys.
    editing: bool


#: Options that give a bash nothing to run.
_HARMLESS = {b"-i", b"-l", b"--login", b"--norc", b"--noprofile", b"--noediting", b"--posix", b"-O"}


def look_at_shell(pid: int) -> ShellSample | None:
    """Look at a shell; `None` if that is not possible. Blocks."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")
        stat = processes.stat(pid)
    except OSError:
        return None
    fields, seen = processes.split(stat), processes.Process(pid, stat)
    if seen.foreground == 0:  # gVisor does not tell who has the terminal
        return None
    options = [argument for argument in arguments[1:] if argument]
    modes = tty.modes(seen)
    foreground = seen.group == seen.foreground == pid
    return ShellSample(
        name=seen.name,
        image=tuple(fields[23:26]),
        stopped=seen.state == "T",
        foreground=foreground,
        waiting=seen.state == "S" and foreground,
        interactive=_program(pid) == "bash" and set(options) <= _HARMLESS,
        editing=modes is not None and modes.line_editor,
    )


def _program(pid: int) -> str:
    """The program that a process runs, whatever name it was given."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).partition(" ")[0]
    except OSError:
        return ""
