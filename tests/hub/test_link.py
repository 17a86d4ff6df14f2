"""Orders and what is told of them, over connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

from glovebox.box.events import EventLog
from glovebox.box.executor import Call, Executor
from glovebox.errors import (
    BadWindowAnswer,
    WindowError,
    WindowLeft,
    WindowLost,
    WindowPaused,
    WindowUnresponsive,
)
from glovebox.hub import link as links
from glovebox.hub.link import MOST_ORDERS, MOST_REPORTS, WindowLink
from glovebox.hub.window_client import OrderRefused
from glovebox.protocol.actions import CmdRunAction, FileWriteAction
from glovebox.protocol.events import ActionWaiting
from glovebox.protocol.observations import CmdOutputObservation, FileWriteObservation
from glovebox.protocol.window import (
    ActionReport,
    Content,
    Done,
    EndSession,
    PathInfo,
    Read,
    Run,
    RunEnded,
    Stat,
    Window,
    WindowStatus,
    Write,
    Written,
)
from tests.support.waiting import LIMIT


class Wire:
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.actions: list[dict[str, Any]] = []
        self.seen: list[Callable[..., None]] = []
        self.acknowledge: list[Callable[..., None]] = []
        self.closed = False
        self._news = asyncio.Event()

    async def send(self, event: str, data: Any, acknowledged: Callable[..., None] | None = None) -> None:
        """Note it."""
        if event == "order":
            assert acknowledged is not None
            self.orders.append(data)
            self.acknowledge.append(acknowledged)
        elif event == "action":
            assert acknowledged is not None
            self.actions.append(data)
            self.seen.append(acknowledged)
        else:
            self.cancelled.append(data["id"])
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was sent is as it should be."""
        while not condition():
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), LIMIT)

    async def close(self) -> None:
        """Note it."""
        self.closed = True

    @property
    def last(self) -> str:
        """The id of the last order."""
        order_id: str = self.orders[-1]["id"]
        return order_id


class Bench:
    """A link with a window that is what the test says."""

    def __init__(self) -> None:
        self.status: WindowStatus = "connected"
        self.link = WindowLink(self.window)

    def window(self) -> Window:
        """The window."""
        return Window(
            id="w", name="project", folders=[], vscode_version="", extension_version="", capabilities=[],
            trusted=True, app="", remote="", pid=0, status=self.status, registered=0, seen=0, path="/w",
        )  # fmt: skip

    async def connect(self, *known: str) -> Wire:
        """A new connection, on which the window has said hello."""
        wire = Wire()
        self.link.connected(wire)
        await self.link.hello(known)
        return wire


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def sent(wire: Wire, count: int = 1) -> None:
    """Wait until so many orders have gone out."""
    await wire.until(lambda: len(wire.orders) >= count)


def begin(work: Awaitable[Any]) -> asyncio.Future[Any]:
    return asyncio.ensure_future(work)


def told(order_id: str, number: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "id": order_id, "number": number, **fields}


def done(order_id: str, number: int = 1) -> dict[str, Any]:
    return told(order_id, number, "succeeded", answer={"kind": "done"})


ENDED = {"kind": "run_ended", "exit_code": 0, "cwd": "/"}
RUN = Run(session="main", command="make")


async def test_an_order_is_answered_and_bytes_stay_bytes(bench: Bench) -> None:
    wire = await bench.connect()
    writing = begin(bench.link.do(Write(path="/a", data=b"\xff\0"), Written))
    await sent(wire)
    assert wire.orders[0]["order"] == {
        "kind": "write", "path": "/a", "data": b"\xff\0", "expected": "", "exclusive": False,
    }  # fmt: skip
    answer = {"kind": "written", "created": True}
    assert bench.link.report(told(wire.last, 1, "succeeded", answer=answer)) is True
    assert await writing == Written(created=True)

    reading = begin(bench.link.do(Read(path="/a"), Content))
    await sent(wire, 2)
    answer = {"kind": "content", "data": b"\xff\0", "size": 2}
    bench.link.report(told(wire.last, 1, "succeeded", answer=answer))
    assert (await reading).data == b"\xff\0"
    assert (bench.link.given, bench.link.failed, bench.link.outstanding) == (2, 0, 0)


