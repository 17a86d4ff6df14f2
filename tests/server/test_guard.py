from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from glovebox.server.guard import Guard


async def ask(guard: Guard, path: str = "/execute_action", **headers: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer to a request with these headers."""
    raw = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    scope: Scope = {"type": "http", "path": path, "headers": raw, "method": "POST", "query_string": b""}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    answer: Any = sent[0]
    return answer["status"], {name.decode(): value.decode() for name, value in answer["headers"]}


def guard(key: str = "", **options: Any) -> Guard:
    probes = ("/alive", "/server_info")
    return Guard(PlainTextResponse("in"), key=key, open_paths=probes, **options)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "172.17.0.2:8000", "box-1:8000",
     "foo.internal", "[::FFFF:127.0.0.1]", "[::1]", "localhost:", "HOST.Docker.Internal",
     "host.docker.internal", "glovebox.agents.svc", "box.agents.svc.cluster.local", "my-mac.local",
     "localhost."],
)  # fmt: skip
async def test_without_a_key_names_that_no_page_can_own_are_answered(host: str) -> None:
    assert (await ask(guard(), host=host))[0] == 200


@pytest.mark.attack
@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "[::1].evil.example",
     "[::1]evil.example", "[::1]:80.evil.example", "[::1]:8000@evil.example", "127.0.0.1@evil.example",
     "localhost:8000@evil.example", "localhost#.evil.example", "localhost/.evil.example",
     "localhost?.evil.example", "localhost%2eevil.example", "localhost%00.evil.example", "[::1%evil.example]",
     "[::1", "::1", "[]", "[localhost]", ".", "..", "localhost..", "localhost:8000.", "localhost:a",
     "localhost:123456", "localhost:80:80", "localhost evil.example", "localhost,evil.example",
     "evil.example.", "localhost\\.evil.example", "EVIL.EXAMPLE", "internal.evil.example",
     "evil.internal.example", "localhost\t", "l\xf6calhost", "0x7f.1"],
)  # fmt: skip
async def test_without_a_key_a_name_a_page_could_own_is_refused(host: str) -> None:
    status, headers = await ask(guard(), host=host)
    assert (status, headers["x-glovebox-error"]) == (403, "host_not_allowed")


async def test_more_names_can_be_allowed() -> None:
    named = guard(allowed_hosts=["box.example.org", "*.agents.example"])
    assert (await ask(named, host="box.example.org:443"))[0] == 200
    assert (await ask(named, host="a.agents.example"))[0] == 200
    assert (await ask(named, host="other.example.org"))[0] == 403


async def test_without_a_key_a_foreign_page_is_refused_and_the_own_is_not() -> None:
    status, headers = await ask(guard(), host="127.0.0.1:8000", origin="https://evil.example")
    assert (status, headers["x-glovebox-error"]) == (403, "origin_not_allowed")
    assert (await ask(guard(), host="127.0.0.1:8000", origin="null"))[0] == 403
    assert (await ask(guard(), host="127.0.0.1:8000", origin="http://127.0.0.1:8000"))[0] == 200
    assert (await ask(guard(), host="localhost:8000", origin="http://localhost:3000"))[0] == 403


@pytest.mark.attack
@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site"])
async def test_without_a_key_a_foreign_page_is_refused_also_if_it_does_not_say_which(site: str) -> None:
    """As for images, scripts, frames and links to the box."""
    status, headers = await ask(guard(), host="127.0.0.1:8000", sec_fetch_site=site)
    assert (status, headers["x-glovebox-error"]) == (403, "origin_not_allowed")
    open_to = guard(origins=["https://app.example.org"])
    assert (await ask(open_to, host="127.0.0.1", sec_fetch_site=site))[0] == 403
    allowed = {"origin": "https://app.example.org", "sec_fetch_site": site}
    assert (await ask(open_to, host="127.0.0.1", **allowed))[0] == 200
    assert (await ask(guard("secret"), sec_fetch_site=site, x_session_api_key="secret"))[0] == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_the_own_page_and_an_address_that_was_typed_are_answered(site: str) -> None:
    assert (await ask(guard(), host="127.0.0.1:8000", sec_fetch_site=site))[0] == 200


async def test_a_configured_origin_may_call() -> None:
    open_to = guard(origins=["https://app.example.org"])
    assert (await ask(open_to, host="127.0.0.1", origin="https://app.example.org"))[0] == 200
    assert (await ask(open_to, host="127.0.0.1", origin="https://other.example.org"))[0] == 403


async def test_with_the_key_any_name_works_so_that_proxies_do() -> None:
    keyed = guard("secret")
    assert (await ask(keyed, host="box.example.org", x_session_api_key="secret"))[0] == 200


@pytest.mark.parametrize("given", ["", "wrong", "secre", "secrett", "s\xe9cret"])
async def test_a_wrong_key_is_refused(given: str) -> None:
    status, headers = await ask(guard("secret"), host="127.0.0.1", x_session_api_key=given)
    assert (status, headers["x-glovebox-error"]) == (403, "invalid_api_key")


@pytest.mark.parametrize(
    ("path", "status"), [("/alive", 200), ("/server_info", 200), ("/alive/", 403), ("/", 403)]
)
async def test_only_the_two_probes_need_no_key(path: str, status: int) -> None:
    assert (await ask(guard("secret"), path, host="box.example.org"))[0] == status
