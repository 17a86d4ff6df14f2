"""Where the next server finds the holder: a socket in the state directory, and who may come in by it."""

from __future__ import annotations

import os
import struct
import time
from _operator import _compare_digest

from glovebox.box.terminal.holder import wire
from glovebox.box.terminal.holder.lean import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The names in the state directory.
SOCKET = "holder.sock"
SECRET = "holder.secret"  # noqa: S105  a name
LOCK = "lock"
#: How many may be at the door at a time, how many seconds each, and how many bytes they may say.
_MOST_GUESTS = 16
_PATIENCE = 5.0
_LONGEST = 256
#: The process, user and group of the other end, as the kernel tells them.
_CREDENTIALS = struct.Struct("3i")


class Guest:
    """A connection that has not proved yet that it is the next server's."""

    __slots__ = ("connection", "deadline", "heard", "lock")

    def __init__(self, connection: sockets.socket) -> None:
        self.connection = connection
        self.deadline = time.monotonic() + _PATIENCE
        self.heard = wire.Frames()
        self.lock = -1

    def close(self) -> None:
        self.connection.close()
        self.forget_lock()

    def forget_lock(self) -> None:
        """Let go of the descriptor that it has passed."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


class Door:
    """Listens for the next server.

    It must run as the user of the holder or as root, know the secret of the state directory, and have that
    directory's lock, which it passes along. A server that lives has the lock, so nobody can take its place.
    """

    def __init__(self, directory: str, secret: str) -> None:
        self._secret = secret.encode()
        lock = os.stat(os.path.join(directory, LOCK))
        self._lock = (lock.st_dev, lock.st_ino)
        self._address = os.path.join(directory, SOCKET)
        self._guests: dict[int, Guest] = {}
        self._listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        os.chdir(directory)  # the path of a socket may have 107 bytes, that of a directory more
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)
        self._listener.bind(SOCKET)
        os.chdir("/")
        self._listener.listen(_MOST_GUESTS)
        self._listener.setblocking(False)

    def fileno(self) -> int:
        return self._listener.fileno()

    def admit(self) -> tuple[int, list[int]]:
        """Hear somebody out: their descriptor, or -1, and those of others who had to leave for it."""
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:  # they are gone already, or there are no descriptors left
            return -1, []
        connection = sockets.socket(fileno=descriptor)
        told = connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(told)[1] not in (0, os.geteuid()):
            connection.close()
            return -1, []
        connection.setblocking(False)
        crowded = list(self._guests)[: len(self._guests) - _MOST_GUESTS + 1]
        for oldest in crowded:
            self.dismiss(oldest)
        self._guests[descriptor] = Guest(connection)
        return descriptor, crowded

    def knows(self, descriptor: int) -> bool:
        """Whether this is somebody at the door."""
        return descriptor in self._guests

    def hear(self, descriptor: int) -> sockets.socket | None:
        """Hear what somebody has to say; the connection, if that is the next server."""
        guest = self._guests[descriptor]
        try:
            data, rights, _, _ = guest.connection.recvmsg(
                _LONGEST, sockets.CMSG_SPACE(4), sockets.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError:
            data, rights = b"", []
        for _, _, passed in rights:
            for (one,) in struct.iter_unpack("i", passed):  # there is room for more than one
                guest.forget_lock()
                guest.lock = one
        frames = guest.heard.feed(data)
        if not frames and data and guest.heard.size <= _LONGEST:
            return None
        del self._guests[descriptor]
        if not (frames and frames[0][0] == wire.HELLO and self._proved(frames[0][2], guest.lock)):
            guest.close()
            return None
        guest.forget_lock()
        return guest.connection

    def late(self) -> Iterator[int]:
        """Those who have said nothing for too long."""
        now = time.monotonic()
        return (descriptor for descriptor, guest in list(self._guests.items()) if now >= guest.deadline)

    def dismiss(self, descriptor: int) -> None:
        self._guests.pop(descriptor).close()

    @property
    def deadline(self) -> float | None:
        """When the next one is late."""
        return min((guest.deadline for guest in self._guests.values()), default=None)

    def close(self) -> None:
        """Nobody can come any more."""
        for descriptor in list(self._guests):
            self.dismiss(descriptor)
        self._listener.close()
        try:
            os.unlink(self._address)
        except FileNotFoundError:
            pass

    def _proved(self, secret: bytes, lock: int) -> bool:
        if not _compare_digest(secret, self._secret) or lock < 0:
            return False
        import fcntl

        try:
            passed = os.fstat(lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # which succeeds for those who have it
        except OSError:
            return False
        return (passed.st_dev, passed.st_ino) == self._lock
