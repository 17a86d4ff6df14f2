"""Boxes that are processes of this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glovebox.backends.process.records import BoxRecord, BoxRecords
from glovebox.client.backend import Silent
from glovebox.client.spec import BoxSpec, Mount
from glovebox.errors import BadSpec, DeadlineExceeded, NoSuchBox, NotSupported
from tests.backends.conftest import Place, client_of, is_there, killed, mentioning, run, started
from tests.support.running import wait_until

START_AND_WAIT = (
    "async def act(backend, spec):\n"
    "    await backend.start(spec, Silent())\n"
    "    print('started', flush=True)\n"
    "    await asyncio.sleep(600)"
)


def boxes_of(place: Place) -> Path:
    return Path(place.environ["XDG_STATE_HOME"]) / "glovebox" / "boxes"


def server_of(place: Place) -> int:
    """The process that serves the one box there is; the first of a namespace has started it."""
    serving = []
    for pid in mentioning(boxes_of(place)):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"serve" in words and b"bwrap" not in words[0]:
            serving.append(pid)
    parents = [int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in serving]
    [server] = [pid for pid in serving if pid not in parents]
    return server


def told_to(pid: int) -> str:
    """The command line and the environment of a process."""
    return "\n".join(Path(f"/proc/{pid}/{file}").read_text() for file in ("cmdline", "environ"))


def doing(command: str) -> list[int]:
    """The processes that do something."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if words == [word.encode() for word in command.split()] and is_there(int(path.parent.name)):
            found.append(int(path.parent.name))
    return found


def is_clear(place: Place) -> bool:
    """Whether no box has left anything."""
    return not mentioning(boxes_of(place)) and not list(boxes_of(place).glob("*"))


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"image": "debian"}, NotSupported),
        ({"build": "."}, NotSupported),
        ({"network": "host"}, NotSupported),
        ({"networks": ("a",)}, NotSupported),
        ({"runtime": "runsc"}, NotSupported),
        ({"memory": 1 << 30}, NotSupported),
        ({"cpus": 1.0}, NotSupported),
        ({"pids": 100}, NotSupported),
        ({"volumes": (Mount(source="/usr", target="/x"),)}, NotSupported),
        ({"ports": {8080: 9090}}, NotSupported),
        ({"user": "nobody-of-this-name"}, BadSpec),
        ({"workspace": "/no/such/directory"}, BadSpec),
        ({"arguments": ("--log-json",)}, BadSpec),
    ],
)
async def test_what_a_process_cannot_be_is_refused(
    processes: Place, wanted: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await processes.make().start(processes.spec(**wanted), Silent())
    assert is_clear(processes)


async def test_what_is_known_of_it_is_private_and_the_key_is_nowhere_else(processes: Place) -> None:
    processes.environ |= {"SESSION_API_KEY": "the-key-of-another", "LOG_JSON": "true", "SANDBOX_ENV_A": "b"}
    async with started(processes.make(), processes.spec()) as sandbox:
        directory = boxes_of(processes) / sandbox.name
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / "box.json").stat().st_mode) == 0o600
        key = sandbox.address.key
        assert key in (directory / "box.json").read_text()
        await run(sandbox, "true")
        pids = mentioning(boxes_of(processes))
        assert len(pids) >= 3  # the server, the holder, the shell
        assert not [pid for pid in pids if key in told_to(pid)]
        variables = (await run(sandbox, "env")).splitlines()
        assert not [line for line in variables if line.startswith(("SESSION_API_KEY", "SANDBOX_ENV_"))]
    assert is_clear(processes)


async def test_a_start_that_takes_too_long_is_given_up(processes: Place) -> None:
    with pytest.raises(DeadlineExceeded):
        await processes.make().start(processes.spec(start_limit=0.05), Silent())
    assert is_clear(processes)


