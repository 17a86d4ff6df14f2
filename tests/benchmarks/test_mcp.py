"""The measures of MCP see what really happened."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchmarks.competitors import Competitor, Unavailable
from benchmarks.dialects import Site
from benchmarks.load import LoadError, Outcome
from benchmarks.mcp import stdio_server
from benchmarks.mcp.calls import AT_ONCE, calls, converse, crowds, listings, operations
from benchmarks.mcp.client import EventSession, HttpSession, call, opened
from benchmarks.mcp.lives import measure_lives
from benchmarks.mcp.posting import ALONE, Entry, post, ready
from benchmarks.mcp.rounds import measure_further_lists
from benchmarks.mcp.tally import Tally
from benchmarks.openhands import OpenHands
from benchmarks.servers import Target
from benchmarks.terminal.box import fresh_box

from benchmarks import plan as plans

ROOT = Path(__file__).parent.parent.parent
PROGRAM = str(Path(stdio_server.__file__))
PLAN = plans.quick(frozenset(["mcp"])).mcp

#: From a request to the end of its answer; None for no answer.
Answers = Callable[[dict[str, Any]], dict[str, Any] | None]


def nothing(text: str) -> None:
    """Say it to nobody."""


class Peer(ThreadingHTTPServer):
    """A server of MCP over server-sent events that answers as it is told to."""

    request_queue_size = AT_ONCE + 8

    def __init__(self, answers: Answers) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.sessions: list[queue.SimpleQueue[bytes]] = []

    @property
    def site(self) -> Site:
        return Site(("127.0.0.1", self.server_port), "the-key", "/nowhere")


class Handler(BaseHTTPRequestHandler):
    """One connection to it."""

    server: Peer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if not self.is_allowed():
            return
        heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.server.sessions.append(heard)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.tell("endpoint", f"/messages?{len(self.server.sessions) - 1}".encode())
        self.chunk(b": still there\r\n\r\n")
        while data := heard.get():
            self.tell("message", data)

    def tell(self, name: str, data: bytes) -> None:
        event = f"event: {name}\r\ndata: ".encode() + data + b"\r\n\r\n"
        for piece in (event[:-3], event[-3:]):  # cut within its end
            self.chunk(piece)

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_allowed():
            return
        self.reply(202 if "/messages" in self.path else 200)
        if "id" in body:
            answer = self.server.answers(body)
            if answer is not None:
                said = {"jsonrpc": "2.0", "id": body["id"], **answer}
                self.server.sessions[int(self.path.partition("?")[2])].put(json.dumps(said).encode())

    def is_allowed(self) -> bool:
        given = self.headers["X-Session-API-Key"], self.headers["Authorization"]
        if given == ("the-key", "Bearer the-key"):
            return True
        self.reply(403)
        return False

    def reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


@contextmanager
def peer(answers: Answers = stdio_server.answer) -> Iterator[Peer]:
    with Peer(answers) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield server
        finally:
            for session in server.sessions:
                session.put(b"")
            server.shutdown()
            serving.join()


def text(said: str, **more: object) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": said}], **more}}


def on_calls(answer: Callable[[str], dict[str, Any] | None]) -> Answers:
    """Answer calls in this way, and everything else right."""

    def answers(message: dict[str, Any]) -> dict[str, Any] | None:
        is_call = message["method"] == "tools/call"
        return answer(message["params"]["arguments"]["text"]) if is_call else stdio_server.answer(message)

    return answers


def counted(outcome: Outcome) -> tuple[int, int, int]:
    return outcome.right, outcome.wrong, outcome.unanswered


@pytest.mark.parametrize(("kind", "ids"), [("echo", [1, 2, 3]), ("stuck", [1, 2]), ("mute", [])])
def test_the_measured_program_answers_as_its_kind_says(kind: str, ids: Sequence[int]) -> None:
    asked: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "é"}}},
    ]
    finished = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM, kind],
        input="".join(json.dumps(message) + "\n" for message in asked),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert finished.returncode == 0, finished.stderr
    said = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [message["id"] for message in said] == list(ids)
    if kind == "echo":
        assert said[2]["result"] == {"content": [{"type": "text", "text": "é"}]}


@pytest.mark.parametrize(
    "work", [operations(EventSession), calls(EventSession), listings], ids=["operations", "calls", "lists"]
)
def test_right_answers_are_timed(work: Callable[[Site, str, int], Outcome]) -> None:
    with peer() as server:
        outcome = converse(work, server.site, "word", 5)
    assert counted(outcome) == (5, 0, 0)
    assert 0 < sum(outcome.latencies) <= 1000 * outcome.seconds + 1e-6


@pytest.mark.parametrize(
    "answer",
    [
        text("another"),
        text("word 1", isError=True),
        {"result": {"content": [*text("word 1")["result"]["content"] * 2]}},
    ],
    ids=["another text", "an error", "twice"],
)
def test_only_the_text_of_a_call_is_a_right_answer_to_it(answer: dict[str, Any]) -> None:
    with peer(on_calls(lambda said: answer if said == "word 1" else text(said))) as server:
        outcome = converse(calls(EventSession), server.site, "word", 3)
    assert counted(outcome) == (2, 1, 0)
    assert "instead of 'word 1'" in outcome.example


def test_an_error_instead_of_a_result_is_a_missing_answer() -> None:
    with peer(on_calls(lambda said: {"error": {"code": -1, "message": "not today"}})) as server:
        outcome = converse(operations(EventSession), server.site, "word", 3)
    assert counted(outcome) == (0, 0, 1)
    assert "not today" in outcome.example


def test_of_many_calls_at_once_each_answer_is_judged() -> None:
    def answer(said: str) -> dict[str, Any]:
        if said.endswith(" 7"):
            return {"error": {"code": -1, "message": "not this one"}}
        return text("word 0 0" if said.endswith(" 9") else said)

    with peer(on_calls(answer)) as server:
        outcome = converse(crowds, server.site, "word", 2)
    assert counted(outcome) == (2 * (AT_ONCE - 2), 4, 0)
    assert outcome.per_second == outcome.right / outcome.seconds


def test_a_server_without_the_tools_of_the_list_is_not_measured() -> None:
    def none(message: dict[str, Any]) -> dict[str, Any]:
        return {"result": {"tools": []}} if message["method"] == "tools/list" else {"result": {}}

    with peer(none) as server, pytest.raises(Unavailable, match="tools/list: none instead of echo"):
        ready(server.site, ALONE)


def test_a_server_that_refuses_the_key_is_not_measured() -> None:
    with peer() as server, pytest.raises(Unavailable, match="not taken: HTTP 403"):
        post(Site(server.site.address, "another-key", "/nowhere"), ALONE)
    with peer() as server, pytest.raises(LoadError, match="no stream: HTTP 403"):
        EventSession(Site(server.site.address, "another-key", "/nowhere"))


def test_a_further_list_without_effect_is_seen() -> None:
    with peer() as server:
        target = Target("reference", server.site, OpenHands(server.site))
        (row,) = measure_further_lists([target], PLAN, Tally(nothing), nothing).rows
    assert row.cells["reference"].reason == "tools/list: echo instead of more0_echo, one_echo"


def test_a_server_that_falls_out_has_an_answer_missing() -> None:
    tally = Tally(nothing)
    with tally.excusing("reference"):
        tally.take("reference", "calls", Outcome(latencies=[1.0, 3.0], wrong=1))
        raise LoadError("gone")
    assert tally.spread("reference", "calls").values == (3.0, 3.0)
    assert (tally.wrong("reference").values, tally.wrong("reference").out_of) == ((2,), 4)
    assert tally.spread("reference", "others").reason == "gone"
    with pytest.raises(LoadError, match="gone"), tally.excusing("glovebox"):
        raise LoadError("gone")


class EndsAtOnce(Competitor):
    """A server that does not start."""

    name = "reference"

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        return ["sh", "-c", "echo no tools today; exit 1"]

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        return {}


def test_a_server_that_does_not_start_leaves_its_reason_in_the_table() -> None:
    with ExitStack() as stack:
        targets, found = measure_lives([EndsAtOnce()], PLAN, stack, Tally(nothing), nothing)
    assert targets == []
    assert {row.cells["reference"].reason for row in found.rows} == {"ended at start: no tools today"}


def test_a_box_that_was_given_no_list_has_no_tools_and_then_those_of_it_over_both_transports() -> None:
    with fresh_box() as box:
        with pytest.raises(LoadError, match="no stream: HTTP 404"):
            EventSession(box.site)
        assert ready(box.site, [Entry("one"), Entry("two")]) > 0
        for kind in (EventSession, HttpSession):
            with opened(box.site, kind) as session:
                assert call(session, "two_echo", "hello") == "hello"


def test_a_quick_run_finds_every_answer_right(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-reference", "--no-swerex"]
    finished = subprocess.run(
        [*command, "--only", "mcp", "--json", str(result)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(result.read_text())
    rows = {row["measure"]: row["cells"]["glovebox"] for row in report["rows"]}
    wrong = rows.pop("mcp: wrong or missing answers")
    assert wrong["values"] == [0]
    assert wrong["out_of"] > PLAN.rounds * (PLAN.crowds * AT_ONCE + 3 * PLAN.calls + 3 * PLAN.operations)
    limited = rows.pop("mcp: tools/list while two other servers of the list hang")
    assert limited["values"] or limited["reason"] == f"not within {PLAN.patience:.0f} s"
    assert not [measure for measure, cell in rows.items() if not cell["values"]], rows
    assert {aim["reached"] for aim in report["aims"]} <= {True, False}
