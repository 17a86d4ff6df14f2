from __future__ import annotations

import concurrent.futures
import http.client
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.running import KEY, RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT


def test_alive_and_server_info_need_no_key(shared_box: RunningBox) -> None:
    assert httpx.get(f"{shared_box.url}/alive", trust_env=False).json() == {"status": "ok"}
    info = httpx.get(f"{shared_box.url}/server_info", trust_env=False).json()
    assert set(info) == {"uptime", "idle_time", "resources"}
    assert set(info["resources"]) == {"cpu_percent", "memory", "disk", "io"}
    assert info["resources"]["memory"]["rss"] > 0


def test_idle_time_counts_from_the_last_action(shared_box: RunningBox) -> None:
    shared_box.run("true")
    info = shared_box.client.get("/server_info").json()
    assert info["idle_time"] < info["uptime"]


@pytest.mark.parametrize("key", [None, "", "wrong"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/execute_action"), ("POST", "/list_files"), ("GET", "/docs"), ("GET", "/nope"),
     ("POST", "/update_mcp_server"), ("GET", "/vscode/connection_token"), ("GET", "/startup")],
)  # fmt: skip
def test_everything_else_does(shared_box: RunningBox, method: str, path: str, key: str | None) -> None:
    headers = {} if key is None else {"X-Session-API-Key": key}
    answer = httpx.request(method, f"{shared_box.url}{path}", headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()) == (403, {"detail": "Invalid API Key"})


@pytest.mark.parametrize(
    ("method", "path", "status", "detail"),
    [
        ("GET", "/nope", 404, "Not Found"),
        ("GET", "/", 404, "Not Found"),
        ("GET", "/execute_action", 405, "Method Not Allowed"),
        ("HEAD", "/alive", 405, None),
        ("OPTIONS", "/execute_action", 405, "Method Not Allowed"),
        ("POST", "/download_files", 405, "Method Not Allowed"),
    ],
)
def test_unknown_paths_and_methods_are_answered_as_the_contract_says(
    shared_box: RunningBox, method: str, path: str, status: int, detail: str | None
) -> None:
    answer = shared_box.client.request(method, path)
    assert answer.status_code == status
    assert "allow" not in answer.headers
    assert answer.headers["x-glovebox-error"] in ("not_found", "method_not_allowed")
    if detail:
        assert answer.json() == {"detail": detail}


def test_a_trailing_slash_is_redirected(shared_box: RunningBox) -> None:
    answer = shared_box.client.get("/alive/")
    assert (answer.status_code, answer.headers["location"]) == (307, f"{shared_box.url}/alive")


def test_startup_tells_each_step_with_its_time(shared_box: RunningBox) -> None:
    shared_box.run("true")  # the shell starts beside the rest; a command waits for it
    report = shared_box.client.get("/startup").json()
    assert report["ready"] is True
    steps = {step["name"]: step for step in report["steps"]}
    assert {"interpreter", "bind", "import", "workspace", "shell", "application"} <= set(steps)
    assert all(step["state"] == "done" for step in steps.values())
    assert report["ready_ms"] >= steps["import"]["took_ms"]


def test_vscode_has_no_token_without_the_plugin(shared_box: RunningBox) -> None:
    assert shared_box.client.get("/vscode/connection_token").json() == {"token": None}


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"[]", 200, "MCP server updated successfully"),
        (b'[{"name": "a", "command": "x", "args": "-v \'a b\'", "env": "A=1,B=2"}]', 200,
         "MCP server updated successfully"),
        (b"{}", 400, "Request must be a list of MCP tools to sync"),
        (b"[", 500, "An unexpected error occurred. Please try again later."),
        (b'["x"]', 500, "An unexpected error occurred. Please try again later."),
        (b'[{"name": "a b", "command": "x"}]', 500, "An unexpected error occurred. Please try again later."),
    ],
)  # fmt: skip
def test_a_list_of_mcp_servers_is_checked(
    shared_box: RunningBox, body: bytes, status: int, detail: str
) -> None:
    answer = shared_box.client.post("/update_mcp_server", content=body)
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)


def test_the_docs_page_is_self_contained(shared_box: RunningBox) -> None:
    page = shared_box.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"(src|href)=[\"']https?:", page.text)


def test_a_web_page_cannot_drive_a_box_without_a_key(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", key="") as box:
        body = {"action": {"action": "mkdir", "args": {"path": str(tmp_path / "made")}}}
        page = box.client.post("/execute_action", json=body, headers={"Origin": "https://evil.example"})
        rebound = box.client.post("/execute_action", json=body, headers={"Host": "evil.example"})
        assert (page.status_code, rebound.status_code) == (403, 403)
        assert not (tmp_path / "made").exists()
        assert box.client.post("/execute_action", json=body, headers={"Host": "box-1"}).status_code == 200
        assert "access-control-allow-origin" not in page.headers


def test_a_configured_origin_gets_cors_headers_and_others_do_not(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--cors-origins", "https://app.example") as box:
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-session-api-key",
        }
        allowed = httpx.options(
            f"{box.url}/execute_action", headers={"Origin": "https://app.example", **asked}, trust_env=False
        )
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        other = httpx.options(
            f"{box.url}/execute_action", headers={"Origin": "https://evil.example", **asked}, trust_env=False
        )
        assert "access-control-allow-origin" not in other.headers


def test_the_key_is_not_in_the_environment_of_commands_nor_in_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_box(tmp_path / "ws", "--log-level", "DEBUG") as box:
        assert KEY not in box.run("env")
        box.client.post("/execute_action", content=f'{{"action": {{"action": "{KEY}"}}}}')
    assert KEY not in capfd.readouterr().err


def test_a_connection_is_kept_open_between_requests(shared_box: RunningBox) -> None:
    where = urlsplit(shared_box.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port)
    for _ in range(3):
        connection.request("GET", "/alive")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        first = connection.sock
    assert connection.sock is first
    connection.close()


def test_stopping_answers_a_waiting_command_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as box, concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(box.execute, "run", command="echo $$ > pid; exec sleep 1000", blocking=True)
        pid_file = tmp_path / "ws" / "pid"
        wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), what="the command")
        box.process.send_signal(signal.SIGTERM)
        assert box.process.wait(LIMIT) == 0
        assert waiting.result(LIMIT)["observation"] in ("run", "error")
        assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()


def test_serving_does_not_load_the_command_line_of_uvicorn() -> None:
    script = (
        "import sys\n"
        "from glovebox.server.uvicorn import Config\n"
        "config = Config(object(), http='httptools', lifespan='off', log_config=None)\n"
        "config.load()\n"
        "assert config.loaded\n"
        "print('click' in sys.modules, 'uvicorn.main' in sys.modules)\n"
        "import uvicorn\n"
        "print(uvicorn.run.__module__, uvicorn.Config is Config)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "uvicorn.main", "True"]