@pytest.mark.parametrize("isolation", ["", "bubblewrap"])
async def test_a_client_that_is_killed_while_it_starts_a_box_leaves_nothing(
    processes: Place, isolation: str
) -> None:
    boxes = boxes_of(processes)
    moments: list[Callable[[], bool]] = [
        boxes.exists,
        lambda: any(boxes.glob("*/box.log")),
        lambda: bool(mentioning(boxes)),
    ]
    for moment in moments:
        with processes.client(START_AND_WAIT, processes.spec(isolation=isolation)):
            await asyncio.to_thread(wait_until, moment, 20)
        await processes.make().sweep()
        assert is_clear(processes)


@pytest.mark.parametrize("isolation", ["", "bubblewrap"])
async def test_a_client_that_is_killed_during_a_command_leaves_nothing(
    processes: Place, tmp_path: Path, isolation: str
) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    spec = processes.spec(workspace=str(workspace), isolation=isolation, name="busy")
    with processes.client(START_AND_WAIT, spec) as client:
        assert client.stdout is not None
        assert await asyncio.to_thread(client.stdout.readline) == "started\n"
        sandbox = await processes.make().attach("busy")
        sleep = f"sleep {secrets.randbelow(10**8) + 10**8}"  # which nobody else does
        command = f"setsid env -i {sleep} & (trap '' TERM HUP; {sleep}) & touch begun; {sleep}"
        running = asyncio.create_task(run(sandbox, command))
        await asyncio.to_thread(wait_until, lambda: len(doing(sleep)) == 3, 20, "three commands")
    running.cancel()
    assert await processes.make().sweep() == ["busy"]
    assert not doing(sleep)
    assert is_clear(processes)
    assert (workspace / "begun").exists()


async def test_a_server_that_is_killed_is_started_again_and_its_shells_go_on(processes: Place) -> None:
    async with started(processes.make(), processes.spec()) as sandbox:
        await run(sandbox, "kept=here")
        await asyncio.to_thread(killed, server_of(processes))
        assert (await sandbox.info()).state == "stopped"
        await sandbox.resume()
        assert (await sandbox.info()).state == "running"
        assert await run(sandbox, "echo $kept") == "here"
    assert is_clear(processes)


async def test_shells_end_soon_after_a_server_that_nobody_starts_again(processes: Place) -> None:
    async with started(processes.make(), processes.spec(arguments=("--orphan-seconds", "1"))) as sandbox:
        await run(sandbox, "true")
        await asyncio.to_thread(killed, server_of(processes))
        await asyncio.to_thread(wait_until, lambda: not mentioning(boxes_of(processes)), 20)
        assert (await sandbox.info()).state == "stopped"


async def test_what_a_killed_server_and_a_killed_holder_leave_is_ended(processes: Place) -> None:
    async with started(processes.make(), processes.spec()) as sandbox:
        await run(sandbox, "setsid sleep 1003 & true")
        shells = str(boxes_of(processes) / sandbox.name / "shells")
        server = server_of(processes)
        [holder] = [
            pid
            for pid in mentioning(boxes_of(processes))
            if pid != server and shells in told_to(pid) and "GLOVEBOX_BOX" not in told_to(pid)
        ]
        await asyncio.to_thread(killed, holder)
        await asyncio.to_thread(killed, server)
        assert mentioning(boxes_of(processes))
    assert is_clear(processes)


async def test_a_paused_box_whose_server_is_killed_can_be_resumed_and_deleted(processes: Place) -> None:
    async with started(processes.make(), processes.spec()) as sandbox:
        await run(sandbox, "kept=here")
        server = server_of(processes)
        await sandbox.pause()
        await asyncio.to_thread(killed, server)
        await sandbox.resume()
        assert await run(sandbox, "echo $kept") == "here"
        await sandbox.pause()
    assert is_clear(processes)


async def test_a_job_that_was_stopped_before_a_pause_stays_stopped(processes: Place) -> None:
    async with started(processes.make(), processes.spec()) as sandbox:
        await run(sandbox, "sleep 1004 & job=$!; kill -STOP $job")
        await sandbox.pause()
        await sandbox.resume()
        assert await run(sandbox, "ps -o stat= -p $job | cut -c1") == "T"


