"""Stand-ins for modules of the standard library that would take megabytes of the holder's memory."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
    import socket as sockets
    from dataclasses import dataclass
    from typing import Protocol
else:
    import _signal as signals
    import _socket as sockets

    Protocol = object

    def dataclass(*, kw_only):
        """Let a class take its annotated attributes as keyword arguments."""

        def decorate(kind):
            kind.__init__ = lambda self, **values: self.__dict__.update(values)
            return kind

        return decorate


__all__ = ["Protocol", "dataclass", "signals", "sockets"]
