"""The C halves of modules whose Python halves would take megabytes of the holder's memory."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
    import socket as sockets
else:
    import _signal as signals
    import _socket as sockets

__all__ = ["signals", "sockets"]
