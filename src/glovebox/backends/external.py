"""Boxes that somebody else has started: they are used, never ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import ClassVar

from glovebox.client.spec import BoxSpec
from glovebox.errors import NotSupported


class FoundSandbox:
    """What every box has in common that is not its client's."""

    #: Why it cannot be paused, cannot be stopped, and has no log here, each with what to do instead.
    no_pause: ClassVar[str]
    no_stop: ClassVar[str]
    no_logs: ClassVar[str]

    async def pause(self) -> None:
        """It is not ours to pause.

        Raises:
            NotSupported: always.
        """
        raise NotSupported(self.no_pause)

    async def stop(self) -> None:
        """It is not ours to stop.

        Raises:
            NotSupported: always.
        """
        raise NotSupported(self.no_stop)

    async def delete(self) -> None:
        """Leave it as it is: whoever started it decides when it ends."""

    async def logs(self, *, follow: bool = False) -> AsyncIterator[str]:
        """What it prints is not seen here.

        Raises:
            NotSupported: always.
        """
        raise NotSupported(self.no_logs)
        yield ""


def refuse_wishes(spec: BoxSpec, settled: Iterable[str], which: str) -> None:
    """Find what can be chosen only by whoever starts a box.

    Raises:
        NotSupported: something of it is wanted.
    """
    for field in settled:
        if getattr(spec, field):
            raise NotSupported(
                f"{which} is what it is: {field} cannot be chosen. "
                "Leave it out, or start a box with another backend."
            )
