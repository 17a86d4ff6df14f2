"""Whether a key can be read from outside the process that has it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.bundle.images import first_process
from tests.hub.hubs import running_hub
from tests.support.running import RunningBox, announced, running_box, wait_until
from tests.support.users import PYTHON_PATH, usable_interpreter

pytestmark = pytest.mark.attack

KEY = "a-key-that-nobody-may-see-0123456789"
OTHERS = {
    "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a-header-that-nobody-may-see",
    "GLOVEBOX_PLUGIN_EXAMPLE_TOKEN": "a-token-that-nobody-may-see",
    "GLOVEBOX_HUB_KEY": "a-hub-key-that-nobody-may-see",
}
SECRET = b"nobody-may-see"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def family(pid: int) -> list[int]:
    """A process and all that came from it."""
    process = psutil.Process(pid)
    return [pid, *(child.pid for child in process.children(recursive=True))]


def shown(pid: int) -> bytes:
    """What the system shows of how a process was started."""
    directory = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):  # it has ended
        return (directory / "environ").read_bytes() + (directory / "cmdline").read_bytes()
    return b""


def assert_hidden(pid: int) -> None:
    members = family(pid)
    assert shown(pid)
    assert [member for member in members if SECRET in shown(member)] == []


def test_no_process_of_a_box_shows_a_secret_of_its_environment(tmp_path: Path) -> None:
    environment = {**OTHERS, "HARMLESS": "as-it-was"}
    with running_box(tmp_path / "workspace", key=KEY, environment=environment) as box:
        assert box.run("echo $HARMLESS; env | grep -c may-see || true").split() == ["as-it-was", "0"]
        box.execute("run", command="sleep 60 &")
        assert len(family(box.process.pid)) > 2
        assert_hidden(box.process.pid)
        assert b"HARMLESS=as-it-was" in shown(box.process.pid)
        assert box.client.get("/sessions", headers={"X-Session-API-Key": "wrong"}).status_code == 403


def test_no_process_of_a_hub_shows_its_key(tmp_path: Path) -> None:
    with running_hub(tmp_path, key=KEY) as hub:
        assert hub.windows() == []
        assert_hidden(hub.process.pid)


@needs_root
def test_where_the_system_lets_no_process_erase_them_it_is_started_again_without(tmp_path: Path) -> None:
    """As in a sandbox whose `/proc` is not that of Linux."""
    script = 'mount -t tmpfs none /proc && exec "$@"'
    serve = [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(tmp_path / "workspace")]
    environment = {**os.environ, **OTHERS, "SESSION_API_KEY": KEY}
    environment["GLOVEBOX_VIEWER_URL_FILE"] = str(tmp_path / "viewer")
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, "sh", *serve],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            box = RunningBox(process, announced(process), KEY, tmp_path)
            with box.client:
                assert_hidden(process.pid)
                assert box.client.get("/sessions").status_code == 200
                assert box.client.get("/sessions", headers={"X-Session-API-Key": ""}).status_code == 403
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(15)


@needs_root
def test_the_first_process_of_a_container_does_not_show_them_either(tmp_path: Path) -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", "glovebox"]
    environment = {"PATH": os.environ["PATH"], "SESSION_API_KEY": KEY, **OTHERS}
    environment["GLOVEBOX_VIEWER_URL_FILE"] = str(tmp_path / "viewer")
    with subprocess.Popen(
        [*command, "serve", "0", "--working-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        box = RunningBox(process, announced(process), KEY, tmp_path)
        with box.client, _killed(process):
            assert_hidden(first_process(process))
            wait_until(lambda: is_closed(first_process(process)), what="the first process to be closed")
            wait_until(lambda: is_closed(family(first_process(process))[1]), what="the server to be closed")
            asked = (
                'for p in /proc/[0-9]*; do tr "\\0" "\\n" < $p/environ; done 2>/dev/null | grep -c may-see'
            )
            assert box.run(f"{asked} || true") == "0"
            os.kill(first_process(process), signal.SIGTERM)
        assert process.wait(15) == 0


@contextlib.contextmanager
def _killed(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process with all that it started, if something else goes wrong."""
    try:
        yield
    except BaseException:
        process.kill()
        raise


def is_closed(pid: int) -> bool:
    """Whether root cannot look into a process, without the capabilities that containers do not have."""
    look = ["setpriv", "--bounding-set=-all", "cat", f"/proc/{pid}/environ"]
    return subprocess.run(look, capture_output=True, check=False).returncode != 0


@contextlib.contextmanager
def box_of_nobody() -> Iterator[RunningBox]:
    """A box whose server and commands are the same user's, and not root's."""
    python = usable_interpreter("nobody", "msgspec", "starlette", "httptools", "uvicorn", "psutil")
    directory = Path(tempfile.mkdtemp(prefix="glovebox-test-"))
    shutil.chown(directory, "nobody")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "PYTHONPATH": PYTHON_PATH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "SESSION_API_KEY": KEY,
        "GLOVEBOX_VIEWER_URL_FILE": str(directory / "viewer"),
    }
    try:
        with subprocess.Popen(
            [python, "-m", "glovebox", "serve", "0", "--working-dir", str(directory), "--no-enable-browser",
             "--state-dir", str(directory / "state")],
            stdout=subprocess.PIPE, text=True, env=environment,
            user="nobody", group="nogroup", extra_groups=[],
        ) as process:  # fmt: skip
            try:
                box = RunningBox(process, announced(process), KEY, directory)
                with box.client:
                    yield box
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(15)
    finally:
        shutil.rmtree(directory)


@needs_root
def test_a_command_cannot_look_into_the_server_of_its_own_user() -> None:
    with box_of_nobody() as box:
        pid = box.process.pid
        assert box.run("id -un") == "nobody"
        wait_until(lambda: Path(f"/proc/{pid}/environ").stat().st_uid == 0, what="the server to be closed")
        for path in ("environ", "mem", "maps", "fd", "auxv", "exe", "cwd", "root", "io"):
            command = (
                f"ls /proc/{pid}/{path}/ >/dev/null 2>&1 || head -c 1 /proc/{pid}/{path} >/dev/null 2>&1"
            )
            observation = box.execute("run", command=command)
            assert observation["extras"]["metadata"]["exit_code"] != 0, path
        # What it starts can be looked into by its user, as ever.
        assert box.run("head -c 4 /proc/$$/environ | wc -c; readlink /proc/self/exe | wc -l").split() == [
            "4",
            "1",
        ]


@needs_root
def test_a_server_that_cannot_be_looked_into_works_as_before() -> None:
    """Its own files in `/proc` belong to root now."""
    with box_of_nobody() as box:
        wait_until(lambda: Path(f"/proc/{box.process.pid}/environ").stat().st_uid == 0, what="the server")
        assert box.run("echo hello > file; cat file") == "hello"
        used = box.client.get("/server_info").json()["resources"]
        assert used["memory"]["rss"] > 0
        assert used["io"]["write_bytes"] > 0
        assert b"glovebox" in box.client.get("/metrics").content
        created = box.client.post("/sessions", json={"name": "other"})
        assert created.status_code == 201, created.text
        answer = box.client.post(
            "/execute_action",
            json={"action": {"action": "run", "args": {"command": "cat"}, "timeout": 2}},
        )
        assert answer.status_code == 200
        assert '"processes"' in box.client.get("/metrics/system", params={"count": 1}).text
