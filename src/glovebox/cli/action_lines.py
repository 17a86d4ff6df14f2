"""A line on standard error for each action that a box has carried out."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from glovebox.logs import Mask

if TYPE_CHECKING:
    from glovebox.box.executor import Call, Outcome
    from glovebox.protocol.base import Action

#: Seconds for which lines are collected. A terminal may be slow, or stopped with Ctrl-S; the box must not be.
_PAUSE = 0.05
_MOST = 1000
#: The fields that say what an action is about, the most telling first.
_SUBJECTS = ("command", "argv", "code", "path", "url", "browser_actions", "name", "query", "pattern")


class ActionLines:
    """An `Observer` that prints. Lines that a terminal does not take are dropped, the oldest first."""

    def __init__(self, secret: str) -> None:
        self._mask = Mask([secret])
        self._waiting: deque[tuple[float, Outcome]] = deque(maxlen=_MOST)
        self._is_scheduled = False
        self._writing = threading.Lock()

    def started(self, action: Action[Any], call: Call) -> None: ...

    def finished(self, outcome: Outcome) -> None:
        self._waiting.append((time.time(), outcome))
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(_PAUSE, self._flush_later)

    def _flush_later(self) -> None:
        self._is_scheduled = False
        threading.Thread(target=self.flush, daemon=True).start()

    def flush(self) -> None:
        """Print what is waiting. Blocks."""
        if not self._writing.acquire(blocking=False):
            return  # another thread does
        try:
            width = shutil.get_terminal_size().columns
            while self._waiting:
                when, outcome = self._waiting.popleft()
                os.write(sys.stderr.fileno(), f"{self._mask(line_of(when, outcome, width))}\n".encode())
        except (OSError, ValueError):  # the terminal is gone
            self._waiting.clear()
        finally:
            self._writing.release()


def line_of(when: float, outcome: Outcome, width: int) -> str:
    """An action as a line of at most that width."""
    head = f"{time.strftime('%H:%M:%S', time.localtime(when))}  {outcome.action.action:<8} "
    tail = f"{outcome.seconds:7.2f} s  {_ending(outcome)}"
    room = max(10, width - len(head) - len(tail) - 2)
    subject = subject_of(outcome.action)
    if len(subject) > room:
        subject = f"{subject[: room - 1]}…"
    return f"{head}{subject:<{room}} {tail}".rstrip()


def subject_of(action: Action[Any]) -> str:
    """What an action is about, on one line, without anything that a terminal would obey."""
    for name in _SUBJECTS:
        value = getattr(action, name, "")
        text = " ".join(value) if isinstance(value, (list, tuple)) else value
        if text and isinstance(text, str):
            one_line = " ".join(text[:1000].split())
            return "".join(letter if letter.isprintable() else "\ufffd" for letter in one_line)
    return ""


def _ending(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.code
    if outcome.observation is None:
        return "cancelled"
    if outcome.call.command is not None:
        exit_code = outcome.call.command.exit_code
        return "runs on" if exit_code is None else f"exit {exit_code}"
    return "failed" if outcome.observation.observation == "error" else ""
