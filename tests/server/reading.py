"""Reading streams of a box as clients do."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx

from tests.support.running import RunningBox


class Message(NamedTuple):
    """A server-sent event."""

    event: str
    data: str
    id: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def messages(response: httpx.Response) -> Iterator[Message]:
    """The events of a stream, each as soon as it is there."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if not line and fields:
            yield Message(fields.get("event", ""), fields.get("data", ""), fields.get("id", ""))
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


def envelope(action: str, **args: Any) -> dict[str, Any]:
    return {"action": {"action": action, "args": args}}


@contextlib.contextmanager
def streaming(box: RunningBox, body: dict[str, Any]) -> Iterator[Iterator[Message]]:
    """The events of an action."""
    with box.client.stream("POST", "/execute_action_stream", json=body) as response:
        assert response.status_code == 200, response.read()
        yield messages(response)


def following(
    box: RunningBox, path: str, **headers: str
) -> contextlib.AbstractContextManager[httpx.Response]:
    """An endless answer."""
    return box.client.stream("GET", path, headers=headers)


def until(told: Iterator[Message], event: str, text: str = "") -> list[Message]:
    """Events up to and with one of that kind that contains the text."""
    seen: list[Message] = []
    for message in told:
        seen.append(message)
        if message.event == event and text in message.data:
            return seen
    raise AssertionError(f"no {event} with {text!r} among {seen}")


def joined(told: list[Message]) -> str:
    """The text of all output, which must be without gaps and repetitions."""
    outputs = [message.json for message in told if message.event == "output"]
    position = outputs[0]["offset"] if outputs else 0
    for output in outputs:
        assert output["offset"] == position, outputs
        position = output["end"]
    return "".join(output["text"] for output in outputs)


def started_command(box: RunningBox, command: str, **args: Any) -> str:
    """The id of a command that was begun, whether or not it has ended."""
    with streaming(box, envelope("run", command=command, **args)) as told:
        return str(next(told).json["id"])


def finished_command(box: RunningBox, command: str) -> str:
    """The id of a command that has ended."""
    answer = box.client.post("/execute_action", json={**envelope("run", command=command), "details": True})
    details = answer.json()["details"]
    assert details["command"]["state"] == "ended", details
    return str(details["action_id"])
