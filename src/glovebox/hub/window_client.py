"""The seam between a box and the VS Code window that carries out its orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from glovebox.protocol.window import ActionReport, Answer, FailureCode, Order, Window

AnswerT = TypeVar("AnswerT", bound=Answer)

#: Seconds that a window has for an order that is no command.
LIMIT = 30.0


class OrderRefused(Exception):
    """The window says no, or that it did not work; the text is for the caller."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Hands(Protocol):
    """A window that carries out orders. A break of its connection is waited for, up to the grace time."""

    @property
    def window(self) -> Window:
        """The window, as it is now."""

    async def do(
        self,
        order: Order,
        answer: type[AnswerT],
        *,
        limit: float | None = LIMIT,
        printed: Callable[[str], None] | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> AnswerT:
        """What an order came to; `printed` is called with its output. Cancelling it cancels the order.

        While the window's user is asked whether it may be carried out, the time limit does not run. `waiting`
        is called with the question, and with an empty text after the decision; by default it is an event of
        the action.

        Raises:
            Refused: the window says no.
            WindowError: it cannot be asked, is lost, did not answer within `limit`, or makes no sense.
        """

    def show(self, report: ActionReport) -> None:
        """Have the window show an action; one that cannot be sent now is sent with the next connection."""
