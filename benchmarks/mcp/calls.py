"""Conversations with a server: how long each takes, and whether it was answered right."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter

from benchmarks.dialects import Site, parsed
from benchmarks.load import LoadError, Outcome
from benchmarks.mcp.client import EventSession, Session, call, opened, said, tools
from benchmarks.mcp.posting import TOOL
from benchmarks.mcp.wire import Connection, request
from benchmarks.processes import in_child

#: Calls of one client that are under way at the same time.
AT_ONCE = 32

#: Seconds for all conversations of one kind in one round.
_LIMIT = 180.0

#: From a site, a word for this round and a number: so many conversations.
Work = Callable[[Site, str, int], Outcome]
Opener = Callable[[Site], Session]


def converse(work: Work, site: Site, word: str, count: int) -> Outcome:
    """Do it in a process of its own.

    Raises:
        LoadError: nothing at all can be said to the server.
    """

    def guarded() -> Outcome:
        try:
            return work(site, word, count)
        except OSError as error:
            raise LoadError(f"no answer: {error}") from error

    return in_child(guarded, LoadError, _LIMIT)


def listings(site: Site, word: str, count: int) -> Outcome:
    """Connect, initialize, ask for the tools, disconnect."""

    def listed(text: str) -> str:
        with opened(site, EventSession) as session:
            return text if tools(session) == [TOOL] else "other tools"

    return _one_by_one(listed, word, count)


def operations(kind: Opener, tool: str = TOOL) -> Work:
    """Connect, initialize, call, disconnect: as the contract's client does it for every call."""

    def work(site: Site, word: str, count: int) -> Outcome:
        def called(text: str) -> str:
            with opened(site, kind) as session:
                return call(session, tool, text)

        return _one_by_one(called, word, count)

    return work


def calls(kind: Opener, tool: str = TOOL) -> Work:
    """Call again and again in one session."""

    def work(site: Site, word: str, count: int) -> Outcome:
        with opened(site, kind) as session:
            return _one_by_one(lambda text: call(session, tool, text), word, count)

    return work


def crowds(site: Site, word: str, count: int) -> Outcome:
    """Many calls at once in one session, the next ones when all are answered."""
    outcome = Outcome()
    with opened(site, EventSession) as session:
        session.open(AT_ONCE)
        for turn in range(count):
            texts = [f"{word} {turn} {number}" for number in range(AT_ONCE)]
            asked = [("tools/call", {"name": TOOL, "arguments": {"text": text}}) for text in texts]
            began = perf_counter()
            try:
                answers = session.requests(asked)
            except (LoadError, OSError) as error:
                _missed(outcome, AT_ONCE, error)
                break
            took = perf_counter() - began
            for text, answer in zip(texts, answers, strict=True):
                _judge(outcome, text, said(answer.get("result", answer)), took)
            outcome.seconds += took
    return outcome


def actions(site: Site, word: str, count: int) -> Outcome:
    """Have the box call the tool, by the action `call_tool_mcp`, over one connection."""
    connection = Connection(site.address)

    def called(text: str) -> str:
        action = {"action": "call_tool_mcp", "args": {"name": TOOL, "arguments": {"text": text}}}
        body = json.dumps({"action": action}).encode()
        connection.send(request(site, "POST", "/execute_action", body))
        head = connection.head()
        return _observed(parsed(connection.body(head)))

    try:
        return _one_by_one(called, word, count)
    finally:
        connection.close()


def _observed(observation: object) -> str:
    """The text of an observation; of anything else, all of it."""
    match observation:
        case {"observation": "mcp", "content": str(content)}:
            return said(parsed(content.encode()))
    return json.dumps(observation)


def _one_by_one(ask: Callable[[str], str], word: str, count: int) -> Outcome:
    """Ask with another text each time; only the same text is a right answer."""
    outcome = Outcome()
    for turn in range(count):
        text = f"{word} {turn}"
        began = perf_counter()
        try:
            answer = ask(text)
        except (LoadError, OSError) as error:
            _missed(outcome, 1, error)
            break  # whatever follows would say the same, or wait as long
        took = perf_counter() - began
        _judge(outcome, text, answer, took)
        outcome.seconds += took
    return outcome


def _judge(outcome: Outcome, text: str, answer: str, took: float) -> None:
    if answer == text:
        outcome.latencies.append(1000 * took)
        return
    outcome.wrong += 1
    outcome.example = outcome.example or f"{answer[:200]!r} instead of {text!r}"


def _missed(outcome: Outcome, count: int, error: Exception) -> None:
    outcome.unanswered += count
    outcome.example = outcome.example or f"no answer: {error}"
