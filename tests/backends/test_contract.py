"""What every backend does, whatever its boxes are made of."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from glovebox import AsyncBox
from glovebox.client.backend import Silent
from glovebox.errors import BadSpec, BoxDied, BoxExists, NoSuchBox
from tests.backends.conftest import FOUND, Place, client_of, run, started
from tests.support.waiting import LIMIT, until

#: Places where boxes are started, and all others too.
STARTING = ("process", "bubblewrap", "docker")
where_started = pytest.mark.parametrize("place", STARTING, indirect=True)
everywhere = pytest.mark.parametrize("place", [*STARTING, *FOUND], indirect=True)

LISTEN = (
    'perl -MIO::Socket::INET -e \'$s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => {port}, '
    'Listen => 5, ReuseAddr => 1) or die; while ($c = $s->accept) {{ print $c "HTTP/1.0 200 OK\\r\\n\\r\\n'
    "hello\"; close $c }}' >/dev/null 2>&1 &"
)


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@everywhere
async def test_a_box_answers_with_its_key_only_and_to_this_machine_only(place: Place) -> None:
    async with started(place.make(), place.spec()) as sandbox:
        url = urlsplit(sandbox.address.url)
        assert url.hostname == "127.0.0.1"
        assert len(sandbox.address.key) >= 20
        assert sandbox.address.key not in repr(sandbox.address)
        async with httpx.AsyncClient(base_url=sandbox.address.url, trust_env=False) as stranger:
            assert (await stranger.get("/alive")).status_code == 200
            assert (await stranger.get("/sessions")).status_code == 403
        assert await run(sandbox, "pwd") == sandbox.workspace
        info = await sandbox.info()
        assert (info.name, info.state, info.url) == (sandbox.name, "running", sandbox.address.url)
        assert info.workspace == sandbox.workspace
        assert info.backend == place.make().name
        for address in _other_addresses():
            with socket.socket() as caller:
                caller.settimeout(5)
                assert caller.connect_ex((address, url.port or 0)) != 0


def _other_addresses() -> list[str]:
    found = [
        one.address for card in psutil.net_if_addrs().values() for one in card if one.family == socket.AF_INET
    ]
    return [address for address in found if not address.startswith("127.")]


@everywhere
async def test_it_is_found_by_other_clients(place: Place) -> None:
    async with started(place.make(), place.spec(labels={"a": "b"})) as sandbox:
        found = await place.make().attach(sandbox.name)
        assert found.address == sandbox.address
        assert found.workspace == sandbox.workspace
        [listed] = await place.boxes()
        assert (listed.name, listed.state) == (sandbox.name, "running")
        assert place.kind in FOUND or listed.labels["a"] == "b"
        act = (
            "async def act(backend, spec):\n"
            "    box = await backend.attach(spec.name)\n"
            "    print(box.address.url, box.address.key)"
        )
        with place.client(act, place.spec(name=sandbox.name)) as client:
            out, _ = client.communicate(timeout=60)
        assert out.split() == [sandbox.address.url, sandbox.address.key]
        with pytest.raises(NoSuchBox):
            await place.make().attach("nobody")


@everywhere
async def test_nobody_sweeps_a_box_whose_client_is_there(place: Place) -> None:
    async with started(place.make(), place.spec()) as sandbox:
        assert sandbox.name not in await place.make().sweep()
        assert (await sandbox.info()).state == "running"


@where_started
async def test_a_given_workspace_is_used_and_left_and_variables_arrive(place: Place, tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    (workspace / "before").write_text("here\n")
    greeting = "hello 'world' $HOME \"x\"\nand more"
    async with started(
        place.make(), place.spec(workspace=str(workspace), env={"GREETING": greeting})
    ) as sandbox:
        assert await run(sandbox, 'cat before; printf "%s" "$GREETING" > after') == "here"
        assert (workspace / "after").read_text() == greeting
        assert sandbox.workspace == ("/workspace" if place.kind != "process" else str(workspace))
    assert (workspace / "after").read_text() == greeting
    assert (await sandbox.info()).state == "missing"


@where_started
async def test_boxes_are_several_and_each_has_a_name_of_its_own(place: Place) -> None:
    backend = place.make()
    first = await backend.start(place.spec(name="First.box_1"), Silent())
    async with started(backend, place.spec()) as second:
        try:
            assert (first.name, second.name != first.name) == ("First.box_1", True)
            assert first.address != second.address
            await asyncio.gather(run(first, "echo one > mine"), run(second, "echo two > mine"))
            assert [await run(first, "cat mine"), await run(second, "cat mine")] == ["one", "two"]
            assert [info.name for info in await place.boxes()] == [first.name, second.name]
            with pytest.raises(BoxExists, match="First"):
                await place.make().start(place.spec(name="First.box_1"), Silent())
            assert await run(first, "echo still there") == "still there"
            for bad in ("-x", "a/b", "..", "a b", "x" * 64):
                with pytest.raises(BadSpec):
                    await backend.start(place.spec(name=bad), Silent())
        finally:
            await first.delete()


@where_started
async def test_a_paused_box_stands_still_and_goes_on(place: Place, tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    async with started(place.make(), place.spec(workspace=str(workspace))) as sandbox:
        count = workspace / "count"
        await run(sandbox, "(n=0; while :; do n=$((n+1)); echo $n > new; mv new count; done) & mkfifo words")
        waiting = asyncio.create_task(run(sandbox, "read word < words; echo got $word"))
        await until(lambda: count.exists(), "the counter")
        async with client_of(sandbox) as client:
            await until(lambda: _is_busy(client), "the command")
        await sandbox.pause()
        await sandbox.pause()
        assert (await (await place.make().attach(sandbox.name)).info()).state == "paused"
        before = count.read_text()
        for _ in range(5):
            await sandbox.info()
        assert count.read_text() == before
        assert not waiting.done()
        await sandbox.resume()
        await sandbox.resume()
        assert (await sandbox.info()).state == "running"
        await until(lambda: count.exists() and count.read_text() != before, "the counter to go on")
        await asyncio.to_thread((workspace / "words").write_text, "it\n")
        assert await waiting == "got it"


async def _is_busy(client: httpx.AsyncClient) -> bool:
    sessions = (await client.get("/sessions")).json()
    return any(session["command"] for session in sessions)


@where_started
async def test_a_stopped_box_keeps_its_files_and_a_deleted_one_nothing(place: Place) -> None:
    backend = place.make()
    async with started(backend, place.spec()) as sandbox:
        key = sandbox.address.key
        await run(sandbox, "echo kept > file; echo kept > /tmp/glovebox-contract; echo kept > ~/file")
        await sandbox.stop()
        await sandbox.stop()
        info = await sandbox.info()
        assert (info.state, info.url) == ("stopped", "")
        found = await place.make().attach(sandbox.name)
        assert (await found.info()).state == "stopped"
        await found.resume()
        assert found.address.key == key
        assert await run(found, "cat file /tmp/glovebox-contract ~/file; rm /tmp/glovebox-contract") == (
            "kept\nkept\nkept"
        )
        await found.delete()
        await found.delete()
        await sandbox.delete()
        assert (await sandbox.info()).state == "missing"
        assert await place.boxes() == []
        with pytest.raises(NoSuchBox):
            await backend.attach(sandbox.name)


@where_started
async def test_what_it_prints_can_be_read_and_followed(place: Place) -> None:
    async with started(place.make(), place.spec()) as sandbox:
        said: list[str] = []

        async def is_welcome() -> bool:
            said[:] = [line async for line in sandbox.logs()]
            return any("Glovebox serves" in line for line in said)

        await until(is_welcome, "what it says first")  # an engine takes its time to write it down
        assert not any(sandbox.address.key in line for line in said)
        heard: list[str] = []

        async def follow() -> None:
            async for line in sandbox.logs(follow=True):
                heard.append(line)

        following = asyncio.create_task(follow())
        await until(lambda: heard[: len(said)] == said, "what was said")
        assert not following.done()
        await sandbox.stop()
        await asyncio.wait_for(following, LIMIT)


@where_started
async def test_a_start_that_fails_leaves_nothing(place: Place) -> None:
    backend = place.make()
    with pytest.raises(BoxDied, match="--no-such-flag"):
        await backend.start(place.spec(arguments=("--no-such-flag",)), Silent())
    assert await place.boxes() == []


@where_started
async def test_a_start_that_is_cancelled_leaves_nothing(place: Place) -> None:
    backend = place.make()
    for moment in range(4):
        start = asyncio.create_task(backend.start(place.spec(name="early"), Silent()))
        if moment:
            await until(lambda: _is_listed(place, "early"), "the box")
        for _ in range(moment * moment):  # each time it has come a little further
            await backend.boxes()
        start.cancel()
        assert isinstance((await asyncio.gather(start, return_exceptions=True))[0], asyncio.CancelledError)
        assert await place.boxes() == []


async def _is_listed(place: Place, name: str) -> bool:
    return any(info.name == name for info in await place.boxes())


@where_started
async def test_boxes_of_a_client_that_was_killed_are_swept_unless_they_are_kept(place: Place) -> None:
    act = (
        "async def act(backend, spec):\n"
        "    from msgspec.structs import replace\n"
        "    await backend.start(replace(spec, name='lost'), Silent())\n"
        "    await backend.start(replace(spec, name='kept', keep=True), Silent())\n"
        "    print('started', flush=True)\n"
        "    await asyncio.sleep(600)"
    )
    with place.client(act, place.spec()) as client:
        assert client.stdout is not None
        assert await asyncio.to_thread(client.stdout.readline) == "started\n"
        backend = place.make()
        assert "lost" not in await backend.sweep()
    assert "lost" in await backend.sweep()
    assert [(info.name, info.keep) for info in await place.boxes()] == [("kept", True)]
    kept = await backend.attach("kept")
    assert await run(kept, "echo here") == "here"
    await kept.delete()


@where_started
async def test_an_orphan_that_somebody_attaches_to_is_not_swept(place: Place) -> None:
    if place.kind == "docker":
        pytest.skip("the labels of a container cannot be changed")
    act = (
        "async def act(backend, spec):\n"
        "    print((await backend.start(spec, Silent())).name, flush=True)\n"
        "    await asyncio.sleep(600)"
    )
    with place.client(act, place.spec()) as client:
        assert client.stdout is not None
        name = (await asyncio.to_thread(client.stdout.readline)).strip()
    box = await place.make().attach(name)
    assert name not in await place.make().sweep()
    assert await run(box, "echo here") == "here"
    await box.delete()


@where_started
async def test_ports_of_programs_are_reached(place: Place) -> None:
    port = free_port()
    async with started(place.make(), place.spec(ports={port: 0})) as sandbox:
        await run(sandbox, LISTEN.format(port=port))
        url = sandbox.ports[port]
        assert urlsplit(url).hostname == "127.0.0.1"
        await until(lambda: _answers(url), "the program to answer")
        assert dict((await place.make().attach(sandbox.name)).ports) == dict(sandbox.ports)


@where_started
async def test_a_box_of_any_kind_runs_commands_programs_and_servers(place: Place, tmp_path: Path) -> None:
    port = free_port()
    async with AsyncBox(backend=place.make(), spec=place.spec(ports={port: 0})) as box:
        assert (await box.run("cd /tmp && echo $((6 * 7))")).check().output.strip() == "42"
        assert (await box.exec(["cat"], stdin="hi")).stdout == "hi"
        await box.files.write("a/b.txt", "text")
        assert (await box.exec(["cat", "a/b.txt"])).stdout == "text"
        assert (await box.files.download("a", tmp_path) / "b.txt").read_text() == "text"
        listen = LISTEN.format(port=port).removesuffix(" >/dev/null 2>&1 &")
        async with await box.start(listen) as server:
            await server.wait_for_port(port, timeout=LIMIT)
            await until(lambda: _answers(box.url(port)), "the program to answer")


async def _answers(url: str) -> bool:
    try:
        async with httpx.AsyncClient(trust_env=False) as caller:
            return (await caller.get(url)).text == "hello"
    except httpx.TransportError:
        return False


@where_started
async def test_a_fixed_port_is_used(place: Place) -> None:
    port = free_port()
    async with started(place.make(), place.spec(port=port)) as sandbox:
        assert sandbox.address.url == f"http://127.0.0.1:{port}"
        assert json.loads(await run(sandbox, "echo 1")) == 1
