"""Boxes that bubblewrap keeps away from the rest of the machine."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from glovebox.backends.process.bubblewrap import SHARED
from glovebox.client.backend import Reporter, Sandbox, Silent
from glovebox.client.spec import Mount
from glovebox.errors import BadSpec, BoxDied, NoIsolation, NotSupported
from tests.backends.conftest import CLIENT, PROCESS, ROOT, Place, client_of, killed, run, started
from tests.backends.test_process import boxes_of, doing, is_clear, server_of
from tests.box.notebook.test_environment import make_wheel
from tests.server.test_viewer_attacks import VIEW, Seen
from tests.support.running import running_box
from tests.support.users import PYTHON_PATH, usable_interpreter
from tests.support.waiting import until

HOME = Path("~").expanduser()


@pytest.fixture
def isolated(processes: Place) -> Place:
    processes.common["isolation"] = "bubblewrap"
    return processes


@pytest.fixture
def secret_at_home() -> Iterator[Path]:
    """A file of the user's that no box has to see."""
    with tempfile.NamedTemporaryFile(dir=HOME, prefix=".glovebox-test-") as file:
        yield Path(file.name)


async def test_the_box_sees_the_system_read_only_and_nothing_of_the_user(
    isolated: Place, tmp_path: Path, secret_at_home: Path
) -> None:
    isolated.environ["OF_THE_USER"] = "secret"
    (tmp_path / "beside").write_text("secret")
    async with started(isolated.make(), isolated.spec(env={"GIVEN": "here"})) as sandbox:
        key = sandbox.address.key
        for path in (
            secret_at_home,
            tmp_path / "beside",
            ROOT / "pyproject.toml",
            "/run/lock",
            "/sys/kernel",
        ):
            assert await run(sandbox, f"test -e '{path}' && echo seen || echo hidden") == "hidden"
        for path in ("/usr/x", "/etc/x", "/opt/x", f"{sys.prefix}/x"):
            assert await run(sandbox, f"(: >> {path}) 2>/dev/null && echo opened || echo kept") == "kept"
        for path in (f"/tmp/{secret_at_home.name}", "~/x", "/workspace/x"):
            assert await run(sandbox, f"echo x > {path} && cat {path}") == "x"
        assert not os.access(f"/tmp/{secret_at_home.name}", os.F_OK)
        assert await run(sandbox, "echo $GIVEN-$OF_THE_USER-$HOME") == f"here--{HOME}"
        # All processes in sight are the box's own, and none of them gives away the key.
        assert await run(sandbox, "echo $$; test $(ls -d /proc/[0-9]* | wc -l) -lt 20 && echo few") == (
            f"{await run(sandbox, 'echo $$')}\nfew"
        )
        pattern = f"[{key[0]}]{key[1:]}"  # which does not find itself
        found = await run(
            sandbox,
            f"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -ac '{pattern}' || true",
        )
        assert found == "0"
    assert is_clear(isolated)


@pytest.mark.skipif(os.geteuid() != 0, reason="others cannot do these things anyway")
async def test_cells_install_packages_in_the_home_of_the_box(isolated: Place, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "mine")
    volume = Mount(source=str(wheel), target=f"/mnt/{wheel.name}", mode="ro")
    spec = isolated.spec(plugins=("jupyter",), volumes=(volume,))
    async with started(isolated.make(), spec) as sandbox, client_of(sandbox) as client:
        code = f"%pip install --no-index /mnt/{wheel.name}\nimport mine; print(mine.__file__)"
        action = {"action": "run_ipython", "args": {"code": code}}
        answer = await client.post("/execute_action", json={"action": action})
        assert f"\n{HOME}/.local/share/glovebox/kernel-" in answer.json()["content"]


