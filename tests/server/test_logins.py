from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from glovebox.server import logins
from glovebox.server.logins import Logins
from tests.support.running import KEY, RunningBox, running_box
from tests.support.waiting import LIMIT, readable


@contextlib.contextmanager
def browser(url: str) -> Iterator[httpx.Client]:
    """A client that keeps cookies and knows no key."""
    with httpx.Client(base_url=url, timeout=LIMIT, trust_env=False) as client:
        yield client


def link(box: RunningBox) -> str:
    answer = box.client.post("/login/links")
    assert answer.status_code == 201
    path: str = answer.json()["path"]
    return path


def test_a_link_logs_a_browser_in_which_then_reads_the_pages(box: RunningBox) -> None:
    with browser(box.url) as person:
        assert person.get("/docs").status_code == 403
        answer = person.get(link(box), headers={"Sec-Fetch-Site": "none"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/docs")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "max-age=" in cookie
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert person.get("/docs", headers={"Sec-Fetch-Site": "none"}).status_code == 200
        assert person.get("/openapi.json", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        run = {"action": {"action": "run", "args": {"command": "true"}}}
        assert person.post("/execute_action", json=run, headers={"Origin": box.url}).status_code == 200


@pytest.mark.attack
def test_a_token_works_once_and_a_wrong_one_never(box: RunningBox) -> None:
    path = link(box)
    with browser(box.url) as person, browser(box.url) as thief:
        assert person.get(path).status_code == 303
        replayed = thief.get(path)
        assert replayed.status_code == 403
        assert "set-cookie" not in replayed.headers
        assert "glovebox open" in replayed.json()["detail"]
        for token in ("", "wrong", path.partition("=")[2][:-1], "%00", "%ff"):
            assert thief.get("/login", params={"token": token}).status_code == 403
        assert thief.get("/login").status_code == 403
        assert thief.get("/docs").status_code == 403


@pytest.mark.attack
def test_only_who_has_the_key_gets_a_link(box: RunningBox) -> None:
    with browser(box.url) as stranger:
        assert stranger.post("/login/links").status_code == 403
        assert stranger.post("/login").status_code == 405


@pytest.mark.attack
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {},
    ],
)
def test_pages_of_other_sites_and_ports_cannot_use_the_cookie(
    box: RunningBox, headers: dict[str, str]
) -> None:
    """A browser sends it along with requests of pages of other ports of the same host."""
    with browser(box.url) as person:
        person.get(link(box))
        run = {"action": {"action": "run", "args": {"command": "true"}}}
        refused = person.post("/execute_action", json=run, headers=headers)
        assert refused.status_code == 403
        assert refused.headers["x-glovebox-error"] == "origin_not_allowed"
        if headers:
            assert person.get("/openapi.json", headers=headers).status_code == 403


@pytest.mark.attack
def test_a_configured_origin_cannot_use_the_cookie(tmp_path: Path) -> None:
    foreign = "http://127.0.0.1:3000"
    with running_box(tmp_path / "ws", "--cors-origins", foreign) as box, browser(box.url) as person:
        person.get(link(box))
        headers = {"Origin": foreign, "Sec-Fetch-Site": "same-site"}
        assert person.get("/openapi.json", headers=headers).status_code == 403


@pytest.mark.attack
def test_the_cookie_of_another_server_of_this_host_is_worth_nothing(box: RunningBox, tmp_path: Path) -> None:
    with running_box(tmp_path / "ws") as other, browser(box.url) as person:
        [(name, value)] = person.get(link(box)).cookies.items()
        with browser(other.url) as same_person:
            [(theirs, _)] = same_person.get(link(other)).cookies.items()
        assert name != theirs
        for cookie in (f"{name}={value}", f"{theirs}={value}", f"{theirs}=", f"{name}={value}; {theirs}=x"):
            with browser(other.url) as stranger:
                assert stranger.get("/docs", headers={"Cookie": cookie}).status_code == 403
        both = {"Cookie": f"{theirs}=x; {name}={value}; odd=[]"}
        with browser(box.url) as person_again:
            assert person_again.get("/docs", headers=both).status_code == 200


@pytest.mark.attack
def test_a_wrong_key_is_refused_with_the_cookie_as_well(box: RunningBox) -> None:
    with browser(box.url) as person:
        person.get(link(box))
        assert person.get("/docs", headers={"X-Session-API-Key": "wrong"}).status_code == 403


@pytest.mark.attack
def test_the_number_of_links_and_cookies_is_bounded() -> None:
    known = Logins()
    first, last = known._tokens.make(), ""
    for _ in range(logins._TOKENS):
        last = known._tokens.make()
    assert not known._tokens.use_up(first)
    assert known._tokens.use_up(last)
    assert len(known._tokens._valid_until) < logins._TOKENS


def test_what_has_expired_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "_TOKEN_SECONDS", -1.0)
    monkeypatch.setattr(logins, "_COOKIE_SECONDS", -1)
    known = Logins()
    assert not known._tokens.use_up(known._tokens.make())
    assert not known.knows(f"{known._cookie_name}={known._cookies.make()}")


@pytest.mark.attack
def test_a_websocket_takes_the_cookie_from_a_page_of_the_box_only(box: RunningBox) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    with browser(box.url) as person:
        [(name, value)] = person.get(link(box)).cookies.items()
    address = f"{box.url.replace('http', 'ws')}/sessions/main/attach"
    cookie = {"Cookie": f"{name}={value}"}
    with connect(address, additional_headers={**cookie, "Origin": box.url}, proxy=None) as socket:
        assert "state" in str(socket.recv(LIMIT))
    for headers in ({"Origin": "http://127.0.0.1:3000"}, {"Origin": "https://evil.example"}, {}):
        with pytest.raises(InvalidStatus) as refused:
            connect(address, additional_headers={**cookie, **headers}, proxy=None)
        assert refused.value.response.status_code == 403


@pytest.mark.attack
def test_the_link_is_printed_on_a_terminal_only_and_never_logged(tmp_path: Path) -> None:
    """A log is read by more people than a terminal."""
    command = [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(tmp_path / "ws")]
    environment = {
        **os.environ,
        "SESSION_API_KEY": KEY,
        "LOG_LEVEL": "DEBUG",
        "GLOVEBOX_VIEWER_URL_FILE": str(tmp_path / "viewer-url"),
    }
    controller, terminal = pty.openpty()
    log = tmp_path / "log"
    with open(log, "wb") as errors:
        process = subprocess.Popen(command, stdout=terminal, stderr=errors, env=environment)
    os.close(terminal)
    try:
        shown = b""
        while b"Ctrl-C" not in shown:
            assert readable(controller, LIMIT), shown
            shown += os.read(controller, 65_536)
        found = re.search(rb"(http://\S+)(/login\?token=(\S+))", shown)
        assert found is not None, shown
        with browser(found[1].decode()) as person:
            assert person.get(found[2].decode()).status_code == 303
            assert person.get(found[2].decode()).status_code == 403
            assert person.get("/docs").status_code == 200
    finally:
        process.terminate()
        process.wait(LIMIT)
        os.close(controller)
    assert found[3] not in log.read_bytes()
    with running_box(tmp_path / "other") as box:
        assert box.process.stdout is not None
        box.process.terminate()
        assert "token" not in box.process.stdout.read()
