"""The terminal of a shell, found and asked without owning it."""

from __future__ import annotations

import os
import termios

import msgspec

from glovebox.box.terminal.processes import Process

#: The device that stands for whatever terminal a process has.
_OWN_TERMINAL = os.makedev(5, 0)
_PTS_MAJOR = 136
#: Where a shell has its terminal; the last is bash's own copy, which redirections leave alone.
_SHELL_DESCRIPTORS = (0, 255)


class Modes(msgspec.Struct, frozen=True):
    """How a terminal treats what is typed."""

    #: Whether a program gets whole lines, edited by the terminal.
    canonical: bool
    echo: bool
    #: Whether the Enter key gives a line feed. The line editor of a shell at its prompt takes it as it is,
    #: and with that differs from programs that merely want single keys.
    enter_is_line_feed: bool = True

    @property
    def line_editor(self) -> bool:
        """Whether a line editor reads keys, as at the prompt of a shell."""
        return not (self.canonical or self.echo or self.enter_is_line_feed)


def modes(shell: Process) -> Modes | None:
    """The modes of a shell's terminal; `None` if it has none or it cannot be opened."""
    device = _device(shell.terminal)
    paths = [f"/proc/{shell.pid}/fd/{number}" for number in _SHELL_DESCRIPTORS]
    if os.major(device) == _PTS_MAJOR:
        paths.insert(0, f"/dev/pts/{os.minor(device)}")
    for path in paths:
        try:
            if os.stat(path).st_rdev != device:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            attributes = termios.tcgetattr(descriptor)
        except termios.error:  # it hung up just now
            return None
        finally:
            os.close(descriptor)
        local, inbound = attributes[3], attributes[0]
        return Modes(
            canonical=bool(local & termios.ICANON),
            echo=bool(local & termios.ECHO),
            enter_is_line_feed=bool(inbound & termios.ICRNL),
        )
    return None


def has_open(process: Process, descriptor: int) -> bool | None:
    """Whether a descriptor of a process is its terminal; `None` if that may not be known."""
    try:
        device = os.stat(f"/proc/{process.pid}/fd/{descriptor}").st_rdev
    except PermissionError:
        return None
    except OSError:
        return False
    return process.terminal != 0 and device in (_device(process.terminal), _OWN_TERMINAL)


def _device(number: int) -> int:
    """A device from the number in a process's status."""
    return os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))