async def test_a_sandbox_that_was_deleted_is_not_the_next_one_of_its_name(processes: Place) -> None:
    backend = processes.make()
    first = await backend.start(processes.spec(name="same"), Silent())
    await first.delete()
    async with started(backend, processes.spec(name="same")) as second:
        await first.delete()
        assert (await first.info()).state == "missing"
        assert (await second.info()).state == "running"


async def test_a_directory_without_a_record_is_nobodys_and_goes(processes: Place) -> None:
    (boxes_of(processes) / "half-made" / "workspace").mkdir(parents=True)
    assert await processes.make().boxes() == []
    assert is_clear(processes)


async def test_a_directory_that_commands_have_closed_goes_too(processes: Place) -> None:
    async with started(processes.make(), processes.spec()) as sandbox:
        await run(sandbox, "mkdir -p a/b && touch a/b/c && chmod 500 a/b a && ln -s / root")
    assert is_clear(processes)


async def test_the_box_is_told_apart_from_a_later_process_of_its_number(processes: Place) -> None:
    async with started(processes.make(), processes.spec(keep=True)) as sandbox:
        record = boxes_of(processes) / sandbox.name / "box.json"
        server = server_of(processes)
        os.kill(server, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: not is_there(server))
        # As if the number had come round again: this very process has it now.
        record.write_text(record.read_text().replace(f'"pid":{server}', f'"pid":{os.getpid()}'))
        assert (await sandbox.info()).state == "stopped"
        await sandbox.pause()  # which would stop this process
        await sandbox.stop()  # which would end it
    assert is_clear(processes)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that any user can enter."""
    path = Path(tempfile.mkdtemp(prefix="glovebox-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")
async def test_commands_can_be_another_users(processes: Place, open_directory: Path) -> None:
    with pytest.raises(BadSpec, match="workspace"):
        await processes.make().start(processes.spec(user="games"), Silent())
    spec = processes.spec(user="games", user_id=5, workspace=str(open_directory))
    async with started(processes.make(), spec) as sandbox:
        assert await run(sandbox, "id -un; touch mine") == "games"
        assert (open_directory / "mine").owner() == "games"
    assert is_clear(processes)


async def test_without_what_serves_a_box_a_bundle_is_used(
    processes: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)  # as if it were not installed
    if not os.access("/opt/glovebox/bin/glovebox", os.X_OK):
        with pytest.raises(NotSupported, match=r"pip install 'glovebox-runtime\[box\]'"):
            await processes.make().start(processes.spec(), Silent())
    launcher = tmp_path / "bundle" / "bin" / "glovebox"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\nexport BUNDLED=yes\nexec {sys.executable} -m glovebox "$@"\n')
    launcher.chmod(0o755)
    processes.environ["GLOVEBOX_BUNDLE"] = str(tmp_path / "bundle")
    async with started(processes.make(), processes.spec()) as sandbox:
        assert await run(sandbox, "echo $BUNDLED") == "yes"


async def test_several_boxes_start_at_once(processes: Place) -> None:
    backend = processes.make()
    sandboxes = await asyncio.gather(*(backend.start(processes.spec(), Silent()) for _ in range(5)))
    try:
        assert len({sandbox.address.url for sandbox in sandboxes}) == 5
        for sandbox in sandboxes:
            async with client_of(sandbox) as client:
                assert (await client.get("/alive")).status_code == 200
    finally:
        await asyncio.gather(*(sandbox.delete() for sandbox in sandboxes))
    assert is_clear(processes)


@pytest.mark.attack
@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b'{"spec":', b"[" * 100_000, None])
def test_a_damaged_record_hides_its_box_and_no_other(
    damage: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = BoxRecords(tmp_path)
    for name in ("damaged", "intact"):
        records.create(BoxRecord(spec=BoxSpec(name=name), owner="me", created=1.0))
    record = tmp_path / "boxes" / "damaged" / "box.json"
    record.unlink()
    if damage is None:
        record.mkdir()
    else:
        record.write_bytes(damage)
    assert {one.name for one in records.directories()} == {"damaged", "intact"}
    assert records.find("intact").read().spec.name == "intact"
    with pytest.raises(NoSuchBox):
        records.find("damaged")
    assert str(record) in caplog.text
    assert record.exists()