async def test_what_is_told_twice_is_heard_once_and_a_gap_is_refused_until_it_is_filled(bench: Bench) -> None:
    wire = await bench.connect()
    heard: list[str] = []
    running = begin(bench.link.do(RUN, RunEnded, limit=None, printed=heard.append))
    await sent(wire)
    first, second = told(wire.last, 1, "printed", text="a"), told(wire.last, 2, "printed", text="b")
    assert bench.link.report(second) is False
    assert bench.link.report(first) is True
    assert bench.link.report(first) is True
    assert bench.link.report(second) is True
    assert bench.link.report(told(wire.last, 3, "succeeded", answer=ENDED)) is True
    assert (await running).exit_code == 0
    assert heard == ["a", "b"]


async def test_a_gap_that_stays_is_an_answer_that_makes_no_sense(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "GAP_SECONDS", 0.01)
    wire = await bench.connect()
    running = begin(bench.link.do(RUN, RunEnded, limit=None))
    await sent(wire)
    assert bench.link.report(told(wire.last, 2, "succeeded", answer=ENDED)) is False
    with pytest.raises(BadWindowAnswer, match="number 1 is missing"):
        await asyncio.wait_for(running, LIMIT)


@pytest.mark.parametrize("limit", [0.05, None])
async def test_the_time_limit_does_not_run_while_the_user_is_asked(bench: Bench, limit: float | None) -> None:
    wire = await bench.connect()
    asked: list[str] = []
    writing = begin(bench.link.do(Write(path="/a", data=b""), Written, limit=limit, waiting=asked.append))
    await sent(wire)
    assert bench.link.report(told(wire.last, 1, "waiting", question="May it?")) is True
    await asyncio.sleep(0.2)
    assert not writing.done()
    bench.link.report(told(wire.last, 2, "waiting", question=""))
    bench.link.report(told(wire.last, 3, "succeeded", answer={"kind": "written", "created": True}))
    assert (await writing).created
    assert asked == ["May it?", ""]


async def test_the_time_limit_runs_after_the_decision(bench: Bench) -> None:
    wire = await bench.connect()
    writing = begin(bench.link.do(Write(path="/a", data=b""), Written, limit=0.05))
    await sent(wire)
    bench.link.report(told(wire.last, 1, "waiting", question="May it?"))
    bench.link.report(told(wire.last, 2, "waiting", question=""))
    with pytest.raises(WindowUnresponsive):
        await asyncio.wait_for(writing, LIMIT)


async def test_an_action_whose_user_does_not_decide_in_time_is_withdrawn_and_has_events(
    bench: Bench,
) -> None:
    wire = await bench.connect()
    refusals: list[str] = []

    async def handle(action: FileWriteAction, call: Call) -> FileWriteObservation:
        with pytest.raises(OrderRefused, match="has not decided in time, and nothing was done") as refused:
            await bench.link.do(Write(path="/a", data=b""), Written)
        refusals.append(refused.value.code)
        return FileWriteObservation(content="", path="/a")

    executor = Executor([handle], EventLog())
    acting = begin(executor.execute(FileWriteAction(path="/a", content="", timeout=0.3)))
    await sent(wire)
    bench.link.report(told(wire.last, 1, "waiting", question="May it?"))
    await asyncio.wait_for(acting, LIMIT)
    assert refusals == ["undecided"]
    await wire.until(lambda: wire.cancelled == [wire.last])
    (event,) = (one for one in executor.events.since(0) if isinstance(one, ActionWaiting))
    assert (event.question, event.action_id) == ("May it?", wire.orders[0]["action"])


async def test_halves_of_characters_are_put_together(bench: Bench) -> None:
    wire = await bench.connect()
    heard: list[str] = []
    running = begin(bench.link.do(RUN, RunEnded, printed=heard.append))
    await sent(wire)
    for number, text in enumerate(["a\ud83d", "\ude00b", "\udc00!"], 1):
        bench.link.report(told(wire.last, number, "printed", text=text))
    bench.link.report(told(wire.last, 4, "succeeded", answer=ENDED))
    await running
    assert heard == ["a", "😀b", "?!"]