async def test_root_in_the_box_is_not_root_of_the_machine(isolated: Place) -> None:
    # Files of the kernel are opened and never written to: if this fails, it must not change the machine.
    files = " ".join(_settings_of_the_kernel())
    async with started(isolated.make(), isolated.spec()) as sandbox:
        assert (
            await run(sandbox, f"for file in {files}; do (: >> $file) 2>/dev/null && echo $file; done; true")
            == ""
        )
        read = await run(
            sandbox, "cat /proc/sys/kernel/ostype; cat /etc/shadow /proc/kmsg 2>/dev/null | wc -c"
        )
        assert read == "Linux\n0"
        for attempt in (
            "mount -t tmpfs none /mnt",
            "mount --bind /tmp /usr",
            "mknod /tmp/disk b 8 0",
            "hostname elsewhere",
            "unshare --mount true",
            "unshare --user --map-root-user --pid --fork --mount --mount-proc true",
            "unshare --user --map-root-user --mount mount -o remount,rw,bind /proc/sys",
            "unshare --user --map-root-user --mount umount /proc/sys",
        ):
            assert (
                await run(sandbox, f"{attempt} >/dev/null 2>&1 && echo done || echo refused") == "refused"
            ), attempt


def _settings_of_the_kernel() -> list[str]:
    found = [path for path in Path("/proc/sys/kernel").iterdir() if path.stat().st_mode & 0o200]
    found += [path for path in map(Path, ("/proc/sysrq-trigger", "/proc/mtrr")) if path.exists()]
    assert found
    return [str(path) for path in found if path.is_file()]


async def test_what_a_box_shares_with_the_machine_is_told_when_it_starts(
    isolated: Place, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str]] = []
    report = Reporter(lambda level, status, message: told.append((level, message)), None)
    with caplog.at_level("INFO"):
        sandbox = await isolated.make().start(isolated.spec(), report)
    await sandbox.delete()
    assert ("warning", SHARED) in told
    assert f"{sandbox.name}: {SHARED}" in caplog.text


async def asked_from(sandbox: Sandbox, addresses: list[str], **headers: str) -> list[Seen]:
    """What a program in a box is answered."""
    program, given = (
        base64.b64encode(text.encode()).decode() for text in (VIEW, json.dumps([addresses, headers]))
    )
    printed = await run(
        sandbox,
        f"echo {program} | base64 -d > ~/view.py && echo {given} | base64 -d | {sys.executable} -I ~/view.py",
    )
    return [Seen(*json.loads(line)) for line in printed.splitlines()]


@pytest.mark.attack
async def test_a_box_does_not_get_at_the_key_of_another_over_the_network_of_the_machine(
    isolated: Place, tmp_path: Path
) -> None:
    """The whole way out: over loopback to the viewer of a box outside, to its key, to a shell there."""
    with running_box(tmp_path / "outside") as outside:
        url_file = tmp_path / "outside-viewer-url"
        announced = urlsplit(url_file.read_text())
        viewer, server = f"http://127.0.0.1:{announced.port}", outside.process.pid
        async with started(isolated.make(), isolated.spec()) as sandbox:
            own = await run(sandbox, "cat /tmp/oh-server-url")
            # The address of the other viewer is out of sight; its port is not, since the network is shared.
            assert await run(sandbox, f"cat {url_file} 2>/dev/null || echo hidden") == "hidden"
            assert str(announced.port) not in own
            listening = await run(sandbox, "cat /proc/net/tcp")
            assert f"0100007F:{announced.port:04X} " in listening
            # Links in its own /tmp, which lies in a directory of the machine.
            await run(sandbox, f"ln -s /proc/{server}/environ /tmp/y.pdf; ln -s /proc/{server} /tmp/process")
            shared = boxes_of(isolated) / sandbox.name / "tmp"
            assert (shared / "y.pdf").is_symlink()
            paths = [
                f"{shared}/y.pdf",
                f"{shared}/process/environ",
                f"/proc/{server}/environ",
                "/proc/self/environ",
            ]
            seen = await asked_from(sandbox, [f"{viewer}/view?path={path}" for path in [*paths, url_file]])
            assert {answer.status for answer in seen} == {404}
            # Nor would it help to know the address.
            known = [f"{viewer}{announced.path}/view?path={path}" for path in paths]
            seen += await asked_from(sandbox, known)
            assert {answer.status for answer in seen[-len(paths) :]} == {500}
            # What it has found is no key.
            for key in ("", sandbox.address.key, own.rpartition("/")[2], announced.path[1:]):
                seen += await asked_from(sandbox, [f"{outside.url}/list_files"], **{"X-Session-API-Key": key})
                assert seen[-1].status == 403
            assert not any(outside.key in answer.text for answer in seen)


