"""What happens to calls when the connection breaks, or when something else than a box answers."""

from __future__ import annotations

import asyncio
import functools
import io
import json
from pathlib import Path

import aiohttp
import pytest

from glovebox.client.connection.answers import UnknownAnswer, error_of
from glovebox.client.connection.execute import execute
from glovebox.client.connection.http import is_loopback
from glovebox.client.runtime import Runtime
from glovebox.errors import (
    BadAnswer,
    BoxUnreachable,
    DeadlineExceeded,
    GloveboxError,
    Interrupted,
    NoSuchSession,
    NotFound,
    OutputGone,
)
from glovebox.protocol.actions import CmdRunAction
from tests.client.support import Cut, connected, cutter, free_port, runtime_at, said, served, talking
from tests.support.running import RunningBox, wait_until
from tests.support.waiting import until

COMMAND = CmdRunAction(command="echo ran >> log; echo done")


async def ran(runtime: Runtime, log: Path, command: str = COMMAND.command) -> int:
    """How often a command is carried out that is asked for once."""
    # Blocking: a command that is silent for ten seconds on a busy machine is still waited for.
    assert (await runtime.run(command, blocking=True, timeout=90)).content == "done"
    return len((await asyncio.to_thread(log.read_text)).splitlines())


@pytest.mark.parametrize("to_box", [0, 10, 400])
async def test_a_request_that_is_cut_on_its_way_is_carried_out_once(
    box: RunningBox, tmp_path: Path, to_box: int
) -> None:
    async with cutter(box.url, Cut(to_box=to_box), Cut(to_box=to_box)) as proxy:
        async with connected(proxy.url) as connection:
            assert (await execute(connection, COMMAND, 30)).content == "done"
        assert proxy.cuts == []
    assert (tmp_path / "log").read_text() == "ran\n"


@pytest.mark.parametrize("from_box", [0, 10, 200])
async def test_an_answer_that_is_cut_is_got_again_and_the_command_is_not_run_again(
    box: RunningBox, tmp_path: Path, from_box: int
) -> None:
    cuts = [Cut(from_box=from_box)] * 3  # the questions that follow a cut are cut, too
    async with cutter(box.url, *cuts) as proxy:
        async with connected(proxy.url) as connection:
            assert (await execute(connection, COMMAND, 30)).content == "done"
        assert proxy.cuts == []
    assert (tmp_path / "log").read_text() == "ran\n"


async def test_a_command_goes_on_while_the_connection_is_cut_again_and_again(
    box: RunningBox, tmp_path: Path
) -> None:
    async with cutter(box.url) as proxy, runtime_at(proxy.url) as runtime:
        command = "echo ran >> log; touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done"
        running = asyncio.create_task(ran(runtime, tmp_path / "log", command))
        await until((tmp_path / "begun").exists)
        for _ in range(3):
            before = proxy.connections
            proxy.cut()
            await asyncio.to_thread(wait_until, functools.partial(proxy.beyond, before))
        (tmp_path / "go").touch()
        assert await running == 1


async def test_a_box_that_is_killed_and_restarted_neither_loses_nor_repeats_a_command(tmp_path: Path) -> None:
    with served(tmp_path / "box", "--state-dir", str(tmp_path / "state")) as box:
        async with runtime_at(box.url) as runtime:
            command = "echo ran >> log; touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done"
            running = asyncio.create_task(ran(runtime, box.workspace / "log", command))
            await until((box.workspace / "begun").exists)
            await asyncio.to_thread(box.kill)
            (box.workspace / "go").touch()
            await asyncio.to_thread(box.start)
            assert await running == 1


async def test_a_box_that_forgets_is_not_asked_twice(tmp_path: Path) -> None:
    with served(tmp_path / "box") as box:
        async with runtime_at(box.url) as runtime:
            running = asyncio.create_task(
                runtime.run("echo ran >> log; touch begun; while [ ! -e go ]; do sleep 0.02; done")
            )
            await until((box.workspace / "begun").exists)
            await asyncio.to_thread(box.kill)
            (box.workspace / "go").touch()
            await asyncio.to_thread(box.start)
            with pytest.raises(Interrupted, match=r"restarted.*not known"):
                await running
            assert await ran(runtime, box.workspace / "log") == 2  # the one that was asked for now


async def test_a_refused_connection_is_tried_until_the_box_is_there(tmp_path: Path) -> None:
    with served(tmp_path / "box") as box:
        async with runtime_at(box.url) as runtime:
            await asyncio.to_thread(box.stop)
            running = asyncio.create_task(ran(runtime, box.workspace / "log"))
            listing = asyncio.create_task(runtime.call("POST", "/list_files", body=b"{}"))
            await asyncio.to_thread(box.start)
            assert await running == 1
            assert json.loads(await listing) in ([], ["log"])


async def test_reading_is_tried_again_and_a_plain_request_that_was_sent_is_not(box: RunningBox) -> None:
    async with cutter(box.url, Cut(from_box=0), Cut(from_box=0), Cut(from_box=200)) as proxy:
        async with connected(proxy.url) as connection:
            assert b"uptime" in await connection.request("GET", "/server_info")
        assert proxy.cuts == []
        proxy.cuts = [Cut(from_box=0)]
        async with connected(proxy.url) as connection:
            with pytest.raises(BoxUnreachable, match="does not answer"):
                await connection.request("POST", "/list_files", body=b"{}")
            assert proxy.cuts == []
            assert isinstance(json.loads(await connection.request("POST", "/list_files", body=b"{}")), list)


