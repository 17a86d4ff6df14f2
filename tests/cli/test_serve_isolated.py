"""`glovebox serve --isolation`, and `make run`, which uses it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.backends.conftest import mentioning
from tests.support.waiting import LIMIT, wait_until

ROOT = Path(__file__).parents[2]
SERVE = (sys.executable, "-m", "glovebox", "serve", "0")
ISOLATED = "bubblewrap isolates the box: it sees "
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")


class Served:
    """A server that a person has started, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str], key: str) -> None:
        self.process = process
        assert process.stdout is not None
        self.lines: list[str] = []
        for line in process.stdout:
            self.lines.append(line.rstrip())
            if found := re.search(r"on (http://\S+) \(ready", line):
                headers = {"X-Session-API-Key": key}
                self.client = httpx.Client(base_url=found[1], headers=headers, timeout=60, trust_env=False)
                return
        raise AssertionError(f"it does not serve: {self.lines}")

    def run(self, command: str) -> str:
        action = {"action": {"action": "run", "args": {"command": command}}}
        content: str = self.client.post("/execute_action", json=action).json()["content"]
        return content

    def stop(self, number: signal.Signals) -> str:
        """The last of what it prints."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=LIMIT)
        return rest


@contextlib.contextmanager
def serving(*command: str, key: str = "", **variables: str) -> Iterator[Served]:
    # The tests may have been started by make: a make that knows it prints where it is.
    foreign = ("GLOVEBOX_", "MAKE", "MFLAGS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**inherited, **({"SESSION_API_KEY": key} if key else {}), **variables},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with process:
        try:
            yield Served(process, key)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # make does not take what it runs with it


@needs_bubblewrap
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_box_is_served_from_within_bubblewrap_until_it_is_stopped(
    tmp_path: Path, number: signal.Signals
) -> None:
    workspace, secret = tmp_path / "made", tmp_path / "secret"
    secret.write_text("of the user")
    flags = ("--isolation", "bubblewrap", "--working-dir", str(workspace), "--no-enable-browser")
    with serving(*SERVE, *flags, key="a key of the user", OF_THE_USER="secret") as served:
        assert served.lines[0] == f"{ISOLATED}{workspace} and little else of this machine."
        assert served.run(f"pwd; cat {secret}; echo x > y").splitlines()[0] == str(workspace)
        assert (workspace / "y").read_text() == "x\n"
        assert served.run("echo $OF_THE_USER-$SESSION_API_KEY") == "-"
        assert "No such file" in served.run(f"cat {secret}")
        assert "Goodbye" in served.stop(number)
        assert served.process.returncode == 0
    wait_until(lambda: not mentioning(workspace), what="the end of the box")
    assert list(Path("/tmp").glob(f"glovebox-serve-*/home/{workspace.name}")) == []


@needs_bubblewrap
def test_a_server_that_is_killed_takes_its_box_with_it(tmp_path: Path) -> None:
    with serving(*SERVE, "--isolation", "auto", "--working-dir", str(tmp_path)) as served:
        served.run("sleep 1000 & echo begun")
        served.process.kill()
        served.process.wait()
        wait_until(lambda: not mentioning(tmp_path), what="the end of the box")


def test_without_bubblewrap_it_is_said_that_nothing_isolates(tmp_path: Path) -> None:
    flags = ("--working-dir", str(tmp_path), "--isolation")
    path = f"{tmp_path}/bin"
    (tmp_path / "bin").mkdir()
    for program in ("bash", "git", "ps", "cat"):
        if found := shutil.which(program):
            (tmp_path / "bin" / program).symlink_to(found)
    with serving(*SERVE, *flags, "auto", PATH=path) as served:
        assert served.lines[0].startswith("The box is NOT isolated (bubblewrap is not installed): ")
        assert served.run("echo served") == "served"
    refused = subprocess.run(
        [*SERVE, *flags, "bubblewrap"], env={"PATH": path}, capture_output=True, text=True, timeout=LIMIT
    )
    assert refused.returncode == 3
    assert refused.stderr.startswith("glovebox: bubblewrap is not installed. ")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("isolation", ["none", pytest.param("auto", marks=needs_bubblewrap)])
def test_make_run_serves_a_box_without_the_variables_of_make(tmp_path: Path, isolation: str) -> None:
    if not (ROOT / ".venv/bin/glovebox").exists():
        pytest.skip("nothing is installed in .venv")
    # Nothing is installed for a test: what is there counts as new enough.
    make = ("make", "-k", "-o", ".venv/.run", "run", "PORT=0", f"WORKSPACE={tmp_path}", "PLUGINS=")
    with serving(*make, f"ISOLATION={isolation}") as served:
        assert served.lines[0].startswith(ISOLATED if isolation == "auto" else "Glovebox serves ")
        left = served.run("env | grep -E '^(MAKE|MFLAGS|PORT=|WORKSPACE=|PLUGINS=|ISOLATION=)'; echo end")
        assert left == "end"
        (tmp_path / "Makefile").write_text("all:\n\t@echo made\n")
        if shutil.which("make") == "/usr/bin/make":
            assert served.run("make") == "made"


@pytest.mark.parametrize(
    "isolation", ["none", pytest.param("bubblewrap", marks=needs_bubblewrap)], ids=["plain", "isolated"]
)
def test_a_box_with_a_key_from_standard_input_sees_folders_and_stops_when_that_is_closed(
    tmp_path: Path, isolation: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    key = "k" * 32
    flags = ("--isolation", isolation, "--working-dir", str(first), "--folder", str(second))
    process = subprocess.Popen(
        [*SERVE, "--stop-with-stdin", "--session-api-key-file", "-", *flags],
        env={name: value for name, value in os.environ.items() if not name.startswith("GLOVEBOX_")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(f"{key}\n")
        process.stdin.flush()
        served = Served(process, key)
        assert served.run(f"echo made > {second}/by_box && pwd") == str(first)
        assert (second / "by_box").read_text() == "made\n"
        process.stdin.close()
        assert process.wait(LIMIT) == 0
    assert mentioning(first) == []