async def test_each_box_has_a_viewer_that_only_its_own_tmp_tells_of(isolated: Place) -> None:
    backend = isolated.make()
    async with started(backend, isolated.spec()) as one, started(backend, isolated.spec()) as other:
        addresses = []
        for sandbox in (one, other):
            addresses.append(await run(sandbox, "cat /tmp/oh-server-url"))
            assert await run(sandbox, "stat -c '%a %u' /tmp/oh-server-url") == f"600 {os.geteuid()}"
            [answer] = await asked_from(sandbox, addresses[-1:])
            assert answer.text == '{"status":"File viewer server is running"}'
            kept = boxes_of(isolated) / sandbox.name / "tmp" / "oh-server-url"
            assert kept.read_text() == addresses[-1]
        assert addresses[0] != addresses[1]


async def test_volumes_are_mounted_as_they_are_asked_for(isolated: Place, tmp_path: Path) -> None:
    for name in ("shared", "shown"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    volumes = (
        Mount(source=str(tmp_path / "shared"), target="/data/shared"),
        Mount(source=str(tmp_path / "shown"), target="/data/shown", mode="ro"),
    )
    async with started(isolated.make(), isolated.spec(volumes=volumes)) as sandbox:
        assert await run(sandbox, "cat /data/*/file") == "sharedshown"
        assert await run(sandbox, "echo new > /data/shared/new; touch /data/shown/new 2>&1 || echo kept") == (
            "touch: cannot touch '/data/shown/new': Read-only file system\nkept"
        )
    assert (tmp_path / "shared" / "new").read_text() == "new\n"
    assert not (tmp_path / "shown" / "new").exists()


async def test_mounts_that_cannot_be_are_refused(isolated: Place, tmp_path: Path) -> None:
    for mount in (
        Mount(source="a-volume", target="/data"),
        Mount(source="/no/such/path", target="/data"),
        Mount(source=str(tmp_path), target="data"),
        Mount(source=str(tmp_path), target="/data", mode="sometimes"),
    ):
        with pytest.raises((BadSpec, NotSupported)):
            await isolated.make().start(isolated.spec(volumes=(mount,)), Silent())
    assert is_clear(isolated)


async def test_an_overlay_keeps_changes_in_the_box_or_is_refused(isolated: Place, tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    lower.mkdir()
    (lower / "file").write_text("before")
    spec = isolated.spec(volumes=(Mount(source=str(lower), target="/data", mode="overlay"),))
    if "--overlay-src" not in (await _help()):
        with pytest.raises(NotSupported, match="overlay"):
            await isolated.make().start(spec, Silent())
        assert is_clear(isolated)
        return
    async with started(isolated.make(), spec) as sandbox:
        assert await run(sandbox, "echo after > /data/file; cat /data/file") == "after"
        assert (lower / "file").read_text() == "before"


async def _help() -> str:
    done = await asyncio.to_thread(subprocess.run, ["bwrap", "--help"], capture_output=True, text=True)
    return done.stdout


async def test_everything_ends_with_a_server_that_is_killed_and_begins_again(isolated: Place) -> None:
    async with started(isolated.make(), isolated.spec()) as sandbox:
        sleep = f"sleep {secrets.randbelow(10**8) + 10**8}"  # which nobody else does
        await run(sandbox, f"echo kept > file; (setsid env -i {sleep} &)")
        await until(lambda: doing(sleep), "the command")
        async with client_of(sandbox) as client:  # first the holder goes, who would have ended it
            action = {"action": "run", "args": {"command": "kill -KILL $PPID"}}
            await client.post("/execute_action", json={"action": action})
        assert doing(sleep)
        await asyncio.to_thread(killed, server_of(isolated))
        await until(lambda: _state(sandbox, "stopped"), "its end")
        assert not doing(sleep)
        await sandbox.resume()
        assert await run(sandbox, "cat file") == "kept"
    assert is_clear(isolated)


async def _state(sandbox: Sandbox, state: str) -> bool:
    return (await sandbox.info()).state == state


async def test_a_missing_bubblewrap_is_told(isolated: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoIsolation, match="apt-get install bubblewrap"):
        await isolated.make().start(isolated.spec(), Silent())
    assert is_clear(isolated)


async def test_a_bubblewrap_that_may_not_isolate_is_told(
    isolated: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(NoIsolation, match="user namespaces"):
        await isolated.make().start(isolated.spec(), Silent())
    assert is_clear(isolated)


async def test_an_environment_that_serves_brings_its_interpreter(
    isolated: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)  # as if it were not installed
    launcher, base = tmp_path / "venv/bin/glovebox", tmp_path / "interpreter"
    for directory in (launcher.parent, base / "bin"):
        directory.mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.11\n")
    launcher.write_text(f"#!/bin/sh\ntest -d {base}/bin && echo it is seen\n")
    launcher.chmod(0o755)
    isolated.environ["GLOVEBOX_BUNDLE"] = str(tmp_path / "venv")
    with pytest.raises(BoxDied, match="it is seen"):
        await isolated.make().start(isolated.spec(), Silent())


async def test_a_box_with_a_browser_sees_the_chromium_of_playwright(isolated: Place, tmp_path: Path) -> None:
    (tmp_path / "browsers").mkdir()
    isolated.environ["PLAYWRIGHT_BROWSERS_PATH"] = str(tmp_path / "browsers")
    for browser, seen in ((True, "seen"), (False, "hidden")):
        async with started(isolated.make(), isolated.spec(browser=browser)) as sandbox:
            look = "test -d $PLAYWRIGHT_BROWSERS_PATH && echo seen || echo hidden"
            assert await run(sandbox, look) == seen


AS_SOMEBODY = """
async def act(backend, spec):
    import httpx
    box = await backend.start(spec, Silent())
    try:
        action = {"action": {"action": "run", "args": {"command": "id -u; touch /usr/x; echo x > x; cat x"}}}
        headers = {"X-Session-API-Key": box.address.key}
        url = f"{box.address.url}/execute_action"
        print(httpx.post(url, json=action, headers=headers, trust_env=False, timeout=60).json()["content"])
    finally:
        await box.delete()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start something as somebody else")
async def test_a_user_without_rights_can_isolate_too(isolated: Place) -> None:
    directory = Path(tempfile.mkdtemp(prefix="glovebox-test-"))
    shutil.chown(directory, "nobody")
    try:
        done = await asyncio.to_thread(_as_nobody, isolated, directory)
    finally:
        shutil.rmtree(directory)
    assert done.stdout.startswith("65534\n"), done.stderr
    assert "Read-only file system" in done.stdout
    assert done.stdout.splitlines()[-1] == "x"


def _as_nobody(place: Place, directory: Path) -> subprocess.CompletedProcess[str]:
    import msgspec

    python = usable_interpreter("nobody", "glovebox", "msgspec", "starlette", "httpx")
    return subprocess.run(
        [python, "-c", CLIENT.format(act=AS_SOMEBODY), PROCESS, msgspec.json.encode(place.spec()).decode()],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": PYTHON_PATH, "HOME": str(directory)},
        cwd="/",
        user="nobody",
        group="nogroup",
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.attack
async def test_no_process_of_the_box_shows_a_secret(isolated: Place) -> None:
    """bubblewrap itself stays for as long as the box, with the environment that it was given."""
    secret = secrets.token_hex()
    isolated.environ["GLOVEBOX_PLUGIN_EXAMPLE_TOKEN"] = f"token-{secret}"
    isolated.environ["OTEL_EXPORTER_OTLP_HEADERS"] = f"api-key={secret}"
    async with started(isolated.make(), isolated.spec(key=f"key-{secret}")) as sandbox:
        assert await run(sandbox, "cat /proc/1/environ 2>/dev/null | grep -c GLOVEBOX_PLUGIN || true") == "0"
        assert not await asyncio.to_thread(_shown, secret.encode())


def _shown(secret: bytes) -> list[str]:
    """The processes of this machine that the system shows a text of."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for what in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                if secret in Path(f"/proc/{pid}/{what}").read_bytes():
                    found.append(pid)
    return found