async def test_errors_of_the_box_arrive_as_their_class(box: RunningBox) -> None:
    async with runtime_at(box.url) as runtime:
        with pytest.raises(NoSuchSession, match="nowhere"):
            await runtime.call("GET", "/sessions/nowhere")
        with pytest.raises(NotFound):
            await runtime.call("GET", "/no/such/endpoint")


def test_only_known_codes_choose_a_class() -> None:
    def error(status: int, code: str, body: bytes = b'{"detail":"why"}') -> GloveboxError:
        return error_of(status, {"X-Glovebox-Error": code} if code else {}, body)

    assert type(error(410, "output_gone")) is OutputGone
    assert str(error(410, "output_gone")) == "why"
    # What only this side can know is not believed, and nothing is looked up by any other name.
    for code in ("box_unreachable", "no_such_box", "glovebox.errors.NotFound", "SystemExit", ""):
        unknown = error(418, code)
        assert isinstance(unknown, UnknownAnswer), code
        assert (unknown.http_status, unknown.text) == (418, '{"detail":"why"}')
        assert str(unknown) == "The box answered 418: why"
    assert isinstance(error(500, "", b"\xff" * 1000), BadAnswer)
    assert error(403, "", b'{"detail":"Invalid API Key"}').code == "invalid_api_key"


@pytest.mark.parametrize(
    "answer",
    [
        said("200 OK", b"<html>hello</html>", "Content-Type: text/html"),
        said("200 OK", b'["ok"]'),
        said("404 Not Found", b"nothing here"),
        said("302 Found", b"", "Location: http://127.0.0.1:1/alive"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        said("500 Oops", b'{"detail": 5}'),
    ],
)
async def test_something_else_than_a_box_is_told_apart(answer: bytes) -> None:
    async with talking(answer) as url:
        with pytest.raises(BadAnswer):
            await runtime_at(url, patience=0.2).connect()


async def test_what_answers_with_something_else_than_observations_is_refused() -> None:
    for body in (b"", b"{}", b"\xff\xfe", b'{"observation": "read", "content": "", "extras": {"path": "a"}}'):
        async with talking(said("200 OK", body)) as url, connected(url) as connection:
            with pytest.raises(BadAnswer):
                await execute(connection, CmdRunAction(command="true"), 5)


async def test_a_proxy_that_has_lost_its_box_is_asked_again_where_that_is_safe() -> None:
    async with talking(said("502 Bad Gateway", b"<html>")) as url, connected(url, 0.2) as connection:
        with pytest.raises(BoxUnreachable, match="502 Bad Gateway"):
            await connection.request("GET", "/alive")
        with pytest.raises(BoxUnreachable, match="502 Bad Gateway"):
            await connection.request("POST", "/list_files", body=b"{}")


async def test_a_server_that_knows_no_keys_is_not_sent_an_action_twice() -> None:
    asked: list[bytes] = []

    async def foreign(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        body = await reader.readexactly(int(length.split(b":")[1]))
        asked.append(body)
        if b'"run"' not in body:
            writer.write(said("500 Internal Server Error", b'{"detail":"no attribute null"}'))
        writer.close()

    server = await asyncio.start_server(foreign, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, connected(url) as connection:
        with pytest.raises(BoxUnreachable):
            await execute(connection, CmdRunAction(command="true"), 5)
    assert len([body for body in asked if b'"run"' in body]) == 1


async def test_the_deadline_is_for_all_attempts_together() -> None:
    async with connected(f"http://127.0.0.1:{free_port()}", 100) as connection:
        with pytest.raises(BoxUnreachable):
            await connection.request("GET", "/alive", limit=3)


async def test_large_uploads_and_downloads_pass_in_pieces(box: RunningBox, tmp_path: Path) -> None:
    content = b"0123456789abcdef" * 200_000
    async with runtime_at(box.url) as runtime:
        form = aiohttp.FormData()
        form.add_field("file", io.BytesIO(content), filename="large.bin")
        query = {"destination": str(tmp_path / "up"), "recursive": "false"}
        await runtime.upload("/upload_file", query=query, form=form)
        assert (tmp_path / "up" / "large.bin").read_bytes() == content
        pieces = [
            piece async for piece in runtime.download("/download_files", query={"path": str(tmp_path / "up")})
        ]
        assert len(pieces) > 1
        assert b"".join(pieces).startswith(b"PK")
        with pytest.raises(GloveboxError, match="File not found"):
            await anext(runtime.download("/download_files", query={"path": "/does/not/exist"}))
        cuts = (Cut(from_box=0), Cut(from_box=1000))
        async with cutter(box.url, *cuts) as proxy, connected(proxy.url) as connection:
            with pytest.raises(BoxUnreachable):  # what began cannot begin again
                async for _ in connection.download(
                    "/download_files", query={"path": str(tmp_path / "up")}, limit=30
                ):
                    pass
            assert proxy.cuts == []
        with pytest.raises(DeadlineExceeded):
            async for _ in runtime.download("/events", limit=0.2):
                pass


async def test_a_proxy_of_the_environment_is_for_other_machines(
    box: RunningBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(url: str) -> bytes:
        async with connected(url, 0.1) as connection:
            return await connection.request("GET", "/alive", limit=5)

    async with talking(said("200 OK", b"the proxy")) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert await asked("http://box.invalid") == b"the proxy"
        assert await asked(box.url) == b'{"status":"ok"}'
    own = ("http://localhost:1", "http://127.1.2.3", "http://[::1]:80", "http://a.localhost/")
    assert all(is_loopback(url) for url in own)
    assert not any(is_loopback(url) for url in ("http://10.0.0.1", "http://localhost.example", "https://box"))
