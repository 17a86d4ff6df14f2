"""How kernels end, in words."""

from __future__ import annotations

import signal

_STATUSES = {126: "not executable", 127: "not found"}


def how_ended(status: int | None, out_of_memory: str | None = None) -> str:
    """An exit status, 128 + signal for one that was killed, for people; and what the system says of it."""
    if status is None:
        return "it is not known how"
    if status > 128:
        number = status - 128
        try:
            name = f" ({signal.Signals(number).name})"
        except ValueError:
            name = ""
        if number == signal.SIGKILL:
            name += f". {out_of_memory.rstrip('.')}" if out_of_memory else ", possibly for lack of memory"
        return f"killed by signal {number}{name}"
    meaning = f" ({_STATUSES[status]})" if status in _STATUSES else ""
    return f"exit status {status}{meaning}"


def died_in_cell(reason: str) -> str:
    """For the cell that a kernel died with."""
    return (
        f"[The kernel died while it ran this cell: {reason}. "
        "The next cell starts a new kernel; its variables are gone.]"
    )


def stopped_in_cell(what: str) -> str:
    """For the cell that ran when somebody ended or restarted the kernel."""
    return f"[The kernel was {what} while it ran this cell; its variables are gone.]"


def ended_by_cell() -> str:
    """For a cell that told the kernel to end."""
    return "[The cell ended the kernel. The next cell starts a new kernel; its variables are gone.]"


def ended_before_cell(reason: str) -> str:
    """For the first cell after something that nobody has told the agent yet."""
    return (
        f"[The kernel had ended before this cell: {reason}. "
        "This cell ran in a new kernel; earlier variables are gone.]"
    )


def timed_out(seconds: float) -> str:
    """For a cell that took too long, in the words of the contract."""
    return f"[Execution timed out ({float(seconds)} seconds).]"


STILL_BUSY = "[The kernel was busy with another cell all the time, and this one was not run.]"
NOT_STARTED = "[The kernel was still starting, and this cell was not run.]"
STILL_RUNNING = "[The cell does not stop, though it was interrupted; the next one waits for it.]"
