"""What a hub answers over HTTP."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.hub.hubs import RunningHub, running_hub
from tests.hub.window_client import opened_window


def said(**other: Any) -> dict[str, Any]:
    return {
        "instance": uuid.uuid4().hex, "name": "project",
        "folders": [{"name": "project", "path": "/home/project"}],
        "vscode_version": "1.100.0", "extension_version": "0.1.0", "capabilities": ["run"], **other,
    }  # fmt: skip


def register(hub: RunningHub, **other: Any) -> dict[str, Any]:
    answer = hub.client.post("/api/vscode/register", json=said(**other))
    assert answer.status_code == 200, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers.get("X-Glovebox-Error", "")


def test_a_window_that_registers_is_told_who_it_is_and_is_found(hub: RunningHub) -> None:
    folders = [{"name": "a", "path": "/srv/a b"}, {"name": "c", "path": "/srv/c/"}]
    name = uuid.uuid4().hex
    registered = register(hub, name=name, folders=folders, app="Code", remote="ssh", pid=7, trusted=False)
    assert registered["heartbeat_seconds"] == 1
    assert registered["grace_seconds"] == 2
    window = hub.windows(id=registered["id"])[0]
    assert window["path"] == f"/vscode/windows/{registered['id']}"
    assert window["status"] == "waiting"
    expected = {"name": name, "folders": folders, "app": "Code", "remote": "ssh", "pid": 7, "trusted": False}
    assert {field: window[field] for field in expected} == expected
    assert "secret" not in str(window)

    def found(**query: str) -> bool:
        return registered["id"] in [one["id"] for one in hub.windows(**query)]

    assert found()
    assert found(workspace="/srv/a b")
    assert found(workspace="/srv/a b/")
    assert found(workspace="/srv/c", status="waiting")
    assert found(workspace=name)
    assert not found(workspace="/srv/a")
    assert not found(workspace="/srv")
    assert not found(status="connected")
    assert not found(id="another")
    assert code(hub.client.get("/api/vscode/discover?status=asleep")) == (422, "request_invalid")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/vscode/discover"),
        ("POST", "/api/vscode/register"),
        ("POST", "/api/vscode/heartbeat/x"),
        ("DELETE", "/api/vscode/unregister/x"),
        ("GET", "/api/vscode/stats"),
        ("GET", "/vscode/windows/x/alive"),
        ("GET", "/socket.io/?EIO=4&transport=websocket"),
        ("GET", "/"),
    ],
)
def test_nothing_is_said_without_the_key(hub: RunningHub, method: str, path: str) -> None:
    for headers in ({}, {"X-Session-API-Key": "wrong"}, {"Authorization": "Bearer wrong"}):
        answer = httpx.request(method, hub.url + path, headers=headers, trust_env=False)
        assert code(answer) == (403, "invalid_api_key")


def test_whether_it_is_alive_is_said_to_anybody_and_the_key_may_be_a_bearer_token(hub: RunningHub) -> None:
    assert httpx.get(f"{hub.url}/alive", trust_env=False).json() == {"status": "ok"}
    bearer = {"Authorization": f"Bearer {hub.key}"}
    assert httpx.get(f"{hub.url}/api/vscode/stats", headers=bearer, trust_env=False).status_code == 200
    window = register(hub)["id"]
    docs = httpx.get(f"{hub.url}/vscode/windows/{window}/docs", headers=bearer, trust_env=False)
    assert docs.status_code == 200


def test_what_is_not_there_is_said_with_a_code(hub: RunningHub) -> None:
    assert code(hub.client.get("/nothing")) == (404, "not_found")
    assert code(hub.client.get("/api/vscode/register")) == (405, "method_not_allowed")
    answer = hub.client.get("/vscode/windows/nobody/alive")
    assert code(answer) == (404, "no_such_window")
    assert "Glovebox: Connect" in answer.json()["detail"]


def test_a_heartbeat_needs_the_secret(hub: RunningHub) -> None:
    registered = register(hub)
    path = f"/api/vscode/heartbeat/{registered['id']}"
    beat = {"secret": registered["secret"], "main_thread_ms": 2.5}
    before = hub.windows(id=registered["id"])[0]["seen"]
    assert hub.client.post(path, json=beat).json() == {"status": "waiting"}
    assert hub.windows(id=registered["id"])[0]["seen"] > before
    assert code(hub.client.post(path, json={**beat, "secret": "x"})) == (404, "no_such_window")
    assert code(hub.client.post(path + "0", json=beat)) == (404, "no_such_window")
    assert code(hub.client.post(path, json={"secret": registered["secret"]})) == (422, "request_invalid")


def test_a_window_is_forgotten_when_it_asks_for_that_with_its_secret(hub: RunningHub) -> None:
    registered = register(hub)
    path = f"/api/vscode/unregister/{registered['id']}"
    assert code(hub.client.delete(path)) == (404, "no_such_window")
    assert code(hub.client.delete(path, headers={"X-Window-Secret": "x"})) == (404, "no_such_window")
    assert hub.status(registered["id"]) == "waiting"
    assert hub.client.delete(path, headers={"X-Window-Secret": registered["secret"]}).status_code == 200
    assert hub.status(registered["id"]) == "gone"
    answer = hub.client.get(f"/vscode/windows/{registered['id']}/alive")
    assert code(answer) == (404, "no_such_window")
    assert "Its user has disconnected it." in answer.json()["detail"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"instance": ""},
        {"instance": 7},
        {"instance": "i" * 201},
        {"name": None},
        {"name": "n" * 1001},
        {"folders": "none"},
        {"folders": [{"name": "a"}]},
        {"folders": [{"name": "a", "path": "relative/a"}]},
        {"folders": [{"name": "a", "path": ""}]},
        {"folders": [{"name": "a", "path": "/with\0nul"}]},
        {"folders": [{"name": "a", "path": "/" + "p" * 4096}]},
        {"folders": [{"name": "a", "path": "/a"}] * 101},
        {"capabilities": ["c"] * 101},
        {"capabilities": [1]},
        {"trusted": "perhaps"},
        {"pid": "one"},
    ],
)
def test_a_registration_that_cannot_be_is_refused(hub: RunningHub, wrong: dict[str, Any]) -> None:
    answer = hub.client.post("/api/vscode/register", json=said(**wrong))
    assert code(answer) == (422, "request_invalid")
    assert answer.json()["detail"] == "Invalid request parameters"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"null", b'{"instance":' * 50_000])
def test_a_body_that_is_no_registration_is_refused(hub: RunningHub, data: bytes) -> None:
    answer = hub.client.post("/api/vscode/register", content=data)
    assert code(answer) in ((422, "request_invalid"), (413, "too_large"))


def test_a_huge_registration_is_refused(hub: RunningHub) -> None:
    answer = hub.client.post("/api/vscode/register", json=said(name="n" * (20 << 20)))
    assert code(answer) == (413, "too_large")


def test_names_are_freed_of_control_characters_and_paths_are_left_alone(hub: RunningHub) -> None:
    path = "/odd/\n\x1b[31m\u2028 'quoted' \"too\" 😀"
    registered = register(hub, name="a\r\nINFO forged\x1b[2J\0", folders=[{"name": "b\tc", "path": path}])
    window = hub.windows(id=registered["id"])[0]
    assert window["name"] == "a  INFO forged [2J "
    assert window["folders"] == [{"name": "b c", "path": path}]
    assert [one["id"] for one in hub.windows(workspace=path)] == [registered["id"]]


def test_a_path_of_windows_is_a_path(hub: RunningHub) -> None:
    folders = [{"name": "a", "path": "c:\\Users\\a"}]
    assert hub.windows(id=register(hub, folders=folders)["id"])[0]["folders"] == folders


def test_a_window_without_a_folder_is_a_window(hub: RunningHub) -> None:
    with opened_window(hub.url, hub.key) as opened:
        assert hub.windows(id=opened.id)[0]["folders"] == []
        answer = hub.act(opened.id, "run", command="pwd")
        assert "No folder is open" in answer.text


@pytest.mark.parametrize(
    "name", ["with blank", "with\nline", "'quotes\"", "$(touch x)", "-rf", "😀", "n" * 200]
)
def test_a_folder_may_have_any_name(hub: RunningHub, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "file.txt").write_text("here\n")
    with opened_window(hub.url, hub.key, folder) as opened:
        assert hub.windows(workspace=str(folder))[0]["id"] == opened.id
        assert "here" in hub.run(opened.id, "cat file.txt")
        assert "here" in hub.act(opened.id, "read", path=f"{folder}/file.txt").json()["content"]
    assert [one.name for one in folder.iterdir()] == ["file.txt"]


def test_a_window_is_a_box_with_its_own_documents(hub: RunningHub, tmp_path: Path) -> None:
    with opened_window(hub.url, hub.key, tmp_path) as opened:
        base = f"/vscode/windows/{opened.id}"
        assert hub.client.get(f"{base}/alive").json() == {"status": "ok"}
        assert hub.client.get(f"{base}/docs").headers["content-type"].startswith("text/html")
        assert "/execute_action" in hub.client.get(f"{base}/openapi.json").json()["paths"]
        assert len(hub.client.get(f"{base}/alive").headers.get_list("x-request-id")) == 1
        assert code(hub.client.get(f"{base}/nothing")) == (404, "not_found")
        assert code(hub.client.get(base))[1] == "not_found"


def test_the_hub_counts_windows_and_orders(hub: RunningHub, tmp_path: Path) -> None:
    before = hub.client.get("/api/vscode/stats").json()
    with opened_window(hub.url, hub.key, tmp_path) as opened:
        hub.run(opened.id, "echo counted")
        now = hub.client.get("/api/vscode/stats").json()
        assert now["by_status"]["connected"] >= 1
        assert now["windows"] == sum(now["by_status"].values())
        assert now["orders_given"] > before["orders_given"]
        assert now["orders_outstanding"] == 0
        assert now["uptime"] > before["uptime"]


@pytest.mark.attack
@pytest.mark.parametrize("begin", ["40", "4", "42", "0", "2", "6", "1"])
def test_what_is_nested_too_deeply_on_a_socket_is_not_followed(
    tmp_path: Path, begin: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_hub(tmp_path) as hub:
        address = f"{hub.url.replace('http', 'ws')}/socket.io/?EIO=4&transport=websocket"
        with connect(address, proxy=None, additional_headers={"X-Session-API-Key": hub.key}) as socket:
            assert str(socket.recv(timeout=20)).startswith("0{")
            with contextlib.suppress(ConnectionClosed):
                socket.send(begin + '{"a":' * 100_000)
                socket.send("40" + '{"id": "none"}')
                socket.recv(timeout=20)
        assert hub.windows() == []
    assert "Recursion" not in capfd.readouterr().err
