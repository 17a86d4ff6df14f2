"""The socket in the state directory at which the next server connects, and how a server proves itself."""

from __future__ import annotations

import os
import select
import struct
import time
from _operator import _compare_digest

from glovebox.box.terminal.holder import wire
from glovebox.box.terminal.holder.lean import sockets

#: The names in the state directory.
SOCKET = "holder.sock"
SECRET = "holder.secret"  # noqa: S105  a name
LOCK = "lock"
#: How many unproved connections there may be, for how many seconds, and with how many bytes.
_MOST_CANDIDATES = 16
_PATIENCE = 5.0
_LONGEST = 256
#: The process, user and group of the peer.
_CREDENTIALS = struct.Struct("3i")


class Candidate:
    """A connection that has not proved yet to be the next server's."""

    __slots__ = ("connection", "deadline", "frames", "lock")

    def __init__(self, connection: sockets.socket) -> None:
        self.connection = connection
        self.deadline = time.monotonic() + _PATIENCE
        self.frames = wire.Frames()
        self.lock = -1

    def close(self) -> None:
        self.connection.close()
        self.forget_lock()

    def forget_lock(self) -> None:
        """Close the descriptor that it has passed."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


class Listener:
    """Listens for the next server.

    A server must run as the user of the holder or as root, have the secret of the state directory, and pass a
    descriptor with that directory's lock. A server that lives has the lock, so no other can replace it.
    """

    def __init__(self, directory: str, secret: str, poll: select.poll) -> None:
        self._secret = secret.encode()
        self._poll = poll
        lock = os.stat(os.path.join(directory, LOCK))
        self._lock = (lock.st_dev, lock.st_ino)
        self._address = os.path.join(directory, SOCKET)
        self._candidates: dict[int, Candidate] = {}
        self._listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        os.chdir(directory)  # the path of a socket may have 107 bytes, that of a directory more
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)
        self._listener.bind(SOCKET)
        os.chdir("/")
        self._listener.listen(_MOST_CANDIDATES)
        self._listener.setblocking(False)
        poll.register(self._listener.fileno(), select.POLLIN)

    def handle(self, descriptor: int) -> sockets.socket | None:
        """Handle a descriptor that is readable; returns the connection of the next server, if it is that."""
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._candidates:
            return self._receive(descriptor)
        return None

    def _accept(self) -> None:
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:  # it is closed already, or there are no descriptors left
            return
        connection = sockets.socket(fileno=descriptor)
        peer = connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(peer)[1] not in (0, os.geteuid()):
            connection.close()
            return
        connection.setblocking(False)
        for oldest in list(self._candidates)[: len(self._candidates) - _MOST_CANDIDATES + 1]:
            self._remove(oldest).close()
        self._candidates[descriptor] = Candidate(connection)
        self._poll.register(descriptor, select.POLLIN)

    def _receive(self, descriptor: int) -> sockets.socket | None:
        candidate = self._candidates[descriptor]
        try:
            data, rights, _, _ = candidate.connection.recvmsg(
                _LONGEST, sockets.CMSG_SPACE(4), sockets.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError:
            data, rights = b"", []
        for _, _, passed in rights:
            for (one,) in struct.iter_unpack("i", passed):  # there is room for more than one
                candidate.forget_lock()
                candidate.lock = one
        frames = candidate.frames.feed(data)
        if not frames and data and candidate.frames.size <= _LONGEST:
            return None
        self._remove(descriptor)
        if not (frames and frames[0][0] == wire.HELLO and self._proved(frames[0][2], candidate.lock)):
            candidate.close()
            return None
        candidate.forget_lock()
        return candidate.connection

    def _remove(self, descriptor: int) -> Candidate:
        self._poll.unregister(descriptor)
        return self._candidates.pop(descriptor)

    def close_late(self) -> None:
        """Close the connections that have exceeded their time."""
        now = time.monotonic()
        for descriptor, candidate in list(self._candidates.items()):
            if now >= candidate.deadline:
                self._remove(descriptor).close()

    @property
    def deadline(self) -> float | None:
        return min((one.deadline for one in self._candidates.values()), default=None)

    def close(self) -> None:
        for descriptor in list(self._candidates):
            self._remove(descriptor).close()
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
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # succeeds on a descriptor that has the lock
        except OSError:
            return False
        return (passed.st_dev, passed.st_ino) == self._lock
