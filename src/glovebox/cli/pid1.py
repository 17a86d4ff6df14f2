"""The first process of a container: it reaps orphans and forwards signals, and does nothing else.

It imports almost nothing, because it lives as long as the box.
"""

from __future__ import annotations

import os
import signal

from glovebox.secret_environment import erase_secrets, forbid_inspection

#: The forwarded signals. Job control is left to the terminal.
HANDED_ON = frozenset({
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGWINCH,
})  # fmt: skip


def stay_behind() -> None:
    """If this is the first process, continue in a child, and reap processes here.

    The first process never returns: it ends with the child, and with its status.
    """
    if os.getpid() != 1:
        return
    # Signals are blocked until they can be forwarded.
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)
    child = os.fork()
    if not child:
        _lead()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
        return
    for number in HANDED_ON:
        signal.signal(number, lambda number, _: _hand_on(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
    erase_secrets()  # the child has its own copy
    forbid_inspection()
    os._exit(_wait_for(child))


def _lead() -> None:
    """A group of its own, and the terminal if there is one: Ctrl-C must not arrive twice."""
    os.setpgid(0, 0)
    if os.isatty(0):
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:  # noqa: SIM105 - contextlib stays unloaded
            os.tcsetpgrp(0, os.getpgrp())
        except OSError:  # a terminal, but not ours
            pass
        signal.signal(signal.SIGTTOU, before)


def _hand_on(child: int, number: int) -> None:
    try:  # noqa: SIM105
        os.kill(child, number)
    except ProcessLookupError:  # it has just ended
        pass


def _wait_for(child: int) -> int:
    """Reap processes until the child has ended; its status, as in a shell."""
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
