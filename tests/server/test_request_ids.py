"""The middleware by itself behind a real server, and a box with it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import zipfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Scope
from starlette.websockets import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from glovebox import logs, tracing
from glovebox.box.threads import Threads
from glovebox.http.response_headers import RequestIds
from tests.server.serving import serving
from tests.support.running import RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT

log = logging.getLogger(__name__)
ID = "X-Request-ID"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def told(request: Request) -> Response:
    """Says what it knows, from a task that the request made."""

    async def look() -> tuple[str, str]:
        return tracing.request_id.get(), tracing.traceparent.get()

    return PlainTextResponse(" ".join(await asyncio.create_task(look())))


async def stream(request: Request) -> Response:
    async def pieces() -> AsyncGenerator[str, None]:
        yield tracing.request_id.get()

    return StreamingResponse(pieces())


async def broken(request: Request) -> Response:
    raise LookupError("not foreseen")


async def threaded(request: Request) -> Response:
    threads: Threads = request.app.state.threads
    await threads.run(log.warning, "from a thread")
    return PlainTextResponse("")


@pytest.fixture
def app() -> Iterator[ASGIApp]:
    inner = Starlette(
        routes=[
            Route("/told", told),
            Route("/stream", stream),
            Route("/broken", broken),
            Route("/threaded", threaded),
        ]
    )
    inner.state.threads = Threads("test", 2)
    yield RequestIds(inner)
    inner.state.threads.close()


@pytest.fixture
def client(app: ASGIApp) -> Iterator[httpx.Client]:
    with (
        serving(app) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=LIMIT) as client,
    ):
        yield client


@pytest.fixture
def log_file() -> Iterator[io.StringIO]:
    """What is logged, as JSON."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure(level="INFO", as_json=True)
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    written = io.StringIO()
    handler.setStream(written)
    yield written
    root.handlers[:], root.level = before[0], before[1]


def line_of(logger: str, written: io.StringIO) -> dict[str, Any]:
    """The line that a logger writes, perhaps after the answer was sent."""

    def lines() -> list[dict[str, Any]]:
        whole = written.getvalue().split("\n")[:-1]
        return [line for line in map(json.loads, whole) if line["logger"] == logger]

    wait_until(lambda: bool(lines()), what=f"a line of {logger}")
    return lines()[0]


def test_the_id_of_the_caller_is_kept_and_told(client: httpx.Client) -> None:
    for given in ("a", "Req_1.2:3-4", "x" * 128):
        answer = client.get("/told", headers={ID: given})
        assert answer.headers.get_list(ID) == [given]
        assert answer.text.split() == [given]


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", "a/b", "ä", 'a"b', "a\tb"])
def test_an_id_that_could_not_stand_in_a_log_line_is_replaced(client: httpx.Client, given: str) -> None:
    answer = client.get("/told", headers={ID.encode(): given.encode()})
    assert answer.headers[ID] not in ("", given)
    assert answer.text.strip() == answer.headers[ID]


def test_every_request_on_a_connection_has_an_id_of_its_own(client: httpx.Client) -> None:
    ids = [
        client.get("/told", headers={ID: "mine"} if number == 2 else {}).headers[ID] for number in range(5)
    ]
    assert ids[2] == "mine"
    assert len(set(ids)) == 5


def test_a_trace_of_one_request_does_not_reach_the_next(app: ASGIApp) -> None:
    first = f"GET /told HTTP/1.1\r\nHost: a\r\nX-Request-ID: a\r\ntraceparent: {PARENT}\r\n\r\n"
    second = "GET /told HTTP/1.1\r\nHost: a\r\nX-Request-ID: b\r\nConnection: close\r\n\r\n"
    with serving(app) as port, socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
        connection.sendall((first + second).encode())  # the second is begun by the end of the first
        with connection.makefile("r", newline="\r\n") as answers:
            bodies = [line for line in answers.read().split("\r\n") if line.startswith(("a ", "b "))]
    assert [body.removesuffix("HTTP/1.1 200 OK") for body in bodies] == [f"a {PARENT}", "b "]


