"""A box that is made of hands on a directory, in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

from glovebox import settings
from glovebox.box.box import Box
from glovebox.box.executor import current_call
from glovebox.box.startup import Startup
from glovebox.errors import WindowError
from glovebox.hub.window.plugin import WindowPlugin
from glovebox.hub.window_client import LIMIT, OrderRefused
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.window import ActionReport, Answer, Folder, Order, Window
from glovebox.server.app import create_app
from tests.hub.window_hands import No, WindowHands

AnswerT = TypeVar("AnswerT", bound=Answer)


class DirectoryHands:
    """Hands that work on real folders with a real bash, without a connection in between."""

    def __init__(self, *folders: Path) -> None:
        self.acting = WindowHands(list(folders))
        self.orders: list[Order] = []
        self.shown: list[ActionReport] = []
        self.agent = ""
        #: The ids of the actions that the orders belong to.
        self.actions: list[str] = []
        #: Called before an order is carried out; what it raises is what becomes of it.
        self.before: Callable[[Order], None] = lambda order: None
        #: What the user is asked before a command is run, until the test says what the decision is.
        self.question = ""
        self.decision: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: What is told in place of an answer.
        self.after: Callable[[Answer], Answer] = lambda answer: answer

    @property
    def window(self) -> Window:
        """The window."""
        folders = [Folder(name=path.name, path=str(path)) for path in self.acting.folders]
        return Window(
            id="w", name="project", folders=folders,
            vscode_version="1.100.0", extension_version="0.1.0", capabilities=[], trusted=True, app="",
            remote="", pid=0, status="connected", registered=0.0, seen=0.0, path="/vscode/windows/w",
            agent=self.agent,
        )  # fmt: skip

    async def do(
        self,
        order: Order,
        answer: type[AnswerT],
        *,
        limit: float | None = LIMIT,
        printed: Callable[[str], None] | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> AnswerT:
        """Carry out an order."""
        self.orders.append(order)
        call = current_call.get()
        self.actions.append(call.id if call else "")
        self.before(order)
        if self.question and waiting is not None:
            waiting(self.question)
            await asyncio.shield(self.decision)
            waiting("")
        loop = asyncio.get_running_loop()

        def tell(text: str) -> None:
            if printed is not None:
                loop.call_soon_threadsafe(printed, text)

        try:
            done = self.after(await self.acting.do(order, tell))
        except No as no:
            raise OrderRefused(no.code, str(no)) from no
        await asyncio.sleep(0)  # what was printed is heard before the end
        assert isinstance(done, answer), done
        return done

    def show(self, report: ActionReport) -> None:
        """Note it."""
        self.shown.append(report)

    def kinds(self) -> list[str]:
        """The kinds of orders so far."""
        return [type(order).__name__ for order in self.orders]


class Acting:
    """A box to ask for things."""

    def __init__(self, box: Box, hands: DirectoryHands, client: httpx.AsyncClient) -> None:
        self.box = box
        self.hands = hands
        self.client = client

    async def do(self, action: Action[ObservationT]) -> ObservationT:
        """What an action came to, which must not be an error."""
        answer = await self.box.executor.execute(action)
        assert not isinstance(answer, ErrorObservation), answer
        return answer

    async def refused(self, action: Action[Any]) -> ErrorObservation:
        """The error that an action came to."""
        answer = await self.box.executor.execute(action)
        assert isinstance(answer, ErrorObservation), answer
        return answer

    async def run(self, command: str, **fields: Any) -> CmdOutputObservation:
        """What a command came to."""
        return await self.do(CmdRunAction(command=command, **fields))

    async def output(self, command: str, **fields: Any) -> str:
        """The output of a command that must succeed."""
        ran = await self.run(command, **fields)
        assert ran.metadata.exit_code == 0, ran
        return ran.content


@contextlib.asynccontextmanager
async def acting(*folders: Path, silence: int = 1) -> AsyncIterator[Acting]:
    """A box that is made of hands on these folders."""
    hands = DirectoryHands(*folders)
    told = settings.load({"no_change_timeout_seconds": str(silence)}, {"SESSION_API_KEY": "k" * 32})
    box = Box(told, Startup(), only={"window": lambda context: WindowPlugin(context, hands)})
    async with box:
        box.begin()
        transport = httpx.ASGITransport(create_app(box))
        headers = {"X-Session-API-Key": "k" * 32}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=headers
        ) as client:
            try:
                yield Acting(box, hands, client)
            finally:
                await hands.acting.terminals.close()


def failing(code: Any, kind: type[Order], times: int = 1) -> Callable[[Order], None]:
    """Makes the next orders of a kind come to nothing."""
    left = [times]

    def fail(order: Order) -> None:
        if isinstance(order, kind) and left[0]:
            left[0] -= 1
            if isinstance(code, WindowError):
                raise code
            raise OrderRefused(code, f"because of {code}")

    return fail
