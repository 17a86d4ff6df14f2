"""A window at the other end of a socket: orders go out, reports come back, and breaks are bridged."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NoReturn, Protocol

import msgspec

from glovebox.box.executor import current_call
from glovebox.errors import (
    BadWindowAnswer,
    WindowError,
    WindowLeft,
    WindowLost,
    WindowPaused,
    WindowUnresponsive,
)
from glovebox.hub.window_client import LIMIT, AnswerT, OrderRefused
from glovebox.json_codec import convert
from glovebox.protocol.events import ActionWaiting
from glovebox.protocol.window import (
    ActionReport,
    Answer,
    Cancelled,
    Failed,
    Order,
    Ordered,
    Printed,
    Told,
    Waiting,
    Window,
)

log = logging.getLogger(__name__)

#: Orders that one window may have to carry out at a time.
MOST_ORDERS = 256
#: Actions that are reported to a window when it is back; the oldest are left out.
MOST_REPORTS = 200
#: How long a number may be missing among the reports on an order.
GAP_SECONDS = 5.0


class Peer(Protocol):
    """The connection to a window."""

    async def send(self, event: str, data: Any, acknowledged: Callable[..., None] | None = None) -> None:
        """Send something; it is not waited for until it arrives."""

    async def close(self) -> None: ...


class _Pending:
    """An order that is waited for."""

    def __init__(
        self,
        order: Order,
        answer: type[Answer],
        limit: float | None,
        printed: Callable[[str], None] | None,
        waiting: Callable[[str], None] | None,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.order = order
        self.answer = answer
        self.limit = limit
        self.printed = printed
        self.waiting = waiting
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        #: Runs while the window is connected.
        self.timeout = asyncio.timeout(None)
        self._connected = False
        #: The window has said that it has it.
        self.taken = False
        #: The number of the next report.
        self.next = 1
        self.gap: asyncio.TimerHandle | None = None
        #: The first half of a character whose other half comes with the next piece.
        self.half = ""
        #: What the window's user is asked before the order is carried out.
        self.question = ""
        #: The action that it is a part of.
        self.call = current_call.get()
        self.action = self.call.id if self.call else ""

    def wait(self, question: str) -> None:
        """The user is asked something, or has decided if that is empty: only then does the time limit run."""
        if self.outcome.done() or self.timeout.expired():
            return
        self.question = question
        self._restart_timeout()
        if self.waiting is not None:
            self.waiting(question)
        elif self.call is not None:
            self.call.tell(ActionWaiting, question=question)

    def fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def lose(self, what: str) -> None:
        words = f"{what} while it carried out an order ({_kind(self.order)})."
        effect = "Its user had not allowed it yet" if self.question else "Whether it took effect is not known"
        self.fail(WindowLost(f"{words} {effect}."))

    def start_timeout(self) -> None:
        self._connected = True
        self._restart_timeout()

    def stop_timeout(self) -> None:
        self._connected = False
        self._restart_timeout()

    def _restart_timeout(self) -> None:
        limit = self._patience() if self.question else self.limit
        runs = self._connected and limit is not None
        if not self.timeout.expired():
            self.timeout.reschedule(asyncio.get_running_loop().time() + (limit or 0.0) if runs else None)

    def _patience(self) -> float | None:
        """How long the user has for a decision: as long as the caller of the action waits for an answer."""
        call = self.call
        if call is None or call.timeout is None or self.waiting is not None:
            return None
        return max(call.started + call.timeout - time.monotonic(), 0.0)


class WindowLink:
    """The hands of one window (`Hands`), for as long as the hub knows it."""

    def __init__(self, window: Callable[[], Window]) -> None:
        self._window = window
        self._orders: dict[str, _Pending] = {}
        self._peer: Peer | None = None
        #: Whether the window has introduced itself on this connection; orders wait until then.
        self._met = False
        self._ended: Callable[[], WindowError] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        #: The newest report on each action that was not sent, or not acknowledged, on this connection.
        self._unsent: dict[str, ActionReport] = {}
        self._unacknowledged: dict[str, ActionReport] = {}
        #: How many orders were given, and how many of them came to nothing.
        self.given = self.failed = 0

    @property
    def window(self) -> Window:
        return self._window()

    @property
    def outstanding(self) -> int:
        return len(self._orders)

    async def do(
        self,
        order: Order,
        answer: type[AnswerT],
        *,
        limit: float | None = LIMIT,
        printed: Callable[[str], None] | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> AnswerT:
        self._check()
        pending = _Pending(order, answer, limit, printed, waiting)
        self._orders[pending.id] = pending
        self.given += 1
        try:
            async with pending.timeout:
                if self._met:
                    pending.start_timeout()
                    await self._send_reports()
                    await self._send(pending)
                result: AnswerT = await pending.outcome
                return result
        except TimeoutError:
            self._raise_unanswered(pending)
        finally:
            self._forget(pending)

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended()
        window = self.window
        if window.status == "unresponsive":
            raise WindowUnresponsive(
                f"The VS Code window {window.name!r} is connected, but does not answer. Its browser may be"
                " closed, or its main thread busy."
            )
        if window.status == "paused":
            raise WindowPaused(
                f"The user has paused the VS Code window {window.name!r}; 'Glovebox: Resume Agent' lets it"
                " go on."
            )
        if len(self._orders) >= MOST_ORDERS:
            raise WindowError(
                f"The VS Code window {window.name!r} has {MOST_ORDERS} orders to carry out already."
            )

    def _raise_unanswered(self, pending: _Pending) -> NoReturn:
        window, order, limit = self.window, pending.order, pending.limit or 0.0
        if pending.question:
            raise OrderRefused(
                "undecided",
                f"The user of the VS Code window {window.name!r} has not decided in time, and nothing was"
                f" done. The question was: {pending.question}",
            )
        state = "" if window.status == "connected" else f" It is {window.status}."
        raise WindowUnresponsive(
            f"The VS Code window {window.name!r} did not answer an order ({_kind(order)}) within {limit:g} s."
            + state
        )

    def _forget(self, pending: _Pending) -> None:
        del self._orders[pending.id]
        if pending.gap is not None:
            pending.gap.cancel()
        outcome = pending.outcome
        if not outcome.done() or outcome.cancelled() or outcome.exception() is not None:
            self.failed += 1
        if (not outcome.done() or outcome.cancelled()) and self._met:
            self._background(self._cancel(pending.id))

    # The connection.

    def connected(self, peer: Peer) -> None:
        self._peer, self._met = peer, False

    def disconnected(self) -> None:
        """There is none any more; orders wait for the next one."""
        self._peer, self._met = None, False
        for pending in self._orders.values():
            pending.stop_timeout()
        self._unsent = {**self._unacknowledged, **self._unsent}
        self._unacknowledged = {}

    async def hello(self, known: Iterable[str]) -> None:
        """The window names its orders: send those that it lacks, and cancel those that are not waited for."""
        held = frozenset(known)
        self._met = True
        await self._send_reports()
        for pending in list(self._orders.values()):
            pending.start_timeout()
            if pending.id in held:
                pending.taken = True
            elif pending.taken:
                pending.lose("The VS Code window was reloaded")
            else:
                await self._send(pending)
        for order_id in held - self._orders.keys():
            await self._cancel(order_id)

    def fail_taken(self, what: str) -> None:
        """The window ends: fail the orders that it has, and keep the others until it comes back."""
        for pending in list(self._orders.values()):
            if pending.taken:
                pending.lose(what)

    def end(self, kind: type[WindowError], why: str) -> None:
        self._ended = lambda: kind(why)
        self.disconnected()
        for pending in list(self._orders.values()):
            pending.fail(kind(why))

    async def _send(self, pending: _Pending) -> None:
        if self._peer is None:
            return
        ordered = Ordered(id=pending.id, order=pending.order, action=pending.action)  # type: ignore[arg-type]

        def acknowledged(taken: Any = None, *more: Any) -> None:
            if taken is True:
                pending.taken = True
            else:
                pending.fail(BadWindowAnswer(f"The window did not take an order ({_kind(pending.order)})."))

        await self._peer.send("order", msgspec.to_builtins(ordered, builtin_types=(bytes,)), acknowledged)

    async def _cancel(self, order_id: str) -> None:
        if self._peer is not None:
            await self._peer.send("cancel", msgspec.to_builtins(Cancelled(id=order_id)))

    def _background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Actions, which the window shows.

    def show(self, report: ActionReport) -> None:
        self._unsent.pop(report.id, None)
        self._unsent[report.id] = report
        while len(self._unsent) > MOST_REPORTS:
            del self._unsent[next(iter(self._unsent))]
        if self._met:
            self._background(self._send_reports())

    async def _send_reports(self) -> None:
        while self._peer is not None and self._unsent:
            report = self._unsent.pop(next(iter(self._unsent)))
            self._unacknowledged[report.id] = report
            await self._peer.send(
                "action", msgspec.to_builtins(report), functools.partial(self._acknowledged, report)
            )

    def _acknowledged(self, report: ActionReport, *answer: Any) -> None:
        if self._unacknowledged.get(report.id) is report:
            del self._unacknowledged[report.id]

    # Reports.

    def report(self, data: Any) -> bool:
        """Take a report on an order; false if one before it is missing."""
        try:
            report = convert(data, Told, builtin_types=(bytes,))
        except msgspec.ValidationError as error:
            self._not_understood(data, error)
            return True
        pending = self._orders.get(report.id)
        if pending is None or report.number < pending.next:
            return True  # it is not waited for any more, or came before
        if report.number > pending.next:
            self._miss(pending)
            return False
        pending.next += 1
        pending.taken = True
        if pending.gap is not None:
            pending.gap.cancel()
            pending.gap = None
        self._take(pending, report)
        return True

    def _take(self, pending: _Pending, report: Told) -> None:
        if isinstance(report, Printed):
            if pending.printed is not None and not pending.outcome.done():
                text, pending.half = _joined(pending.half + report.text)
                if text:
                    pending.printed(text)
        elif isinstance(report, Waiting):
            pending.wait(_joined(report.question)[0])
        elif isinstance(report, Failed):
            pending.fail(_failure(report))
        elif not isinstance(report.answer, pending.answer):
            pending.fail(
                BadWindowAnswer(
                    f"The window answered an order ({_kind(pending.order)}) with {_kind(report.answer)!r},"
                    " which is no answer to it."
                )
            )
        elif not pending.outcome.done():
            pending.outcome.set_result(report.answer)

    def _miss(self, pending: _Pending) -> None:
        """A report is missing. It may still come: the window sends it again."""
        if pending.gap is None:
            problem = BadWindowAnswer(
                f"The window did not tell everything of an order ({_kind(pending.order)}): number"
                f" {pending.next} is missing."
            )
            pending.gap = asyncio.get_running_loop().call_later(GAP_SECONDS, pending.fail, problem)

    def _not_understood(self, data: Any, error: msgspec.ValidationError) -> None:
        order_id = data.get("id") if isinstance(data, dict) else None
        pending = self._orders.get(order_id) if isinstance(order_id, str) else None
        if pending is None:
            log.warning("A window sent a report that cannot be understood: %s", error)
        else:
            words = f"What the window told of an order ({_kind(pending.order)}) cannot be understood: {error}"
            pending.fail(BadWindowAnswer(words))


def _failure(report: Failed) -> Exception:
    message = _joined(report.message)[0] or report.code
    if report.code == "paused":
        return WindowPaused(message)
    if report.code == "disconnected":
        return WindowLeft(message)
    return OrderRefused(report.code, message)


def _kind(said: Order | Answer) -> str:
    return str(said.__struct_config__.tag)


def _joined(text: str) -> tuple[str, str]:
    """Text with halves of characters put together, and a first half at its end, whose other half may come.

    JavaScript counts in halves, and its texts may be cut between two of them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        half = whole[-1:] if "\ud800" <= whole[-1:] <= "\udbff" else ""
        return whole.removesuffix(half).encode("utf-8", "replace").decode(), half
    return text, ""
