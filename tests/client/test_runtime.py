"""A runtime from its start to its end, and what it is asked to do in between."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import glovebox
from glovebox import BoxSpec, Runtime
from glovebox.client.backend import Address, Backend, RuntimeStatus
from glovebox.errors import (
    BackendError,
    BadSpec,
    BoxUnreachable,
    DeadlineExceeded,
    InvalidKey,
    NoSuchBackend,
    NoSuchBox,
    NotConnected,
    UnsupportedAction,
    WrongArguments,
)
from glovebox.protocol.actions import (
    AgentThinkAction,
    CmdRunAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MessageAction,
    RecallAction,
)
from glovebox.protocol.files import GlobAction
from glovebox.protocol.observations import (
    AgentThinkObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    NullObservation,
    UserRejectObservation,
)
from tests.client.support import OneBox, ServeBackend, free_port, runtime, runtime_at, settings_for
from tests.support.running import RunningBox
from tests.support.waiting import until

__all__ = ["runtime"]


async def test_a_box_is_started_used_and_gone(tmp_path: Path) -> None:
    backend: Backend = ServeBackend(tmp_path)
    told: list[tuple[str, str, str]] = []
    steps: list[tuple[str, int, int | None]] = []
    runtime = Runtime(
        backend,
        BoxSpec(env={"OWN": "spec"}),
        status_callback=lambda level, status, message: told.append((level, status, message)),
        progress=lambda *step: steps.append(step),
        settings=settings_for(tmp_path, SANDBOX_ENV_HOST="host", SANDBOX_ENV_OWN="host"),
    )
    assert not runtime.runtime_initialized
    async with runtime:
        assert runtime.runtime_initialized
        assert (await runtime.run('echo "$HOST $OWN"')).content == "host spec"
        assert await runtime.alive()
        assert runtime.workspace_root == tmp_path / "box-0" / "workspace"
        assert runtime.name == "known"
    assert isinstance(backend, ServeBackend)
    assert backend.started[0].box.process is None
    assert [status for _, status, _ in told] == [
        RuntimeStatus.STARTING_RUNTIME,
        RuntimeStatus.RUNTIME_STARTED,
        RuntimeStatus.READY,
    ]
    assert steps == [("start", 1, 1)]
    assert backend.closed == 0  # it belongs to whoever made it
    await runtime.close()
    assert backend.started[0].deleted == 1


async def test_a_box_that_is_paused_answers_when_it_goes_on(tmp_path: Path) -> None:
    backend = ServeBackend(tmp_path)
    async with Runtime(backend, timeout=30) as runtime:
        await runtime.pause()
        running = asyncio.create_task(runtime.run("echo back"))
        done, _ = await asyncio.wait([running], timeout=0.3)
        assert not done
        await runtime.resume()
        assert (await running).content == "back"


async def test_calls_go_on_at_the_new_address_of_a_resumed_box(box: RunningBox) -> None:
    backend = OneBox("http://127.0.0.1:9", box.key)
    backend.sandbox.state = "paused"
    backend.sandbox.next_address = Address(url=box.url, key=box.key)
    async with Runtime(backend, BoxSpec(name="known"), attach=True) as runtime:
        assert (await runtime.run("echo here")).content == "here"
        assert runtime.url == box.url
    async with Runtime(backend) as runtime:
        backend.sandbox.next_address = Address(
            url=f"http://localhost:{box.url.rpartition(':')[2]}", key=box.key
        )
        await runtime.resume()
        assert (await runtime.run("echo there")).content == "there"
        assert runtime.url.startswith("http://localhost")


async def test_attached_and_kept_boxes_are_left_alone(box: RunningBox) -> None:
    backend = OneBox(box.url)
    async with Runtime(backend, BoxSpec(name="known"), attach=True):
        pass
    async with Runtime(backend, BoxSpec(keep=True)):
        pass
    assert backend.sandbox.deleted == 0
    async with Runtime(backend):
        pass
    assert backend.sandbox.deleted == 1
    with pytest.raises(NoSuchBox, match="'other'"):
        await Runtime(backend, BoxSpec(name="other"), attach=True).connect()


async def test_a_wrong_key_is_noticed_at_once_and_nothing_is_left(box: RunningBox) -> None:
    told: list[tuple[str, str, str]] = []
    backend = OneBox(box.url, "another-key-0123456789")
    runtime = Runtime(backend, status_callback=lambda *status: told.append(status))
    with pytest.raises(InvalidKey, match="Invalid API Key"):
        await runtime.connect()
    assert backend.sandbox.deleted == 1
    assert told[-1] == ("error", RuntimeStatus.ERROR, "InvalidKey: Invalid API Key")
    with pytest.raises(NotConnected, match="not connected"):
        await runtime.run("true")


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    class Slow(ServeBackend):
        reached = asyncio.Event()

    backend = Slow(tmp_path)

    def notice(level: str, status: RuntimeStatus, message: str) -> None:
        if status is RuntimeStatus.RUNTIME_STARTED:
            backend.reached.set()
            starting.cancel()

    starting = asyncio.create_task(Runtime(backend, status_callback=notice).connect())
    await asyncio.wait([starting])
    assert starting.cancelled()
    assert backend.reached.is_set()
    assert backend.started[0].box.process is None


async def test_a_runtime_must_be_connected_and_not_closed(box: RunningBox) -> None:
    runtime = runtime_at(box.url)
    for unusable in ("not connected", "closed"):
        with pytest.raises(NotConnected, match=unusable):
            await runtime.run("true")
        with pytest.raises(NotConnected, match=unusable):
            runtime.stream(CmdRunAction(command="true"))
        with pytest.raises(NotConnected, match=unusable):
            assert runtime.url
        with pytest.raises(NotConnected, match=unusable):
            await runtime.alive()
        if unusable == "closed":
            break
        await runtime.connect()
        await runtime.connect()
        assert await runtime.alive()
        await asyncio.gather(runtime.close(), runtime.close())
    with pytest.raises(NotConnected, match="closed"):
        await runtime.connect()


async def test_closing_breaks_off_what_is_under_way(box: RunningBox, tmp_path: Path) -> None:
    runtime = runtime_at(box.url)
    await runtime.connect()
    running = asyncio.create_task(runtime.run("touch begun; while [ ! -e go ]; do sleep 0.02; done"))
    await until((tmp_path / "begun").exists)
    await runtime.close()
    with pytest.raises(NotConnected, match="closed while"):
        await running
    (tmp_path / "go").touch()


async def test_methods_take_plain_arguments_or_actions(runtime: Runtime, tmp_path: Path) -> None:
    await runtime.write("a.txt", "one\ntwo")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    await runtime.write(FileWriteAction(path="b.txt", content="three"))
    read = await runtime.read("a.txt", start=1)
    assert isinstance(read, FileReadObservation)
    assert read.content == "two\n"
    assert (await runtime.read(FileReadAction(path="b.txt"))).content == "three\n"
    edited = await runtime.edit(str(tmp_path / "a.txt"), command="str_replace", old_str="two", new_str="2")
    assert isinstance(edited, FileEditObservation)
    assert (tmp_path / "a.txt").read_text() == "one\n2\n"
    result = await runtime.run(CmdRunAction(command="pwd"), cwd="/", is_static=True)
    assert isinstance(result, CmdOutputObservation)
    assert result.content == "/"
    found = await runtime.execute(GlobAction(pattern="*.txt"))
    assert not isinstance(found, ErrorObservation)
    assert found.total == 2
    failed = await runtime.run("exit_with() { return 7; }; exit_with")
    assert isinstance(failed, CmdOutputObservation)
    assert failed.metadata.exit_code == 7
    assert not failed.success
    assert isinstance(await runtime.read("missing"), ErrorObservation)


async def test_bytes_that_are_not_text_and_large_output_come_through(runtime: Runtime) -> None:
    observation = await runtime.run(r"printf '\377\376 \303\244 ok'")
    assert observation.content.endswith("ä ok")
    content = "0123456789abcdef" * 500_000
    await runtime.write("large.txt", content)
    assert (await runtime.read("large.txt")).content == content + "\n"


async def test_actions_run_side_by_side(runtime: Runtime, tmp_path: Path) -> None:
    waits = 'touch "$N"; while [ ! -e one ] || [ ! -e two ]; do sleep 0.02; done; echo met'
    both = await asyncio.gather(
        runtime.run(f"cd '{tmp_path}'; N=one; {waits}", session="first"),
        runtime.run(f"cd '{tmp_path}'; N=two; {waits}", session="second"),
    )
    assert [one.content for one in both] == ["met", "met"]


async def test_a_deadline_ends_the_call_and_not_the_command(box: RunningBox, tmp_path: Path) -> None:
    async with runtime_at(box.url) as runtime:
        with pytest.raises(DeadlineExceeded, match=r"GET /events was not answered within 0\.2 seconds"):
            await runtime.call("GET", "/events", limit=0.2)
        running = asyncio.create_task(
            runtime.run(
                "touch begun; while [ ! -e go ]; do sleep 0.02; done; touch ended", blocking=True, timeout=60
            )
        )
        await until((tmp_path / "begun").exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (tmp_path / "go").touch()
        await until((tmp_path / "ended").exists)


async def test_an_action_that_is_never_answered_ends_with_the_words_of_the_contract() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/execute_action" not in head:
            body = b'{"status":"ok","token":null}'
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
            )
        else:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, runtime_at(url) as runtime:
        with pytest.raises(DeadlineExceeded, match=r"before the requested timeout of -4\.9s"):
            await runtime.run("true", timeout=-4.9)


async def test_a_command_that_insists_on_blocking_says_for_how_long(runtime: Runtime) -> None:
    with pytest.raises(WrongArguments, match="Blocking command with no timeout set"):
        await runtime.run("true", blocking=True)
    assert (await runtime.run("echo yes", blocking=True, timeout=10)).content == "yes"


async def test_what_no_box_is_asked_for_is_answered_by_the_rules_of_the_contract(
    runtime: Runtime, tmp_path: Path
) -> None:
    thought = await runtime.run_action(AgentThinkAction(thought="hm"))
    assert thought == AgentThinkObservation(content="Your thought has been logged.")
    assert await runtime.run_action(MessageAction(content="hello")) == NullObservation()
    assert await runtime.run_action(RecallAction(recall_type="knowledge")) == NullObservation()
    waiting = CmdRunAction(command="touch done", confirmation_state="awaiting_confirmation")
    rejected = CmdRunAction(command="touch done", confirmation_state="rejected")
    assert await runtime.run_action(waiting) == NullObservation()
    assert await runtime.run_action(rejected) == UserRejectObservation(
        content="Action has been rejected by the user! Waiting for further user input."
    )
    cell = await runtime.run_action(IPythonRunCellAction(code="1"))
    assert cell == ErrorObservation(
        content="Action run_ipython is not supported in the current runtime.",
        error_id="AGENT_ERROR$BAD_ACTION",
    )
    confirmed = await runtime.run_action(CmdRunAction(command="echo yes", confirmation_state="confirmed"))
    assert confirmed.content == "yes"
    # Where a type is promised, it is kept.
    assert await runtime.execute(AgentThinkAction()) == thought
    assert isinstance(await runtime.execute(MessageAction(content="")), NullObservation)
    assert isinstance(await runtime.execute(RecallAction(recall_type="knowledge")), ErrorObservation)
    for action in (waiting, rejected):
        assert isinstance(await runtime.execute(action), ErrorObservation)
        assert [type(item) async for item in runtime.stream(action)] == [ErrorObservation]
    with pytest.raises(UnsupportedAction):
        await runtime.run_ipython("1")
    assert not (tmp_path / "done").exists()


async def test_backends_are_found_by_name_or_address(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with pytest.raises(NoSuchBackend, match=r"'moon'.*docker, process, remote"):
        await Runtime("moon", settings=settings).connect()
    with pytest.raises(NoSuchBackend, match="'sun'"):
        await Runtime(settings=settings_for(tmp_path, GLOVEBOX_BACKEND="sun")).connect()
    with pytest.raises(BadSpec, match="'http://' is not the address"):
        Runtime("http://", settings=settings)


async def test_a_backend_of_another_package_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    information = tmp_path / "elsewhere-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[glovebox.backends]\nelsewhere = elsewhere_backend:Elsewhere\nbroken = elsewhere_backend:Missing\n"
    )
    (tmp_path / "elsewhere_backend.py").write_text(
        "from glovebox.errors import NotSupported\n"
        "class Elsewhere:\n"
        "    def __init__(self, settings):\n"
        "        self.home = settings.home\n"
        "    async def start(self, spec, report):\n"
        "        raise NotSupported(f'from {self.home}')\n"
        "    async def close(self):\n"
        "        (self.home / 'closed').touch()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BackendError, match=f"from {tmp_path}"):
        await Runtime("elsewhere", settings=settings_for(tmp_path)).connect()
    assert (tmp_path / "closed").exists()
    with pytest.raises(BackendError, match=r"'broken' cannot be loaded.*Missing"):
        await Runtime("broken", settings=settings_for(tmp_path)).connect()


async def test_what_the_host_reaches_in_a_box_is_told(box: RunningBox) -> None:
    backend = OneBox(box.url, workspace="/a b")
    backend.sandbox.ports = {8080: "http://127.0.0.1:1", 4040: "http://127.0.0.1:2"}
    async with Runtime(backend, BoxSpec(env={"VSCODE_PORT": "4040"})) as runtime:
        assert runtime.web_hosts == {"http://127.0.0.1:1": 8080}
        assert await runtime.vscode_url() is None  # this box serves none
        assert runtime.session_api_key == box.key
    assert "0123456789" not in repr(backend.sandbox.address)


async def test_a_box_that_is_gone_is_waited_for_no_longer_than_said(tmp_path: Path) -> None:
    backend = ServeBackend(tmp_path)
    async with Runtime(backend, patience=0.3) as runtime:
        backend.started[0].box.stop()
        with pytest.raises(BoxUnreachable, match="does not answer"):
            await runtime.run("true")
        assert not await runtime.alive()
    with pytest.raises(BoxUnreachable):
        await runtime_at(f"http://127.0.0.1:{free_port()}", patience=0.1).connect()


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert msgspec.json.decode(_modules("import glovebox")) == []
    assert "aiohttp" in msgspec.json.decode(_modules("import glovebox; glovebox.Runtime"))
    for name in glovebox.__all__:
        assert getattr(glovebox, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        assert glovebox.Nothing  # type: ignore[attr-defined]


def _modules(code: str) -> bytes:
    heavy = ("aiohttp", "msgspec", "asyncio")
    tell = f"import json, sys; print(json.dumps([name for name in {heavy} if name in sys.modules]))"
    return subprocess.run(
        [sys.executable, "-c", f"{code}; {tell}"], check=True, stdout=subprocess.PIPE
    ).stdout