async def test_an_order_waits_for_the_first_words_of_a_window(bench: Bench) -> None:
    waiting = begin(bench.link.do(EndSession(session="a"), Done))
    wire = Wire()
    bench.link.connected(wire)
    await asyncio.sleep(0)
    assert wire.orders == []
    await bench.link.hello([])
    bench.link.report(done(wire.last))
    assert await waiting == Done()


async def test_an_order_that_nobody_has_acknowledged_is_given_again(bench: Bench) -> None:
    first = await bench.connect()
    running = begin(bench.link.do(RUN, RunEnded))
    await sent(first)
    bench.link.disconnected()
    second = await bench.connect()
    assert second.orders == first.orders
    bench.link.report(told(second.last, 1, "succeeded", answer=ENDED))
    assert (await running).exit_code == 0


async def test_an_order_that_the_window_has_is_not_given_again(bench: Bench) -> None:
    first = await bench.connect()
    running = begin(bench.link.do(RUN, RunEnded))
    await sent(first)
    second = await bench.connect(first.last)
    assert second.orders == []
    bench.link.report(told(first.last, 1, "succeeded", answer=ENDED))
    assert (await running).exit_code == 0


async def test_an_order_that_a_reloaded_window_has_forgotten_is_lost(bench: Bench) -> None:
    first = await bench.connect()
    running = begin(bench.link.do(RUN, RunEnded))
    await sent(first)
    first.acknowledge[0](True)
    await bench.connect()
    with pytest.raises(WindowLost, match="was reloaded while it carried out an order"):
        await running


async def test_a_window_is_told_of_orders_that_nobody_waits_for_any_more(bench: Bench) -> None:
    wire = await bench.connect("from-before")
    assert wire.cancelled == ["from-before"]
    running = begin(bench.link.do(RUN, RunEnded))
    await sent(wire)
    running.cancel()
    await wire.until(lambda: len(wire.cancelled) == 2)
    assert wire.cancelled[1] == wire.last
    assert bench.link.report(told(wire.last, 1, "succeeded", answer=ENDED)) is True


async def test_a_window_that_never_answers_meets_the_limit(bench: Bench) -> None:
    wire = await bench.connect()
    with pytest.raises(WindowUnresponsive, match=r"did not answer an order \(stat\) within 0.01 s"):
        await bench.link.do(Stat(path="/a"), PathInfo, limit=0.01)
    await wire.until(lambda: wire.cancelled == [wire.last])
    assert bench.link.outstanding == 0


def malformed() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "kind", {"kind": "shrugged"}
    yield "answer", {"kind": "succeeded", "answer": {"kind": "riddle"}}
    yield "wrong answer", {"kind": "succeeded", "answer": {"kind": "done"}}
    yield "fields", {"kind": "succeeded", "answer": {"kind": "path_info", "exists": "perhaps"}}
    yield "number", {"kind": "printed", "number": "one", "text": ""}
    yield "text", {"kind": "printed", "text": 7}
    yield "code", {"kind": "failed", "code": "mood", "message": ""}
    yield "nothing", {}


@pytest.mark.parametrize("what", [one for _, one in malformed()], ids=[name for name, _ in malformed()])
async def test_an_answer_that_makes_no_sense_is_an_error(bench: Bench, what: dict[str, Any]) -> None:
    wire = await bench.connect()
    asking = begin(bench.link.do(Stat(path="/a"), PathInfo))
    await sent(wire)
    assert bench.link.report({"id": wire.last, "number": 1, **what}) is True
    with pytest.raises(BadWindowAnswer):
        await asking


@pytest.mark.parametrize("data", [None, 7, "told", [], {"id": 7}, {"id": "unknown", "number": 1}])
async def test_what_belongs_to_no_order_is_let_go(bench: Bench, data: Any) -> None:
    await bench.connect()
    assert bench.link.report(data) is True


@pytest.mark.parametrize(
    ("code", "error"), [("paused", WindowPaused), ("disconnected", WindowLeft), ("not_found", OrderRefused)]
)
async def test_a_window_says_why_it_does_not(bench: Bench, code: str, error: type[Exception]) -> None:
    wire = await bench.connect()
    asking = begin(bench.link.do(Stat(path="/a"), PathInfo))
    await sent(wire)
    bench.link.report(told(wire.last, 1, "failed", code=code, message="For this reason."))
    with pytest.raises(error, match=r"For this reason\.") as caught:
        await asking
    if isinstance(caught.value, OrderRefused):
        assert caught.value.code == code


