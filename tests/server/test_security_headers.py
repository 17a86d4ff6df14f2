"""What browsers are told with every answer, and where a WebSocket is opened."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.hub.hubs import RunningHub, running_hub
from tests.server.wire import wire
from tests.support.running import RunningBox, running_box

pytestmark = pytest.mark.attack

POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}
BODY = {"action": {"action": "run", "args": {"command": "echo hello"}}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with running_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


def assert_closed(headers: httpx.Headers) -> None:
    told = {name: headers.get_list(name) for name in HEADERS}
    assert told == {name: [value] for name, value in HEADERS.items()}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/alive", 200),
        ("GET", "/server_info", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/metrics", 200),
        ("GET", "/nowhere", 404),
        ("DELETE", "/alive", 405),
        ("POST", "/execute_action", 200),
        ("POST", "/execute_action_stream", 200),
        ("POST", "/update_mcp_server", 500),
        ("POST", "/mcp/box", 400),
        ("GET", "/mcp", 404),
        ("GET", "/download_files?path=/etc/hostname", 200),
        ("GET", "/download_files?path=relative", 500),
        ("POST", "/upload_file", 422),
    ],
)
def test_every_answer_of_a_box_has_the_headers(box: RunningBox, method: str, path: str, status: int) -> None:
    body = BODY if path.startswith("/execute") else {}
    accept = {"Accept": "application/json, text/event-stream"} if path.startswith("/mcp") else {}
    answer = box.client.request(method, path, json=body if method == "POST" else None, headers=accept)
    assert answer.status_code in (status, 400, 401), answer.text
    assert_closed(answer.headers)


def test_a_caller_without_the_key_gets_them_too(box: RunningBox, hub: RunningHub) -> None:
    for url, path in (
        (box.url, "/sessions"),
        (hub.url, "/api/vscode/discover"),
        (hub.url, "/vscode/windows/x/"),
    ):
        answer = httpx.get(url + path, trust_env=False)
        assert answer.status_code == 403
        assert_closed(answer.headers)


@pytest.mark.parametrize(
    "path",
    ["/alive", "/api/vscode/discover", "/api/vscode/discover?status=odd", "/nowhere",
     "/vscode/windows/none/alive",     "/socket.io/?EIO=4&transport=polling"],
)  # fmt: skip
def test_every_answer_of_a_hub_has_the_headers(hub: RunningHub, path: str) -> None:
    assert_closed(hub.client.get(path).headers)


def test_the_page_of_the_api_may_run_its_own_script_and_no_other(box: RunningBox) -> None:
    page = box.client.get("/docs")
    policy = page.headers["content-security-policy"]
    for element in ("script", "style"):
        [text] = re.findall(f"<{element}>(.*?)</{element}>", page.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert "style=" not in page.text
    assert not re.search(r"\son[a-z]+=", page.text)


def refusal(url: str, **headers: str) -> tuple[int, str]:
    """The status and the code that a WebSocket is refused with."""
    with pytest.raises(InvalidStatus) as refused, connect(url, proxy=None, additional_headers=headers):
        pass
    answer = refused.value.response
    assert {name: answer.headers.get_all(name) for name in HEADERS} == {
        name: [value] for name, value in HEADERS.items()
    }
    return answer.status_code, answer.headers["X-Glovebox-Error"]


@pytest.mark.parametrize(
    "path", ["/", "/alive", "/execute_action", "/sessions", "/sessions/a/b/attach", "/nowhere"]
)
def test_no_websocket_is_opened_where_there_is_none(box: RunningBox, hub: RunningHub, path: str) -> None:
    for server in (box, hub):
        url = server.url.replace("http", "ws") + path
        key = {"X-Session-API-Key": server.key}
        assert refusal(url) == (403, "invalid_api_key")
        assert refusal(f"{url}?session_api_key=wrong") == (403, "invalid_api_key")
        assert refusal(url, **key) == (404, "not_found")
        assert refusal(f"{url}?session_api_key={server.key}") == (404, "not_found")


def test_an_opened_websocket_has_the_headers(box: RunningBox) -> None:
    with connect(f"{box.url.replace('http', 'ws')}/sessions/main/attach", proxy=None) as opened:
        assert opened.response is not None
        assert {name: opened.response.headers[name] for name in HEADERS} == HEADERS


def test_without_a_key_a_page_of_another_site_sees_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        running_box(tmp_path_factory.mktemp("open") / "workspace", key="") as box,
        wire(box.url) as connection,
    ):
        connection.send(
            f"GET /sessions HTTP/1.1\r\nHost: {connection.host}\r\nSec-Fetch-Site: cross-site\r\n"
            "Sec-Fetch-Mode: no-cors\r\nConnection: close\r\n\r\n".encode()
        )
        status, headers, body = connection.answer()
        assert (status, headers["x-glovebox-error"]) == (403, "origin_not_allowed")
        assert b"main" not in body
        assert box.client.get("/sessions", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        assert box.client.get("/sessions", headers={"Host": "[::1].evil.example"}).status_code == 403
