"""Accounts and workspaces, with the real tools, in a mount namespace where /etc and /home are copies."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from glovebox import settings
from glovebox.box.system.users import ensure_directory, ensure_user, give_directory
from glovebox.errors import SettingsError, StartupError
from tests.support.running import ADDRESS

#: Runs a command below a root of its own, with the machine's directories in it, copies of /etc and /home, and
#: no sign of a container but those that are named.
NAMESPACE = """
set -e
room=$1 signs=$2 root=$1/root && shift 2
mkdir -p "$root" "$room/home" && chmod 755 "$root" "$room/home"
[ -d "$room/etc" ] || cp -a /etc "$room/etc"
for entry in /*; do
    if [ -L "$entry" ]; then cp -a "$entry" "$root"
    elif [ -d "$entry" ]; then mkdir -p "$root$entry" && mount --rbind "$entry" "$root$entry"; fi
done
mount -t tmpfs tmpfs "$root/run"
echo 0::/ > "$room/cgroup" && mount --bind "$room/cgroup" "$root/proc/1/cgroup"
mount --bind "$room/etc" "$root/etc" && mount --bind "$room/home" "$root/home"
for sign in $signs; do mkdir -p "$(dirname "$root$sign")" && touch "$root$sign"; done
exec chroot "$root" "$@"
"""
BY_HAND = 'mount --bind /dev/null "$(command -v useradd)" && exec "$@"'
CONTAINER = "/.dockerenv"
USER = ("--username", "gloveboxer", "--user-id", "12345")
RULE = "#12345 ALL=(ALL) NOPASSWD:ALL\n"


def can_make_users() -> bool:
    if os.geteuid() != 0:
        return False
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount --bind /etc /etc && useradd --help"], capture_output=True
    )
    return tried.returncode == 0


def in_namespace(room: Path, signs: str, command: list[str]) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(room),
        "GLOVEBOX_VIEWER_URL_FILE": str(room / "viewer"),
    }
    return subprocess.Popen(
        ["unshare", "-m", "sh", "-c", NAMESPACE, "sh", str(room), signs, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def serve_command(*flags: str, by_hand: bool = False) -> list[str]:
    prefix = ["sh", "-c", BY_HAND, "sh"] if by_hand else []
    return [*prefix, sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", "/home/work", *flags]


@contextlib.contextmanager
def serving(room: Path, *flags: str, signs: str = "", by_hand: bool = False) -> Iterator[httpx.Client]:
    """A box in a namespace of its own."""
    process = in_namespace(room, signs, serve_command(*flags, by_hand=by_hand))
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        with process.stdout as lines, process.stderr:
            found = next((match for line in lines if (match := ADDRESS.search(line))), None)
            assert found, f"the box did not start: {process.stderr.read()}"
            with httpx.Client(base_url=found[1], trust_env=False, timeout=60) as client:
                yield client
            process.terminate()
            process.wait(60)
    finally:
        process.kill()
        process.wait()


def refusal(room: Path, *flags: str, signs: str = "") -> str:
    """What a box that does not start says."""
    with in_namespace(room, signs, serve_command(*flags)) as process:
        printed, said = process.communicate(timeout=60)
    assert process.returncode not in (0, None), printed
    return said


def text_of(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def run(client: httpx.Client, command: str) -> str:
    body = {"action": {"action": "run", "args": {"command": command}}}
    content: str = client.post("/execute_action", json=body).json()["content"]
    return content


needs_accounts = pytest.mark.skipif(not can_make_users(), reason="needs root, unshare and useradd")


@needs_accounts
@pytest.mark.parametrize("by_hand", [False, True], ids=["useradd", "by hand"])
def test_a_missing_user_is_created_and_gets_the_shell_the_workspace_and_new_files(
    tmp_path: Path, by_hand: bool
) -> None:
    with serving(tmp_path, *USER, by_hand=by_hand) as box:
        account = run(box, 'echo "$(id -un) $(id -u) $(id -Gn) $(id -g) $HOME"')
        assert account == "gloveboxer 12345 gloveboxer 12345 /home/gloveboxer"
        assert run(box, "stat -c '%U %G' /home/gloveboxer") == "gloveboxer gloveboxer"
        assert run(box, "stat -c '%U %G %A' /home/work").startswith("gloveboxer root drwxrw")
        body = {"action": {"action": "write", "args": {"path": "new.txt", "content": "x"}}}
        assert box.post("/execute_action", json=body).json()["observation"] == "write"
        assert (
            run(box, "stat -c '%u %g %a' new.txt; echo more >> new.txt && wc -l < new.txt")
            == "12345 12345 664\n2"
        )


@needs_accounts
@pytest.mark.attack
@pytest.mark.parametrize("by_hand", [False, True], ids=["useradd", "by hand"])
@pytest.mark.parametrize("signs", ["", CONTAINER], ids=["machine", "container"])
def test_a_user_that_is_created_cannot_become_root(tmp_path: Path, signs: str, by_hand: bool) -> None:
    before = text_of(Path("/etc/sudoers"))
    with serving(tmp_path, *USER, signs=signs, by_hand=by_hand) as box:
        assert run(box, "id -Gn") == "gloveboxer"
    assert text_of(tmp_path / "etc" / "sudoers") == before
    assert not list((tmp_path / "etc").glob("sudoers.d/glovebox*"))


@needs_accounts
@pytest.mark.parametrize("by_hand", [False, True], ids=["useradd", "by hand"])
@pytest.mark.parametrize("sign", [CONTAINER, "/run/.containerenv", "/etc/glovebox/container"])
def test_in_a_container_sudo_is_for_the_one_user_it_was_asked_for(
    tmp_path: Path, sign: str, by_hand: bool
) -> None:
    before = text_of(Path("/etc/sudoers"))
    with serving(tmp_path, *USER, "--sudo", signs=sign, by_hand=by_hand) as box:
        assert run(box, "id -gn") == "root"
    assert text_of(tmp_path / "etc" / "sudoers") == before
    (rule,) = (tmp_path / "etc" / "sudoers.d").glob("*glovebox*")
    assert (rule.name, rule.read_text()) == ("glovebox-12345", RULE)
    assert (rule.stat().st_mode & 0o7777, rule.stat().st_uid) == (0o440, 0)
    with serving(tmp_path, *USER, "--sudo", signs=sign):
        pass  # with the account and the rule in place


@needs_accounts
@pytest.mark.attack
def test_a_machine_that_is_no_container_gets_no_sudoer(tmp_path: Path) -> None:
    assert "not a container" in refusal(tmp_path, *USER, "--sudo")
    assert "not a container" in refusal(tmp_path / "other", "--username", "nobody", "--sudo")
    for room in (tmp_path, tmp_path / "other"):
        assert not list((room / "etc").glob("sudoers.d/*glovebox*"))
        assert text_of(room / "etc" / "sudoers") == text_of(Path("/etc/sudoers"))
        assert "gloveboxer" not in (room / "etc" / "passwd").read_text()


@needs_accounts
@pytest.mark.attack
@pytest.mark.parametrize("name", ["-o", "a:b", "x\nroot2:x:0:0::/:/bin/sh", "..", "a/b", "a b"])
def test_what_is_no_name_makes_no_account(tmp_path: Path, name: str) -> None:
    said = refusal(tmp_path, f"--username={name}", "--sudo", signs=CONTAINER)
    assert "cannot be the name of a user" in said
    assert (tmp_path / "etc" / "passwd").read_bytes() == Path("/etc/passwd").read_bytes()


def test_sudo_needs_a_user() -> None:
    with pytest.raises(SettingsError, match="--username"):
        settings.load({"sudo": True}, {})


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
