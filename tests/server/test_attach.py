"""A person at a session: watching, taking over, handing back."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.server.reading import envelope, streaming, until
from tests.support.running import RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT


class Person:
    """Somebody attached, with what they have seen."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.screen = b""
        self.told: list[dict[str, Any]] = []

    def look(self) -> None:
        received = self.socket.recv(10)
        if isinstance(received, bytes):
            self.screen += received
        else:
            self.told.append(json.loads(received))

    def see(self, text: bytes) -> None:
        while text not in self.screen:
            self.look()

    def hear(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The first message of that kind with these fields that was not asked for before."""
        while True:
            for index, told in enumerate(self.told):
                if told["type"] == kind and all(told.get(name) == value for name, value in fields.items()):
                    return self.told.pop(index)
            self.look()

    def want(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))


def address(box: RunningBox, session: str = "main", query: str = "") -> str:
    return f"{box.url.replace('http', 'ws')}/sessions/{session}/attach{query}"


@contextlib.contextmanager
def attached(box: RunningBox, session: str = "main", query: str = "") -> Iterator[Person]:
    headers = {"X-Session-API-Key": box.key}
    with connect(address(box, session, query), additional_headers=headers, proxy=None) as opened:
        yield Person(opened)


def taken(box: RunningBox, session: str = "main") -> bool:
    return bool(box.client.get(f"/sessions/{session}").json()["taken"])


def idle(box: RunningBox, session: str = "main") -> bool:
    return box.client.get(f"/sessions/{session}").json()["command"] is None


def test_whoever_watches_sees_what_was_printed_and_what_is(box: RunningBox) -> None:
    box.run("echo before; echo shown")
    with attached(box) as one, attached(box) as other:
        for person in (one, other):
            assert person.hear("state")["session"]["name"] == "main"
            person.see(b"before\r\nshown\r\n")
        box.run("echo now; echo shown")
        for person in (one, other):
            person.see(b"now\r\nshown\r\n")


def test_whoever_watches_cannot_type_or_resize(box: RunningBox, tmp_path: Path) -> None:
    size = box.run("stty size")
    with attached(box) as person:
        person.socket.send(b"touch typed\n")
        assert "take" in person.hear("refused", code="session_taken")["reason"]
        person.want("input", data="touch typed\n")
        person.hear("refused")
        person.want("resize", rows=10, columns=10)
        person.hear("refused")
    assert box.run("stty size") == size
    assert not (tmp_path / "typed").exists()


def test_a_person_takes_the_shell_over_and_hands_it_back(box: RunningBox, tmp_path: Path) -> None:
    rows, columns = box.run("stty size").split()
    with attached(box) as person:
        person.want("take")
        person.hear("taken")
        person.hear("state")
        assert taken(box)
        refused = box.execute("run", command="touch by_agent")
        assert not (tmp_path / "by_agent").exists()
        assert refused["extras"].get("metadata", {}).get("exit_code", -1) == -1
        person.socket.send(b"var=from_person; echo typed > by_person\n")
        wait_until((tmp_path / "by_person").exists, what="what the person typed")
        person.want("resize", rows=33, columns=77)
        person.want("input", data="stty size > new_size; echo $((40 + 2)) lines\n")
        person.see(b"42 lines\r\n")
        assert (tmp_path / "new_size").read_text() == "33 77\n"
        wait_until(lambda: idle(box), what="the end of the person's command")
        person.want("resize", rows=int(rows), columns=int(columns))
        person.want("release")
        person.hear("released")
        assert box.run("echo $var") == "from_person"


def test_whoever_takes_a_session_without_a_shell_gets_one(box: RunningBox, tmp_path: Path) -> None:
    box.execute("run", command="exit 3")
    with attached(box, query="?take=true") as person:
        person.hear("taken")
        person.socket.send(f"echo typed > {tmp_path}/by_person\n".encode())
        wait_until((tmp_path / "by_person").exists, what="what the person typed")


def test_closing_the_socket_hands_the_session_back(box: RunningBox) -> None:
    with attached(box, query="?take=true") as person:
        person.hear("taken")
        assert taken(box)
    wait_until(lambda: not taken(box), what="the session to be handed back")
    assert box.run("echo mine again") == "mine again"


def test_a_connection_that_breaks_hands_the_session_back(box: RunningBox) -> None:
    with attached(box, query="?take=true") as person:
        person.hear("taken")
        person.socket.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: not taken(box), what="the session to be handed back")


def test_only_one_person_has_a_session(box: RunningBox) -> None:
    with attached(box, query="?take=true") as first, attached(box) as second:
        first.hear("taken")
        second.want("take")
        second.hear("refused", code="session_taken")
        first.want("release")
        first.hear("released")
        second.want("take")
        second.hear("taken")


def test_what_makes_no_sense_is_refused_and_the_rest_goes_on(box: RunningBox) -> None:
    with attached(box, query="?take=true") as person:
        person.hear("taken")
        for message in (
            "",
            "{",
            "[]",
            '{"type": "dance"}',
            '{"type": "resize", "rows": "many", "columns": 1}',
        ):
            person.socket.send(message)
            person.hear("refused", code="request_invalid")
        person.want("resize", rows=0, columns=-3)
        person.hear("refused", code="bad_session")
        person.socket.send(b"echo still $((40 + 2))\n")
        person.see(b"still 42")


def test_an_unknown_session_is_told(box: RunningBox) -> None:
    with attached(box, session="nope") as person:
        assert "nope" in person.hear("closed", code="no_such_session")["reason"]
        with pytest.raises(ConnectionClosed) as closed:
            person.socket.recv(10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4404


def test_the_end_of_the_session_is_told(box: RunningBox) -> None:
    assert box.client.post("/sessions", json={"name": "short"}).status_code == 201
    with attached(box, session="short", query="?take=yes") as person:
        person.hear("taken")
        assert box.client.delete("/sessions/short").status_code == 204
        person.hear("closed", code="session_ended")


def test_a_slow_watcher_is_skipped_forward_and_slows_nothing(box: RunningBox, tmp_path: Path) -> None:
    with attached(box) as person:
        person.hear("state")
        box.run(
            "head -c 30000000 /dev/zero | tr '\\0' x | fold -w 100 > big; cat big; echo the end",
            blocking=True,
        )
        person.see(b"the end")
        assert person.hear("skipped")["bytes"] > 100_000  # in the first of several leaps
        assert len(person.screen) < 29_000_000


# The key, and who may attach without one.


@pytest.mark.parametrize("query", ["?session_api_key=wrong", "?session_api_key="])
def test_a_wrong_key_in_the_query_is_refused(box: RunningBox, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(address(box, query=query), proxy=None):
        pass
    assert refused.value.response.status_code == 403
    assert refused.value.response.headers["x-glovebox-error"] == "invalid_api_key"


def test_a_wrong_key_in_the_header_is_refused(box: RunningBox) -> None:
    headers = {"X-Session-API-Key": "wrong"}
    query = f"?session_api_key={box.key}"
    with (
        pytest.raises(InvalidStatus),
        connect(address(box, query=query), additional_headers=headers, proxy=None),
    ):
        pass


def test_the_key_may_be_in_the_query(box: RunningBox) -> None:
    with connect(address(box, query=f"?take=true&session_api_key={quote(box.key)}"), proxy=None) as opened:
        Person(opened).hear("taken")


def test_the_key_may_be_the_first_message(box: RunningBox) -> None:
    with connect(address(box, query="?take=true"), proxy=None) as opened:
        person = Person(opened)
        person.want("key", key=box.key)
        person.hear("taken")
        person.socket.send(b"echo $((6 * 7))\n")
        person.see(b"42")
    wait_until(lambda: not taken(box), what="the session to be handed back")


@pytest.mark.parametrize(
    "first",
    ['{"type": "key", "key": "wrong"}', '{"type": "take"}', "", b"key", '{"type": "key"}', "[]", "[" * 1000],
)
def test_nothing_is_told_before_the_right_key(box: RunningBox, first: str | bytes) -> None:
    with connect(address(box), proxy=None) as opened:
        opened.send(first)
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4403
    assert not taken(box)


def test_a_box_without_a_key_refuses_web_pages_of_others_and_strange_names(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", key="") as box:
        where = urlsplit(box.url)
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            with contextlib.closing(socket.create_connection((where.hostname or "", where.port or 0))) as raw:
                lines = {
                    "Host": where.netloc, "Upgrade": "websocket", "Connection": "Upgrade",
                    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13", **headers,
                }  # fmt: skip
                request = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                raw.sendall(f"GET /sessions/main/attach HTTP/1.1\r\n{request}\r\n".encode())
                assert raw.recv(4096).startswith(b"HTTP/1.1 403 ")
        own: Any = f"http://{where.netloc}"
        with connect(address(box), origin=own, proxy=None) as opened:
            Person(opened).hear("state")


def test_the_key_is_not_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running_box(tmp_path / "ws", "--log-level", "DEBUG", key="a/secret key") as box:
        for query in ("?session_api_key=a%2Fsecret%20key", "?session_api_key=a/secret+key"):
            with connect(address(box, query=query), proxy=None) as opened:
                Person(opened).hear("state")
    logged = capfd.readouterr().err
    assert "secret" not in logged


def test_other_paths_are_no_websockets(box: RunningBox) -> None:
    headers = {"X-Session-API-Key": box.key}
    for path in ("/sessions/main", "/alive", "/nope"):
        url = box.url.replace("http", "ws") + path
        with pytest.raises(InvalidStatus), connect(url, additional_headers=headers, proxy=None):
            pass
    plain = box.client.get("/sessions/main/attach")
    assert plain.status_code == 404


def test_watching_does_not_keep_the_box_from_stopping(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box, attached(box, query="?take=true") as person:
        person.hear("taken")
        box.process.terminate()
        with contextlib.suppress(ConnectionClosed):
            while True:
                person.look()
        assert box.process.wait(LIMIT) == 0


def test_agents_and_watchers_at_once(box: RunningBox) -> None:
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(8) as pool:
        people = [stack.enter_context(attached(box)) for _ in range(8)]
        with streaming(box, envelope("run", command="seq 1 20000")) as told:
            until(told, "observation")
        list(pool.map(lambda person: person.see(b"20000\r\n"), people))
    assert httpx.get(f"{box.url}/alive", trust_env=False).json() == {"status": "ok"}
