"""`glovebox hub`: what it says, what it leaves on disk, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from glovebox.errors import SettingsError
from glovebox.settings import host
from glovebox.settings import hub as settings
from tests.hub.hubs import RunningHub, environment, running_hub
from tests.hub.window_client import OpenedWindow, opened_window
from tests.support.waiting import LIMIT


def start(home: Path, *flags: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A hub that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "glovebox", "hub", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment(home), **more},
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def registered(hub: RunningHub, folder: Path) -> str:
    """The secret of a window that has registered."""
    opened = OpenedWindow(hub.url, hub.key, folder)
    opened.call(opened.window.register())
    opened.close()
    return opened.window.secret


def test_a_hub_makes_up_a_key_and_keeps_it_with_all_it_knows_from_others(tmp_path: Path) -> None:
    state = tmp_path / "state/glovebox/hub"
    with running_hub(tmp_path, key="") as hub:
        announced = json.loads(hub.address_file.read_text())
        assert announced == {"url": hub.url, "key": announced["key"], "pid": hub.process.pid}
        assert len(announced["key"]) == 64
        assert host.load(environment(tmp_path)).hub_file == hub.address_file
        hub.key = hub.client.headers["X-Session-API-Key"] = announced["key"]
        secret = registered(hub, tmp_path)
        assert len(hub.windows()) == 1
        assert mode(state) == 0o700
        assert {mode(file) for file in state.iterdir()} == {0o600}
        assert secret not in (state / "windows.json").read_text()
        assert hub.end() == 0
    assert not hub.address_file.exists()
    (state / "windows.json").write_text("{]")
    with running_hub(tmp_path, key="") as again:
        assert json.loads(again.address_file.read_text())["key"] == announced["key"]
        again.client.headers["X-Session-API-Key"] = announced["key"]
        assert again.windows() == []


def test_a_second_hub_says_which_one_is_there(tmp_path: Path) -> None:
    with running_hub(tmp_path) as hub:
        second = start(tmp_path, "0")
        assert second.returncode == 3
        assert f"process {hub.process.pid}, {hub.url}" in second.stderr
        taken = start(tmp_path, str(hub.port), "--state-dir", str(tmp_path / "other"))
        assert taken.returncode == 3
        assert f"Cannot listen on 127.0.0.1 port {hub.port}" in taken.stderr
        assert hub.address_file.exists()


def test_a_killed_hub_is_followed_by_another_and_what_that_announced_stays(tmp_path: Path) -> None:
    with running_hub(tmp_path) as hub:
        hub.end(signal.SIGKILL)
        assert hub.address_file.exists()
        hub.start(port=0)
        announced = json.loads(hub.address_file.read_text())
        assert announced["pid"] == hub.process.pid
        hub.address_file.write_text(json.dumps({**announced, "pid": 1}))
        hub.end()
        assert hub.address_file.exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("many",), "not a port"),
        (("--heartbeat", "0"), "positive number of seconds"),
        (("--grace", "nan"), "positive number of seconds"),
        (("--key-file", "/nowhere"), "cannot read /nowhere"),
        (("--log-level", "LOUD"), "LOUD"),
    ],
)
def test_settings_that_cannot_be_are_refused(flags: tuple[str, ...], words: str) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    with pytest.raises(SettingsError, match=words):
        settings.load(vars(parser.parse_args(flags)), {})


def test_a_wrong_setting_ends_the_command_with_a_sentence(tmp_path: Path) -> None:
    ended = start(tmp_path, GLOVEBOX_HUB_KEY="two words")
    assert ended.returncode == 2
    assert ended.stderr.startswith("glovebox: The key of the hub")
    ended = start(tmp_path, "0", NO_CHANGE_TIMEOUT_SECONDS="soon")
    assert ended.returncode == 3
    assert "NO_CHANGE_TIMEOUT_SECONDS" in ended.stderr


def test_a_flag_wins_over_its_variable_and_a_variable_over_the_default(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-the-file\n")
    variables = {"GLOVEBOX_HUB_PORT": "1", "GLOVEBOX_HUB_GRACE": "2.5", "GLOVEBOX_HUB_KEY": "k", "HOME": "/h"}
    chosen = settings.load({"port": "3", "key": str(tmp_path / "key")}, variables)
    assert (chosen.port, chosen.grace, chosen.key, chosen.heartbeat) == (3, 2.5, "from-the-file", 10.0)
    assert chosen.state_dir == "/h/.local/state/glovebox/hub"
    assert "from-the-file" not in repr(chosen)


def test_a_hub_listens_where_it_is_told_and_takes_a_key_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-the-file-0123456789\n")
    flags = ("--host", "0.0.0.0", "--key-file", str(tmp_path / "key"))
    with running_hub(tmp_path, *flags, key="") as hub:
        assert hub.url.startswith("http://127.0.0.1:")
        hub.client.headers["X-Session-API-Key"] = "from-the-file-0123456789"
        assert hub.windows() == []


def test_glovebox_run_runs_a_command_in_the_shell_of_a_window(hub: RunningHub, tmp_path: Path) -> None:
    """A window has no processes of its own."""
    with opened_window(hub.url, hub.key, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "glovebox", "run", "--backend", "vscode", "--", "sh", "-c", "pwd; exit 3"],
            capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
            env=environment(tmp_path) | {"GLOVEBOX_HUB_URL": hub.url, "GLOVEBOX_HUB_KEY": hub.key},
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, f"{tmp_path}\n"), done.stderr


def test_glovebox_ls_shows_how_windows_are(hub: RunningHub, tmp_path: Path) -> None:
    def state() -> str:
        listed = subprocess.run(
            [sys.executable, "-m", "glovebox", "ls", "--backend", "vscode"],
            env=environment(hub.home),
            capture_output=True,
            text=True,
            timeout=60,
        )
        row = next(line for line in listed.stdout.splitlines() if line.startswith(opened.id))
        return re.split(r" {2,}", row)[2]

    with opened_window(hub.url, hub.key, tmp_path) as opened:
        assert state() == "connected"
        opened.window.hands.trusted = False
        opened.call(opened.window.change())
        assert state() == "connected, read only"
        opened.call(opened.window.begin_reload())
        assert state() == "reloading, read only"
