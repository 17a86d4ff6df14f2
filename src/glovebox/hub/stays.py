"""Agents that come to work in windows and leave again: whose shells there are, and who is asked."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from glovebox.errors import GloveboxError, WindowError, WindowRefused
from glovebox.http.requests import InvalidParameter
from glovebox.hub.window_client import LIMIT, OrderRefused
from glovebox.protocol.window import Arrival, Arrive, Arrived, Depart, Departure, Done

if TYPE_CHECKING:
    from glovebox.hub.link import WindowLink
    from glovebox.hub.windows import OpenWindow, Windows

log = logging.getLogger(__name__)

#: The name of an agent that has none.
ANONYMOUS = "An agent"
LONGEST_NAME = 200
LONGEST_QUESTION = 3600.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DEPART_LIMIT = 10.0


class Stay:
    """The time that an agent works in a window, until the last of its members has left."""

    def __init__(self, said: Arrival) -> None:
        self.agent = said.agent or ANONYMOUS
        self.name = said.stay
        self.env = said.env
        #: The names of the agents that share the shells: the first, and those without a name of their own.
        self.members = {said.stay}

    def order(self, *, ask: bool = False) -> Arrive:
        return Arrive(agent=self.agent, stay=self.name, ask=ask, env=self.env)

    async def renew(self, link: WindowLink) -> None:
        """Announce the agent to a window that has connected again."""
        await _tell(link, self.order())


class Stays:
    """The stays in all windows of a hub."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tasks: set[asyncio.Task[None]] = set()

    async def arrive(self, said: Arrival) -> Arrived:
        """Let an agent into a window. Cancelling this withdraws the questions.

        Raises:
            InvalidParameter: what it says of itself cannot be.
            NoSuchWindow: there is no window of that id.
            WindowRefused: the users said no, or nothing.
            WindowError: the window cannot be asked.
        """
        _check(said)
        windows = [self._windows.find(window_id) for window_id in dict.fromkeys(said.windows)]
        first = windows[0]
        if len(windows) == 1 and not said.ask and self._joins(first, said):
            return Arrived(window=self._windows.described(first), fresh=False)
        ask = said.ask or (first.stay is not None and first.box.is_busy)
        try:
            async with asyncio.timeout(said.seconds if ask else None):
                window = await self._first_to_allow(windows, Stay(said), ask=ask)
        except TimeoutError:
            raise WindowRefused(_unanswered(said, windows)) from None
        return Arrived(window=self._windows.described(window), fresh=True)

    async def depart(self, window_id: str, said: Departure) -> None:
        """An agent leaves. One that is not there has left already.

        With the last one the shells end, and those of an agent with a name are closed at once. Others can be
        read in the window until the next agent comes.

        Raises:
            NoSuchWindow: there is no such window.
        """
        window = self._windows.find(window_id)
        stay = window.stay
        if stay is not None:
            if said.stay not in stay.members:
                return
            stay.members.discard(said.stay)
            if stay.members:
                return
        self._set(window, None)
        await window.box.end_sessions()
        if stay is None or stay.agent != ANONYMOUS:
            await _tell(window.link, Depart(stay=stay.name if stay else said.stay))
        log.info("%s has left the window %s", stay.agent if stay else ANONYMOUS, window)

    def _joins(self, window: OpenWindow, said: Arrival) -> bool:
        """Whether the agent shares the shells that there are: it returns, or has no name of its own."""
        if window.stay is None or (said.agent and said.stay not in window.stay.members):
            return False
        window.stay.members.add(said.stay)
        return True

    async def _first_to_allow(self, windows: list[OpenWindow], stay: Stay, *, ask: bool) -> OpenWindow:
        asked = {asyncio.create_task(_enter(window, stay, ask=ask)): window for window in windows}
        pending = set(asked)
        winner: asyncio.Task[None] | None = None
        try:
            while pending and winner is None:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                winner = next((task for task in done if task.exception() is None), None)
            if winner is None:
                raise _refusal(stay, {asked[task]: task.exception() for task in asked})
            self._set(asked[winner], stay)
        finally:
            self._withdraw({task: window for task, window in asked.items() if task is not winner}, stay)
        await asked[winner].box.end_sessions()
        log.info("%s works in the window %s", stay.agent, asked[winner])
        return asked[winner]

    def _withdraw(self, asked: Mapping[asyncio.Task[None], OpenWindow], stay: Stay) -> None:
        """Take a question back, also where it has just been answered."""
        for task, window in asked.items():
            if task.cancel() or task.cancelled() or task.exception() is None:
                leaving = asyncio.create_task(_tell(window.link, Depart(stay=stay.name)))
                self._tasks.add(leaving)
                leaving.add_done_callback(self._tasks.discard)

    def _set(self, window: OpenWindow, stay: Stay | None) -> None:
        window.stay = stay
        window.entry.agent, window.entry.stay = (stay.agent, stay.name) if stay else ("", "")


async def _enter(window: OpenWindow, stay: Stay, *, ask: bool) -> None:
    if "arrive" in window.link.window.capabilities:
        await window.link.do(stay.order(ask=ask), Done, limit=None if ask else LIMIT)
    elif ask:
        raise WindowError("Its extension is too old to ask its user: install the present one.")


async def _tell(link: WindowLink, order: Arrive | Depart) -> None:
    """Give an order whose failure changes nothing here."""
    if "depart" not in link.window.capabilities:
        return
    try:
        await link.do(order, Done, limit=_DEPART_LIMIT)
    except (WindowError, OrderRefused) as error:
        log.info("The VS Code window %r was not told: %s", link.window.name, error)


def _refusal(stay: Stay, errors: Mapping[OpenWindow, BaseException | None]) -> GloveboxError:
    """Why no window can be used."""
    (first, *others) = errors.values()
    if not others and isinstance(first, WindowError):
        return first
    reasons = "; ".join(f"{window.entry.registration.name}: {error}" for window, error in errors.items())
    return WindowRefused(f"{stay.agent} was not allowed to work in a VS Code window. {reasons}")


def _unanswered(said: Arrival, windows: list[OpenWindow]) -> str:
    names = ", ".join(window.entry.registration.name for window in windows)
    return (
        f"Nobody answered within {said.seconds:g} s whether {said.agent or ANONYMOUS} may work in one of the "
        f"VS Code windows: {names}. Look for the question in the window, and start again."
    )


def _check(said: Arrival) -> None:
    name = f"It should have 1 to {LONGEST_NAME} printable characters"
    rules = (
        ("stay", 0 < len(said.stay) <= LONGEST_NAME and said.stay.isprintable(), name),
        ("agent", len(said.agent) <= LONGEST_NAME and said.agent.isprintable(), name),
        ("windows", bool(said.windows), "At least one window should be named"),
        ("ask", said.ask or len(said.windows) < 2, "More than one window can only be asked"),
        ("seconds", 0 < said.seconds <= LONGEST_QUESTION, f"It should be at most {LONGEST_QUESTION:g}"),
        ("env", all(map(_VARIABLE.fullmatch, said.env)), "Its names should be names of variables"),
        ("env", not any("\0" in value for value in said.env.values()), "Its values should be text"),
    )
    for field, holds, problem in rules:
        if not holds:
            raise InvalidParameter("value_error", ("body", field), problem, None)
