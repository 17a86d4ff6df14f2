"""The windows that a hub knows, and their life. Time passes as the clock says that is given."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from glovebox.errors import NoSuchWindow, WindowError
from glovebox.protocol.base import Message
from glovebox.protocol.window import Folder, Registration, Window, WindowStatus

MOST_WINDOWS = 1000
#: A window is unresponsive when so many heartbeats in a row are missing.
MISSED_HEARTBEATS = 2.5
#: How many windows that are gone are remembered with the reason.
MOST_GONE = 200
#: Below the hub's address: where windows are boxes.
WINDOWS = "/vscode/windows"

Clock = Callable[[], float]
Refusal = Literal["unknown_window", "wrong_secret"]


class Remembered(Message):
    """A window as it is kept over a restart of the hub. What proves it is kept only as a digest."""

    id: str
    digest: str
    registration: Registration
    registered: float
    seen: float


@dataclass(slots=True)
class WindowEntry:
    """A window. `since` and `heard` are times of the clock, `registered` and `seen` seconds since 1970."""

    id: str
    digest: str
    registration: Registration
    registered: float
    seen: float
    #: When it registered, connected or went away last.
    since: float
    #: When it last proved that its main thread answers, or connected.
    heard: float
    connected: bool = False
    #: Whether it was ever connected.
    met: bool = False
    paused: bool = False
    #: Its main thread has not answered for too long.
    silent: bool = False
    #: The agent that works in it, and the name of its stay.
    agent: str = ""
    stay: str = ""
    #: It has said that it closes, and may come back.
    reloading: bool = False


@dataclass(frozen=True, slots=True)
class GoneWindow:
    """A window that was removed. With its secret it gets its id back until `until`."""

    why: str
    digest: str = ""
    until: float = 0.0


class RegistrationRefused(Exception):
    """A window may not connect."""

    def __init__(self, code: Refusal) -> None:
        super().__init__(code)
        self.code: Refusal = code


class Registry:
    """All windows, by id."""

    def __init__(
        self,
        *,
        key: str,
        heartbeat: float,
        grace: float,
        reload: float,
        clock: Clock,
        wall: Clock,
        most: int = MOST_WINDOWS,
    ) -> None:
        """`key`: the hub's; a window's secret is worth nothing under another one."""
        self.heartbeat_seconds = heartbeat
        self.grace_seconds = grace
        self._reload_seconds = reload
        self._key = key.encode()
        self._clock = clock
        self._wall = wall
        self._most = most
        self._entries: dict[str, WindowEntry] = {}
        self._gone: dict[str, GoneWindow] = {}

    # Coming and going.

    def register(
        self, said: Registration, known_id: str = "", known_secret: str = ""
    ) -> tuple[WindowEntry, str]:
        """Register a window, with its earlier id if it proves that; the entry and its new secret.

        Raises:
            WindowError: there are too many.
        """
        now = self._clock()
        entry = self._entries.get(known_id)
        secret = secrets.token_urlsafe(32)
        if entry is not None and self._proves(entry.digest, known_secret):
            entry.registration, entry.digest = said, self._digest(secret)
            entry.connected = entry.paused = entry.silent = False
            entry.since = now
            return entry, secret
        if len(self._entries) >= self._most:
            raise WindowError(
                f"The hub knows {self._most} windows already. Close some, or start another hub for this one."
            )
        entry = WindowEntry(
            id=known_id if self._returns(known_id, known_secret) else secrets.token_hex(8),
            digest=self._digest(secret),
            registration=said,
            registered=self._wall(),
            seen=self._wall(),
            since=now,
            heard=now,
        )
        self._entries[entry.id] = entry
        self._gone.pop(entry.id, None)
        return entry, secret

    def _returns(self, window_id: str, secret: str) -> bool:
        """Whether a window that was removed a moment ago proves that it is the one."""
        gone = self._gone.get(window_id)
        return gone is not None and self._clock() <= gone.until and self._proves(gone.digest, secret)

    def unanswered(self, entry: WindowEntry) -> list[WindowEntry]:
        """Earlier registrations of the same window that it never used, as it did not get the answer.

        One that was ever connected is not among them: only its secret proves that a window is the same.
        """
        same = entry.registration.instance
        return [
            one
            for one in self._entries.values()
            if one.registration.instance == same and one is not entry and not one.met
        ]

    def connect(self, window_id: str, secret: str) -> WindowEntry:
        """A window has opened its socket.

        Raises:
            Refused: it is unknown, or does not prove who it is.
        """
        entry = self._entries.get(window_id)
        if entry is None:
            raise RegistrationRefused("unknown_window")
        if not self._proves(entry.digest, secret):
            raise RegistrationRefused("wrong_secret")
        entry.connected = entry.met = True
        entry.silent = entry.reloading = False
        entry.since = entry.heard = self._clock()
        entry.seen = self._wall()
        return entry

    def disconnected(self, entry: WindowEntry, *, reloading: bool = False) -> None:
        entry.connected = False
        entry.reloading = reloading
        entry.since = self._clock()

    def changed(self, entry: WindowEntry, *, paused: bool, trusted: bool, folders: list[Folder]) -> None:
        entry.paused = paused
        entry.registration = structs.replace(entry.registration, trusted=trusted, folders=folders)

    def heartbeat(self, entry: WindowEntry) -> None:
        entry.heard = self._clock()
        entry.seen = self._wall()
        entry.silent = False

    def remove(self, entry: WindowEntry, why: str, *, may_return: bool = False) -> None:
        if self._entries.pop(entry.id, None) is not None:
            until = self._clock() + self._reload_seconds
            self._gone[entry.id] = GoneWindow(why, entry.digest, until) if may_return else GoneWindow(why)
            for oldest in list(self._gone)[:-MOST_GONE]:
                del self._gone[oldest]

    def look(self, late: float = 0.0) -> list[tuple[WindowEntry, str]]:
        """Windows that have been waited for long enough, and what there is to say of each.

        `late`: for how long the hub itself stood still. Windows could not be heard meanwhile.
        """
        now, found = self._clock(), []
        for entry in self._entries.values():
            entry.since, entry.heard = entry.since + late, entry.heard + late
            entry.silent = entry.connected and now > self._silent_from(entry)
            wait = self._reload_seconds if entry.reloading else self.grace_seconds
            if not entry.connected and now > entry.since + wait:
                limit = f"within {wait:g} s"
                why = f"went away and did not come back {limit}" if entry.met else f"did not connect {limit}"
                found.append((entry, f"It {why}."))
            elif entry.connected and now > self._silent_from(entry) + 2 * self.grace_seconds:
                found.append((entry, f"It did not answer for {now - entry.heard:.0f} s."))
        return found

    # What is known.

    def find(self, window_id: str) -> WindowEntry:
        """A window.

        Raises:
            NoSuchWindow: there is none; the text says what may have become of it.
        """
        entry = self._entries.get(window_id)
        if entry is None:
            gone = self._gone.get(window_id)
            if gone is not None:
                raise NoSuchWindow(f"The VS Code window {window_id!r} is gone. {gone.why}")
            raise NoSuchWindow(
                f"No VS Code window has the id {window_id!r}. GET /api/vscode/discover lists those there are,"
                " and in VS Code the command 'Glovebox: Connect' connects one."
            )
        return entry

    def proven(self, window_id: str, secret: str) -> WindowEntry:
        """A window that proves who it is.

        Raises:
            NoSuchWindow: it does not, or there is none.
        """
        entry = self.find(window_id)
        if not self._proves(entry.digest, secret):
            raise NoSuchWindow(f"No VS Code window has the id {window_id!r} and this secret. Register again.")
        return entry

    def entries(self) -> list[WindowEntry]:
        return list(self._entries.values())

    def status(self, entry: WindowEntry) -> WindowStatus:
        if not entry.connected:
            return "reloading" if entry.reloading else "away" if entry.met else "waiting"
        if entry.silent:
            return "unresponsive"
        return "paused" if entry.paused else "connected"

    def window(self, entry: WindowEntry) -> Window:
        said = entry.registration
        return Window(
            id=entry.id, name=said.name, folders=said.folders, vscode_version=said.vscode_version,
            extension_version=said.extension_version, capabilities=said.capabilities, trusted=said.trusted,
            app=said.app, remote=said.remote, pid=said.pid, status=self.status(entry),
            registered=entry.registered, seen=entry.seen, path=f"{WINDOWS}/{entry.id}",
            agent=entry.agent, stay=entry.stay,
        )  # fmt: skip

    # Over a restart.

    def remembered(self) -> list[Remembered]:
        names = Remembered.__struct_fields__
        return [Remembered(**{name: getattr(one, name) for name in names}) for one in self._entries.values()]

    def recall(self, kept: Iterable[Remembered]) -> None:
        """Take over what an earlier hub knew; the windows have the grace time to come back."""
        now = self._clock()
        for one in list(kept)[: self._most]:
            self._entries[one.id] = WindowEntry(**structs.asdict(one), since=now, heard=now, met=True)

    def _silent_from(self, entry: WindowEntry) -> float:
        return entry.heard + MISSED_HEARTBEATS * self.heartbeat_seconds

    def _digest(self, secret: str) -> str:
        return hmac.new(self._key, secret.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def _proves(self, digest: str, secret: str) -> bool:
        return hmac.compare_digest(digest, self._digest(secret))