async def test_an_order_that_a_window_does_not_take_is_an_error(bench: Bench) -> None:
    wire = await bench.connect()
    asking = begin(bench.link.do(Stat(path="/a"), PathInfo))
    await sent(wire)
    wire.acknowledge[0](False)
    with pytest.raises(BadWindowAnswer, match="did not take"):
        await asking


@pytest.mark.parametrize(
    ("status", "error"), [("unresponsive", WindowUnresponsive), ("paused", WindowPaused)]
)
async def test_a_window_that_cannot_be_asked_is_not_asked(
    bench: Bench, status: WindowStatus, error: type[WindowError]
) -> None:
    wire = await bench.connect()
    bench.status = status
    with pytest.raises(error, match="project"):
        await bench.link.do(Stat(path="/a"), PathInfo)
    assert wire.orders == []


async def test_orders_of_a_window_that_is_gone_fail_those_to_come_too(bench: Bench) -> None:
    waiting = begin(bench.link.do(RUN, RunEnded, limit=None))
    await asyncio.sleep(0)
    bench.link.end(WindowLost, "It went away.")
    with pytest.raises(WindowLost, match="It went away"):
        await waiting
    with pytest.raises(WindowLost, match="It went away"):
        await bench.link.do(RUN, RunEnded)


async def test_there_is_a_bound_for_orders_under_way(bench: Bench) -> None:
    waiting = [begin(bench.link.do(Stat(path="/a"), PathInfo)) for _ in range(MOST_ORDERS)]
    await asyncio.sleep(0)
    with pytest.raises(WindowError, match="orders to carry out already"):
        await bench.link.do(Stat(path="/a"), PathInfo)
    wire = await bench.connect()
    assert len({msgspec.json.encode(order["id"]) for order in wire.orders}) == MOST_ORDERS
    bench.link.end(WindowLeft, "")
    assert {type(one) for one in await asyncio.gather(*waiting, return_exceptions=True)} == {WindowLeft}


def report(action_id: str, state: Any = "started") -> ActionReport:
    return ActionReport(id=action_id, kind="run", summary="make", agent="", state=state)


def states(wire: Wire) -> list[tuple[str, str]]:
    return [(one["id"], one["state"]) for one in wire.actions]


async def test_an_action_is_shown_before_its_orders_which_carry_its_id(bench: Bench) -> None:
    wire = await bench.connect()

    async def handler(action: CmdRunAction, call: Call) -> CmdOutputObservation:
        bench.link.show(report(call.id))
        await asyncio.create_task(bench.link.do(EndSession(session="main"), Done))
        return CmdOutputObservation(content="", command="")

    executor = Executor([handler], EventLog())
    running = begin(executor.execute(CmdRunAction(command="make"), executor.call("a1")))
    await sent(wire)
    assert states(wire) == [("a1", "started")]
    assert wire.orders[0]["action"] == "a1"
    bench.link.report(done(wire.last))
    await running
    begin(bench.link.do(EndSession(session="main"), Done))
    await sent(wire, 2)
    assert wire.orders[1]["action"] == ""


async def test_reports_of_actions_are_bridged_over_a_break_and_acknowledged_ones_are_not_sent_again(
    bench: Bench,
) -> None:
    wire = await bench.connect()
    for name in ("heard", "unheard"):
        bench.link.show(report(name))
    await wire.until(lambda: len(wire.actions) == 2)
    wire.seen[0](True)
    bench.link.disconnected()
    bench.link.show(report("heard", "succeeded"))
    bench.link.show(report("new"))
    bench.link.show(report("new", "failed"))
    again = await bench.connect()
    assert states(again) == [("unheard", "started"), ("heard", "succeeded"), ("new", "failed")]
    for seen in again.seen:
        seen(True)
    bench.link.disconnected()
    assert states(await bench.connect()) == []


@pytest.mark.attack
async def test_reports_for_a_window_that_is_away_are_bounded(bench: Bench) -> None:
    for number in range(2 * MOST_REPORTS):
        bench.link.show(report(str(number)))
    wire = await bench.connect()
    assert [one["id"] for one in wire.actions] == [str(n) for n in range(MOST_REPORTS, 2 * MOST_REPORTS)]
