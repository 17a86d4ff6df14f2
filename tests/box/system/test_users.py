"""Accounts and workspaces, with the real tools, in a mount namespace where /etc and /home are copies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from glovebox.box.system.users import ensure_directory, ensure_user, give_directory
from glovebox.errors import StartupError
from tests.support.running import ADDRESS

NAMESPACE = """
set -e
cp -a /etc "$1/etc" && mount --bind "$1/etc" /etc
mkdir -p "$1/home" && chmod 755 "$1/home" && mount --bind "$1/home" /home
shift
exec "$@"
"""


def can_make_users() -> bool:
    if os.geteuid() != 0:
        return False
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount --bind /etc /etc && useradd --help"], capture_output=True
    )
    return tried.returncode == 0


def serve(room: Path, *flags: str) -> subprocess.Popen[str]:
    """A box in a namespace of its own."""
    command = ["unshare", "-m", "sh", "-c", NAMESPACE, "sh", str(room)]
    command += [sys.executable, "-m", "glovebox", "serve", "0", *flags]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(room),
        "GLOVEBOX_VIEWER_URL_FILE": str(room / "viewer"),
    }
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.fixture
def new_user_box(tmp_path: Path) -> Iterator[httpx.Client]:
    flags = ("--working-dir", "/home/work", "--username", "gloveboxer", "--user-id", "12345")
    process = serve(tmp_path, *flags)
    assert process.stdout is not None
    with process.stdout as lines:
        found = next((match for line in lines if (match := ADDRESS.search(line))), None)
        assert found, "the box did not start"
        with httpx.Client(base_url=found[1], trust_env=False, timeout=30) as client:
            yield client
        process.terminate()
        process.wait(15)


def run(client: httpx.Client, command: str) -> str:
    body = {"action": {"action": "run", "args": {"command": command}}}
    content: str = client.post("/execute_action", json=body).json()["content"]
    return content


@pytest.mark.skipif(not can_make_users(), reason="needs root, unshare and useradd")
def test_a_missing_user_is_created_and_gets_the_shell_the_workspace_and_new_files(
    new_user_box: httpx.Client, tmp_path: Path
) -> None:
    assert (
        run(new_user_box, 'echo "$(id -un) $(id -u) $(id -gn) $HOME"')
        == "gloveboxer 12345 root /home/gloveboxer"
    )
    assert run(new_user_box, "stat -c '%U %G %A' /home/work").startswith("gloveboxer root drwxrw")
    body = {"action": {"action": "write", "args": {"path": "new.txt", "content": "x"}}}
    assert new_user_box.post("/execute_action", json=body).json()["observation"] == "write"
    assert (
        run(new_user_box, "stat -c '%u %g %a' new.txt; echo more >> new.txt && wc -l < new.txt")
        == "12345 12345 664\n2"
    )
    assert "%sudo ALL=(ALL) NOPASSWD:ALL" in (tmp_path / "etc" / "sudoers").read_text()


def test_an_existing_user_is_left_alone_and_keeps_its_id() -> None:
    assert ensure_user("root", 1000) == 0
    assert ensure_user("nobody", 4711) != 4711


@pytest.mark.skipif(os.geteuid() == 0, reason="root would create it")
def test_only_root_can_create_a_user() -> None:
    with pytest.raises(StartupError, match="only root can create it"):
        ensure_user("no-such-user-here", 4711)


def test_a_workspace_is_made_with_its_parents(tmp_path: Path) -> None:
    ensure_directory(str(tmp_path / "a" / "b"))
    ensure_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_workspace_is_given_away_with_all_in_it_but_not_what_links_lead_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    workspace = tmp_path / "workspace"
    (workspace / "deep" / "er").mkdir(parents=True)
    (workspace / "deep" / "file").write_text("")
    (workspace / "link").symlink_to(outside)
    give_directory(str(workspace), 12345, "0")
    given = [
        workspace,
        workspace / "deep",
        workspace / "deep" / "er",
        workspace / "deep" / "file",
        workspace / "link",
    ]
    assert {path.lstat().st_uid for path in given} == {12345}
    assert outside.stat().st_uid == 0
    assert workspace.stat().st_mode & 0o060 == 0o060


def test_a_group_that_does_not_exist_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    give_directory(str(tmp_path), os.geteuid(), "no-such-group-here")
    assert "no-such-group-here" in caplog.text