def test_streams_refusals_and_unforeseen_errors_have_it_too(client: httpx.Client) -> None:
    answer = client.get("/stream", headers={ID: "s"})
    assert (answer.headers[ID], answer.text) == ("s", "s")
    assert client.get("/nope", headers={ID: "n"}).headers[ID] == "n"
    answer = client.get("/broken", headers={ID: "b"})
    assert (answer.status_code, answer.headers[ID]) == (500, "b")


def test_the_servers_own_line_about_a_failure_names_the_request(
    log_file: io.StringIO, client: httpx.Client
) -> None:
    client.get("/broken", headers={ID: "b"})
    line = line_of("uvicorn.error", log_file)
    assert "LookupError: not foreseen" in line["traceback"]
    assert line["request_id"] == "b"


def test_a_line_from_a_thread_that_works_for_the_request_names_it(
    log_file: io.StringIO, client: httpx.Client
) -> None:
    client.get("/threaded", headers={ID: "t"})
    line = line_of(log.name, log_file)
    assert (line["message"], line.get("request_id")) == ("from a thread", "t")


async def sent(app: ASGIApp, scope: Scope) -> list[Message]:
    """What an application sends in answer to a WebSocket that wants to connect."""
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        messages.append(message)

    await RequestIds(app)(scope, receive, send)
    return messages


async def test_a_websocket_is_told_when_it_is_accepted() -> None:
    async def accept(websocket: WebSocket) -> None:
        await websocket.accept()

    app = Starlette(routes=[WebSocketRoute("/", accept)])
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": "/",
        "headers": [(b"x-request-id", b"w")],
        "query_string": b"",
    }
    first, *_ = await sent(app, scope)
    assert first["type"] == "websocket.accept"
    assert (b"x-request-id", b"w") in first["headers"]


# Of a whole box.


def test_a_box_tells_the_id_with_every_answer(shared_box: RunningBox) -> None:
    ask = shared_box.client.request
    action = {"action": {"action": "run", "args": {"command": "true"}}}
    answers = {
        "open": ask("GET", "/alive", headers={ID: "open"}),
        "action": ask("POST", "/execute_action", json=action, headers={ID: "action"}),
        "stream": ask("POST", "/execute_action_stream", json=action, headers={ID: "stream"}),
        "unknown": ask("GET", "/nope", headers={ID: "unknown"}),
        "method": ask("DELETE", "/alive", headers={ID: "method"}),
        "invalid": ask("POST", "/execute_action", json=[], headers={ID: "invalid"}),
        "no-key": ask("GET", "/startup", headers={ID: "no-key", "X-Session-API-Key": "wrong"}),
    }
    assert {name: answer.headers.get(ID) for name, answer in answers.items()} == {n: n for n in answers}
    assert answers["no-key"].status_code == 403


def test_an_error_in_a_stream_names_the_request(shared_box: RunningBox) -> None:
    action = {"action": {"action": "no_such_action", "args": {}}}
    answer = shared_box.client.post("/execute_action_stream", json=action, headers={ID: "failing"})
    event, data = answer.text.strip().splitlines()[-2:]
    assert event == "event: error"
    assert json.loads(data.removeprefix("data: "))["request_id"] == "failing"


def test_a_websocket_of_a_box_is_told_also_when_it_is_refused(shared_box: RunningBox) -> None:
    url = shared_box.url.replace("http", "ws") + "/sessions/main/attach"
    headers = {ID: "socket", "X-Session-API-Key": shared_box.key}
    with connect(url, additional_headers=headers, proxy=None) as attached:
        assert attached.response is not None
        assert attached.response.headers[ID] == "socket"
    with pytest.raises(InvalidStatus) as refused:
        connect(url, additional_headers=headers | {"X-Session-API-Key": "wrong"}, proxy=None)
    assert refused.value.response.headers[ID] == "socket"


def test_a_line_in_the_log_of_a_box_names_the_request(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../outside", "never unpacked")
    with running_box(tmp_path / "ws") as box:
        box.client.post(
            "/upload_file",
            params={"destination": str(tmp_path), "recursive": "true"},
            files={"file": ("a.zip", packed.getvalue())},
            headers={ID: "upload"},
        ).raise_for_status()
    [line] = [line for line in capfd.readouterr().err.splitlines() if "left out" in line]
    assert line.split()[1:3] == ["WARNING", "upload"]
