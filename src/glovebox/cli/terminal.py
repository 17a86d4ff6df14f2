"""The terminal of this process while a program in a box has it."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import tty
from collections.abc import Iterator

STDIN, STDOUT, STDERR = 0, 1, 2
#: Resets modes that programs may have set: colours, a hidden cursor, bracketed paste, the mouse.
_RESET = b"\x1b[m\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"
_ALTERNATE_ON, _ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
_MODE = b"\x1b[?"


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the box as it is; the terminal is put back whatever happens."""
    before = termios.tcgetattr(STDIN)
    try:
        tty.setraw(STDIN, termios.TCSANOW)
        yield
    finally:
        with contextlib.suppress(termios.error):  # it is gone
            termios.tcsetattr(STDIN, termios.TCSANOW, before)


def window_size() -> tuple[int, int] | None:
    """Rows and columns; None if the terminal does not tell, or is gone."""
    try:
        columns, rows = os.get_terminal_size(STDOUT)
    except OSError:
        return None
    return (rows, columns) if rows and columns else None


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. Blocks.

    Raises:
        BrokenPipeError: the reader has left.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BrokenPipeError:
            raise
        except OSError:  # the terminal is gone
            return


class ScreenModes:
    """Notes the modes that programs set, so that these can be reset."""

    def __init__(self) -> None:
        self._alternate = False
        self._changed = False

    def note(self, data: bytes) -> None:
        on, off = data.rfind(_ALTERNATE_ON), data.rfind(_ALTERNATE_OFF)
        if on != off:
            self._alternate = on > off
        self._changed = self._changed or _MODE in data

    def reset(self) -> None:
        if self._changed and sys.stdout.isatty():
            with contextlib.suppress(BrokenPipeError):
                write_all(STDOUT, _RESET + (_ALTERNATE_OFF if self._alternate else b""))
