"""Windows of VS Code as boxes: a real hub, windows that work on real folders, and the runtime over them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from glovebox import BoxSpec, Runtime, SyncRuntime
from glovebox.backends.vscode import VSCodeBackend
from glovebox.client.backend import Silent
from glovebox.client.spec import STAY, Mount
from glovebox.errors import (
    BadSpec,
    BadWindowAnswer,
    BoxUnreachable,
    Interrupted,
    InvalidKey,
    NoHub,
    NoSuchBox,
    NotSupported,
    NoWindow,
    SeveralWindows,
    TransferError,
    WindowLeft,
    WindowLost,
    WindowPaused,
    WindowRefused,
)
from glovebox.integrations.openhands.microagents import get_microagents_from_selected_repo
from glovebox.integrations.openhands.repository import initialize_repository
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import Output
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.window import Arrive, Order, Read, Run
from glovebox.settings import host
from glovebox.settings.host import HostSettings
from tests.backends.test_contract import free_port
from tests.client.support import cutter, said, talking
from tests.hub.hubs import QUICK, RunningHub, running_hub
from tests.hub.window_client import OpenedWindow, opened_window
from tests.support.waiting import until


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Shells of windows are the tester's, and must find a home of the tests."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for variable in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            patch.setenv(variable, "/dev/null")
        for who in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{who}_NAME", "tester")
            patch.setenv(f"GIT_{who}_EMAIL", "tester@example.org")
        yield home


@pytest.fixture(scope="module")
def hub(home: Path) -> Iterator[RunningHub]:
    """A hub that tests share; each brings its own windows."""
    with running_hub(home, *QUICK) as hub:
        yield hub


@contextlib.contextmanager
def connected_window(hub: RunningHub, folder: Path) -> Iterator[OpenedWindow]:
    """A window that the hub forgets at the end."""
    folder.mkdir()
    with opened_window(hub.url, hub.key, folder) as window:
        yield window
        secret = {"X-Window-Secret": window.window.secret}
        hub.client.delete(f"/api/vscode/unregister/{window.id}", headers=secret)


@pytest.fixture
def window(hub: RunningHub, tmp_path: Path) -> Iterator[OpenedWindow]:
    """A window with one folder."""
    with connected_window(hub, tmp_path / "project") as window:
        yield window


@pytest.fixture
def project(window: OpenedWindow) -> Path:
    """Its folder."""
    return window.window.hands.folders[0]


def settings(hub: RunningHub, **more: str) -> HostSettings:
    """What a client on the machine of the hub is told: nothing."""
    return host.load({"HOME": str(hub.home), "XDG_STATE_HOME": str(hub.home / "state"), **more})


def runtime(hub: RunningHub, spec: BoxSpec | None = None, **options: Any) -> Runtime:
    return Runtime("vscode", spec or BoxSpec(), settings=settings(hub), **options)


def broken_disk(order_id: str, order: Order) -> list[dict[str, Any]] | None:
    """A window that cannot read more than the beginning of a file."""
    if not isinstance(order, Read) or not order.offset:
        return None
    said = {"kind": "failed", "id": order_id, "number": 1, "code": "failed", "message": "The disk is broken."}
    return [said]


# The runtime over a window.


async def test_commands_and_files_of_a_window(hub: RunningHub, window: OpenedWindow, project: Path) -> None:
    async with runtime(hub) as box:
        assert (box.name, box.workspace) == (window.id, str(project))
        assert (await box.run("pwd")).content == str(project)
        failed = await box.run("exit_with() { return 7; }; exit_with")
        assert isinstance(failed, CmdOutputObservation)
        assert failed.metadata.exit_code == 7
        await box.write("a.txt", content="one\ntwo")
        assert (await box.read("a.txt")).content == "one\ntwo\n"
        path = str(project / "a.txt")
        edited = await box.edit(path, command="str_replace", old_str="two", new_str="2")
        assert "has been edited" in edited.content
        await box.edit(path, command="insert", insert_line=0, new_str="zero")
        assert (project / "a.txt").read_text() == "zero\none\n2\n"
        await box.edit(path, command="undo_edit")
        assert (project / "a.txt").read_text() == "one\n2\n"
        made = await box.edit(str(project / "b.txt"), command="create", file_text="new\n")
        assert made.content.startswith("File created successfully")
        assert "     1\tnew" in (await box.edit(str(project / "b.txt"), command="view")).content
        refused = await box.read("/etc/hostname")
        assert isinstance(refused, ErrorObservation)
        assert refused.error_id == "outside_workspace"
        missing = await box.run_ipython("1")
        assert isinstance(missing, ErrorObservation)
        assert missing.error_id == "no_companion"
        assert await box.vscode_url() is None


async def test_a_command_is_followed_while_it_runs(hub: RunningHub, window: OpenedWindow) -> None:
    async with runtime(hub) as box:
        items = [item async for item in box.stream(CmdRunAction(command="echo one; sleep 0.1; echo two"))]
        assert "".join(item.text for item in items if isinstance(item, Output)) == "one\ntwo\n"
        assert isinstance(items[-1], CmdOutputObservation)
        assert items[-1].content == "one\ntwo"


async def test_files_go_in_and_out(
    hub: RunningHub, window: OpenedWindow, project: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/data").write_bytes(b"\0" * (3 << 20))
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    async with runtime(hub) as box:
        await box.copy_to(source, "in", recursive=True)
        assert (project / "in/source/sub/data").stat().st_size == 3 << 20
        assert (await box.run("in/source/run.sh")).content == "ran"
        assert await box.list_files("in/source") == ["sub/", "run.sh"]
        back = await box.download_to("in/source", tmp_path / "back")
        assert {path.name for path in back} >= {"data", "run.sh"}
        assert (tmp_path / "back/sub/data").read_bytes() == b"\0" * (3 << 20)
        with pytest.raises(TransferError, match="not in the workspace"):
            await box.copy_to(source / "run.sh", "/etc")
        window.window.says = broken_disk
        with pytest.raises(BoxUnreachable):  # half an archive is not passed off as a whole one
            await box.copy_from("in/source")


async def test_a_repository_is_cloned_set_up_and_compared(
    hub: RunningHub, window: OpenedWindow, project: Path, tmp_path: Path
) -> None:
    origin = tmp_path / "origin/thing"
    (origin / ".openhands/microagents").mkdir(parents=True)
    (origin / ".openhands/setup.sh").write_text("export SET_UP=yes\n")
    (origin / ".openhands/pre-commit.sh").write_text("exit 0\n")
    (origin / ".openhands/microagents/repo.md").write_text("---\nname: repo\n---\nBe kind.\n")
    (origin / "a.txt").write_text("before\n")
    for script in ("setup.sh", "pre-commit.sh"):
        (origin / ".openhands" / script).chmod(0o755)
    git = "git init -q -b main && git add . && git commit -qm first"
    await asyncio.to_thread(subprocess.run, git, shell=True, cwd=origin, check=True)
    async with runtime(hub) as box:
        assert await initialize_repository(box, url=str(origin)) == "thing"
        assert (await box.run("echo $SET_UP; pwd")).content == f"yes\n{project}/thing"
        assert (project / "thing/.git/hooks/pre-commit").exists()
        (project / "thing/a.txt").write_text("after\n")
        changes = await box.get_git_changes(str(project / "thing"))
        assert changes is not None
        assert [(one.status, one.path) for one in changes] == [("M", "a.txt")]
        diff = await box.get_git_diff("a.txt", str(project / "thing"))
        assert (diff.original, diff.modified) == ("before", "after")
        agents = await get_microagents_from_selected_repo(box, "owner/thing")
        assert [(one.name, one.content) for one in agents] == [("repo", "Be kind.")]


async def test_variables_are_set_at_the_start_and_later(
    hub: RunningHub, window: OpenedWindow, home: Path
) -> None:
    odd = "a 'b' \"c\" $HOME\nd"
    async with runtime(hub, BoxSpec(env={"GREETING": odd})) as box:
        assert (await box.run('printf "%s" "$GREETING"')).content == odd
        await box.add_env_vars({"later": "on"})
        assert (await box.run("echo $LATER")).content == "on"
    assert "export LATER=on" in (home / ".bashrc").read_text()
    with pytest.raises(BadSpec, match="not-a-name"):
        await runtime(hub, BoxSpec(env={"not-a-name": "x"})).connect()


def test_the_same_without_an_event_loop(hub: RunningHub, window: OpenedWindow, project: Path) -> None:
    with SyncRuntime("vscode", settings=settings(hub)) as box:
        assert box.run("echo sync > file; cat file").content == "sync"
        assert box.list_files() == ["file"]


async def test_an_agent_with_a_name_is_announced_and_leaves_nothing(
    hub: RunningHub, window: OpenedWindow, project: Path
) -> None:
    spec = BoxSpec(agent="My agent", env={"GIVEN": "yes"}, labels={STAY: "its-stay"})
    async with runtime(hub, spec) as box:
        assert (await box.run("mkdir sub; cd sub; export LEFT=over; echo $GIVEN")).content == "yes"
        [info] = [one for one in await VSCodeBackend(settings(hub)).boxes() if one.name == window.id]
        assert info.labels["agent"] == "My agent"
        assert (await VSCodeBackend(settings(hub)).attach("its-stay")).name == window.id
    assert window.window.hands.stay is None
    async with runtime(hub) as box:
        assert (await box.run('pwd; echo "[$LEFT$GIVEN]"')).content == f"{project}\n[]"


async def test_the_users_of_several_windows_choose_for_an_agent_with_a_name(
    hub: RunningHub, window: OpenedWindow, tmp_path: Path
) -> None:
    async def allow(order: Arrive) -> bool:
        return True

    with connected_window(hub, tmp_path / "other") as second:
        with pytest.raises(WindowRefused, match="My agent was not allowed"):
            await runtime(hub, BoxSpec(agent="My agent")).connect()
        second.window.hands.answer = allow
        async with runtime(hub, BoxSpec(agent="My agent")) as box:
            assert box.name == second.id


async def test_a_start_that_is_cancelled_withdraws_its_questions(
    hub: RunningHub, window: OpenedWindow, tmp_path: Path
) -> None:
    async def hesitate(order: Arrive) -> bool:
        await asyncio.Event().wait()
        return True

    with connected_window(hub, tmp_path / "other") as second:
        both = (window.window, second.window)
        for one in both:
            one.hands.answer = hesitate
        starting = asyncio.create_task(runtime(hub, BoxSpec(agent="My agent")).connect())
        await until(lambda: all(any(isinstance(order, Arrive) for order in one.begun) for one in both))
        starting.cancel()
        await until(lambda: all(one.cancelled for one in both))


async def test_two_windows_do_not_get_in_each_others_way(
    hub: RunningHub, window: OpenedWindow, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with connected_window(hub, other) as second:
        with pytest.raises(SeveralWindows) as several:
            await runtime(hub).connect()
        for word in (window.id, second.id, str(project), str(other)):
            assert word in str(several.value)
        async with (
            runtime(hub, BoxSpec(workspace=str(project))) as one,
            runtime(hub, BoxSpec(name="other")) as two,
        ):
            await asyncio.gather(
                *(box.run(f"echo {number} >> mine") for number in range(5) for box in (one, two))
            )
            assert (await one.run("pwd")).content == str(project)
            assert (await two.run("pwd")).content == str(other)
            assert len((other / "mine").read_text().split()) == 5
        async with runtime(hub, BoxSpec(name=second.id)) as by_id:
            assert by_id.workspace == str(other)


# What goes wrong.


async def test_a_window_that_comes_back_in_time_goes_on(
    hub: RunningHub, window: OpenedWindow, project: Path
) -> None:
    async with runtime(hub) as box:
        running = asyncio.create_task(
            box.run("until [ -e go ]; do sleep 0.02; done; echo after", timeout=30, blocking=True)
        )
        await until(lambda: bool(window.window.begun), "the command")
        await asyncio.to_thread(window.call, window.window.break_off())
        await asyncio.to_thread(hub.wait_for, window.id, "away")
        reading = asyncio.create_task(box.list_files())
        (project / "go").touch()
        await asyncio.to_thread(window.call, window.window.connect())
        assert (await running).content == "after"
        assert await reading == ["go"]


async def test_a_window_that_stays_away_is_lost(hub: RunningHub, window: OpenedWindow) -> None:
    sandbox = await VSCodeBackend(settings(hub)).attach(window.id)
    async with runtime(hub) as box:
        running = asyncio.create_task(box.run("while :; do sleep 0.05; done", timeout=60, blocking=True))
        await until(lambda: bool(window.window.begun), "the command")
        await asyncio.to_thread(window.call, window.window.break_off())
        with pytest.raises(WindowLost):
            await running
        await asyncio.to_thread(hub.wait_for, window.id, "gone")
        assert (await sandbox.info()).state == "missing"


async def test_a_user_who_pauses_or_leaves_is_told_of(hub: RunningHub, window: OpenedWindow) -> None:
    async with runtime(hub) as box:
        assert (await box.run("echo here")).content == "here"
        window.window.paused = True
        await asyncio.to_thread(window.call, window.window.change())
        with pytest.raises(WindowPaused):
            await box.run("echo paused")
        with pytest.raises(NoWindow, match="paused"):
            await runtime(hub).connect()
        window.window.paused = False
        await asyncio.to_thread(window.call, window.window.change())
        running = asyncio.create_task(box.run("while :; do sleep 0.05; done", timeout=60, blocking=True))
        await until(lambda: sum(isinstance(one, Run) for one in window.window.begun) == 2, "the command")
        await asyncio.to_thread(window.call, window.window.leave("Enough for today."))
        with pytest.raises(WindowLeft, match="Enough"):
            await running


async def test_answers_that_make_no_sense_and_none_at_all(hub: RunningHub, window: OpenedWindow) -> None:
    def nonsense(order_id: str, order: Order) -> list[dict[str, Any]]:
        return [{"kind": "succeeded", "id": order_id, "number": 1, "answer": {"kind": "written"}}]

    async with runtime(hub) as box:
        window.window.says = nonsense
        with pytest.raises(BadWindowAnswer):
            await box.read("a.txt")
        window.window.says = lambda order_id, order: None
        window.window.silent = True
        late = await box.run("echo never", timeout=0.5, blocking=True)
        assert isinstance(late, CmdOutputObservation)
        assert "timed out after 0.5 seconds" in late.metadata.suffix


async def test_a_connection_that_breaks_does_not_run_a_command_twice(
    hub: RunningHub, window: OpenedWindow, project: Path
) -> None:
    async with cutter(hub.url) as proxy:
        told = settings(hub, GLOVEBOX_HUB_URL=proxy.url, GLOVEBOX_HUB_KEY=hub.key)
        async with Runtime("vscode", settings=told) as box:
            command = "echo once >> count; until [ -e go ]; do sleep 0.02; done; cat count"
            running = asyncio.create_task(box.run(command, timeout=30, blocking=True))
            await until((project / "count").exists, "the command")
            proxy.cut()
            (project / "go").touch()
            assert (await running).content == "once"


async def test_a_hub_that_is_restarted_interrupts_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with (
        running_hub(tmp_path, "--heartbeat", "0.4", "--grace", "20") as own,
        opened_window(own.url, own.key, tmp_path / "project") as window,
    ):
        async with runtime(own) as box:
            running = asyncio.create_task(box.run("while :; do sleep 0.05; done", timeout=60, blocking=True))
            await until(lambda: bool(window.window.begun), "the command")
            await asyncio.to_thread(own.restart, signal.SIGKILL)
            with pytest.raises(Interrupted):
                await running
            await asyncio.to_thread(own.wait_for, window.id, "connected")
            assert (await box.run("echo again", session="other")).content == "again"


# The backend.


async def test_without_a_hub_it_says_how_to_start_one(tmp_path: Path) -> None:
    nothing = VSCodeBackend(host.load({"HOME": str(tmp_path)}))
    with pytest.raises(NoHub, match="glovebox hub"):
        await nothing.start(BoxSpec(), Silent())
    with pytest.raises(NoSuchBox, match="glovebox hub"):
        await nothing.attach("x")
    assert await nothing.boxes() == []
    assert await nothing.sweep() == []
    gone = VSCodeBackend(
        host.load({"HOME": str(tmp_path), "GLOVEBOX_HUB_URL": f"http://127.0.0.1:{free_port()}"})
    )
    with pytest.raises(NoHub, match="GLOVEBOX_HUB_URL"):
        await gone.start(BoxSpec(), Silent())
    with pytest.raises(NoHub):
        await gone.boxes()
    left = tmp_path / ".local/state/glovebox/hub/address.json"
    left.parent.mkdir(parents=True)
    left.write_text("{")
    with pytest.raises(NoHub, match="cannot be read"):
        await nothing.start(BoxSpec(), Silent())


async def test_something_else_at_its_address_is_no_hub(tmp_path: Path) -> None:
    async with talking(said("200 OK", b'{"hello": 1}')) as url:
        other = VSCodeBackend(host.load({"HOME": str(tmp_path), "GLOVEBOX_HUB_URL": url}))
        with pytest.raises(NoHub, match="is no hub"):
            await other.start(BoxSpec(), Silent())


async def test_without_a_window_it_says_how_to_connect_one(hub: RunningHub, tmp_path: Path) -> None:
    with pytest.raises(NoWindow, match=r"Glovebox: Connect"):
        await runtime(hub).connect()
    wrong = settings(hub, GLOVEBOX_HUB_KEY="wrong")
    with pytest.raises(InvalidKey, match="GLOVEBOX_HUB_KEY"):
        await Runtime("vscode", settings=wrong).connect()
    with connected_window(hub, tmp_path / "project") as window:
        for spec in (BoxSpec(name="other"), BoxSpec(workspace=str(tmp_path))):
            with pytest.raises(NoWindow, match=f"(?s){window.id}.*Glovebox: Connect"):
                await runtime(hub, spec).connect()
        window.window.beating = False
        await asyncio.to_thread(hub.wait_for, window.id, "unresponsive")
        with pytest.raises(NoWindow, match="does not answer"):
            await runtime(hub).connect()


async def test_a_window_is_found_listed_and_never_ended(
    hub: RunningHub, window: OpenedWindow, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(project)
    backend = VSCodeBackend(settings(hub))
    sandbox = await backend.start(BoxSpec(workspace=str(tmp_path / "link")), Silent())
    assert sandbox.address.url == f"{hub.url}/vscode/windows/{window.id}"
    assert hub.key not in repr(sandbox.address)
    async with httpx.AsyncClient(base_url=sandbox.address.url, trust_env=False) as stranger:
        assert (await stranger.get("/sessions")).status_code == 403
    [info] = [one for one in await backend.boxes() if one.name == window.id]
    assert (info.name, info.state, info.workspace) == (window.id, "running", str(project))
    assert info.labels["workspace"] == "project"
    assert (await backend.attach("project")).name == (await backend.attach(window.id)).name == window.id
    with pytest.raises(NoSuchBox, match=window.id):
        await backend.attach("nobody")
    await sandbox.delete()
    await sandbox.resume()
    for refused in (sandbox.pause, sandbox.stop):
        with pytest.raises(NotSupported):
            await refused()
    with pytest.raises(NotSupported):
        [line async for line in sandbox.logs()]
    assert (await sandbox.info()).state == "running"
    window.window.paused = True
    await asyncio.to_thread(window.call, window.window.change())
    assert (await sandbox.info()).state == "paused"
    with pytest.raises(NotSupported, match="Resume Agent"):
        await sandbox.resume()


@pytest.mark.parametrize(
    "spec",
    [
        BoxSpec(image="x"),
        BoxSpec(volumes=(Mount(source="/a", target="/b"),)),
        BoxSpec(plugins=("jupyter",)),
        BoxSpec(browser=True),
        BoxSpec(memory=1),
        BoxSpec(isolation="bubblewrap"),
        BoxSpec(ports={80: 0}),
        BoxSpec(arguments=("--x",)),
    ],
)
async def test_what_a_window_cannot_be_is_refused(hub: RunningHub, spec: BoxSpec) -> None:
    with pytest.raises(NotSupported, match="VS Code window is what it is"):
        await VSCodeBackend(settings(hub)).start(spec, Silent())
