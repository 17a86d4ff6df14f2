"""The file with the viewer's address: whose it is, who can read it, and what may stand in its place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from glovebox.server.viewer.address_file import AddressFile
from tests.server.viewer_server import started_viewer
from tests.support.running import announced, running_box
from tests.support.users import public_directory

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else, too")


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def answers(url: str) -> bool:
    """Whether a viewer is at an address."""
    return httpx.get(f"{url.replace('localhost', '127.0.0.1')}/", trust_env=False).status_code == 200


def own_file(log: str) -> Path:
    """Where a server says that it has written its address."""
    return Path(log.partition("The file viewer's address is in ")[2].partition(",")[0])


async def test_the_address_is_written_without_a_newline_for_its_user_alone(tmp_path: Path) -> None:
    viewer = await started_viewer(tmp_path / "url")
    assert (tmp_path / "url").read_bytes() == viewer.url.encode()
    assert (tmp_path / "url").stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["url", "url.lock"]
    assert (tmp_path / "url.lock").read_text() == str(os.getpid())
    await viewer.close()
    assert names(tmp_path) == []


async def test_two_addresses_have_nothing_in_common_but_the_port(tmp_path: Path) -> None:
    tokens = set()
    for _ in range(3):
        viewer = await started_viewer(tmp_path / "url")
        base, _, token = viewer.url.rpartition("/")
        assert base == f"http://localhost:{viewer.port}"
        assert len(token) >= 22  # 128 bits
        tokens.add(token)
        await viewer.close()
    assert len(tokens) == 3


async def test_the_address_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        viewers = [await started_viewer(tmp_path / "url", state_dir=tmp_path) for _ in range(2)]
        for viewer in viewers:
            await viewer.close()
    assert "url" in caplog.text
    assert not any(viewer.url.rpartition("/")[2] in caplog.text for viewer in viewers)


def test_a_device_means_that_nobody_wants_to_know(caplog: pytest.LogCaptureFixture) -> None:
    address = AddressFile("/dev/null", user_id=os.geteuid())
    address.write("http://localhost:1/x")
    address.remove()
    assert Path("/dev/null").is_char_device()
    assert not Path("/dev/null.lock").exists()
    assert not caplog.text


async def test_a_planted_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("old")
    (tmp_path / "url").symlink_to("precious")
    viewer = await started_viewer(tmp_path / "url")
    assert not (tmp_path / "url").is_symlink()
    assert (tmp_path / "url").read_text() == viewer.url
    await viewer.close()
    assert (tmp_path / "precious").read_text() == "old"


async def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("old")
    (tmp_path / "url.lock").symlink_to("precious")
    viewer = await started_viewer(tmp_path / "url", state_dir=tmp_path)
    assert (tmp_path / "viewer-url").read_text() == viewer.url
    await viewer.close()
    assert (tmp_path / "precious").read_text() == "old"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", ["url", "url.lock"])
async def test_what_is_no_file_is_left_as_it_is(
    tmp_path: Path, name: str, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path / name)
    viewer = await started_viewer(tmp_path / "url", state_dir=tmp_path)
    assert (tmp_path / "viewer-url").read_text() == viewer.url
    assert await asyncio.to_thread(answers, viewer.url)
    assert own_file(caplog.text) == tmp_path / "viewer-url"
    await viewer.close()
    assert names(tmp_path) == [name]


async def test_an_address_that_cannot_be_written_is_not_fatal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    viewer = await started_viewer(tmp_path / "none" / "url")
    assert await asyncio.to_thread(answers, viewer.url)
    assert "The file viewer's address cannot be written" in caplog.text
    await viewer.close()
    assert names(tmp_path) == []


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody can enter, with one in it that everybody can write to, as /tmp."""
    with public_directory() as directory:
        (directory / "shared").mkdir()
        (directory / "shared").chmod(0o1777)
        yield directory


@as_root
@pytest.mark.attack
@pytest.mark.parametrize("kind", ["file", "link", "lock", "directory"])
async def test_what_another_user_has_planted_is_neither_trusted_nor_touched(
    public: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    shared = public / "shared"
    (public / "precious").write_text("root's")
    planted = shared / ("url.lock" if kind == "lock" else "url")
    if kind == "link":
        planted.symlink_to(public / "precious")
    elif kind == "directory":
        planted.mkdir()
    else:
        planted.write_text("http://localhost:1/elsewhere")
        planted.chmod(0o666)
    os.chown(planted, NOBODY, NOBODY, follow_symlinks=False)
    before = planted.lstat()
    viewer = await started_viewer(shared / "url")
    own = own_file(caplog.text)
    assert "belongs to another user (65534)" in caplog.text
    assert own.read_text() == viewer.url
    assert own.stat().st_mode & 0o777 == 0o600
    assert own.parent.stat().st_mode & 0o777 == 0o700
    await viewer.close()
    assert (planted.lstat().st_ino, planted.lstat().st_mtime) == (before.st_ino, before.st_mtime)
    assert names(shared) == [planted.name]
    assert (public / "precious").read_text() == "root's"
    assert not own.parent.exists()


@as_root
@pytest.mark.attack
async def test_the_file_is_the_sandbox_users_and_written_with_no_more_than_its_rights(
    public: Path, caplog: pytest.LogCaptureFixture
) -> None:
    viewer = await started_viewer(public / "shared" / "url", user_id=NOBODY)
    status = (public / "shared" / "url").stat()
    assert (status.st_uid, status.st_mode & 0o777) == (NOBODY, 0o600)
    await viewer.close()
    assert names(public / "shared") == []
    # Where that user may not write, root does not do it either: not even in its own state directory.
    (public / "roots").mkdir(mode=0o700)
    viewer = await started_viewer(public / "roots" / "url", state_dir=public / "roots", user_id=NOBODY)
    own = own_file(caplog.text)
    assert own.stat().st_uid == own.parent.stat().st_uid == NOBODY
    assert own.read_text() == viewer.url
    await viewer.close()
    assert names(public / "roots") == []
    assert not own.parent.exists()


@as_root
@pytest.mark.attack
def test_another_user_cannot_read_the_address(public: Path) -> None:
    address = AddressFile(str(public / "url"), user_id=os.geteuid())
    address.write("http://localhost:1/x")
    for name in ("url", "url.lock"):
        tried = subprocess.run(
            ["cat", public / name], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True
        )
        assert tried.returncode != 0
        assert tried.stdout == b""
    address.remove()


async def test_a_later_viewer_has_a_file_of_its_own_and_the_next_one_the_name_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await started_viewer(tmp_path / "url")
    second = await started_viewer(tmp_path / "url", state_dir=tmp_path)
    assert (tmp_path / "url").read_text() == first.url
    assert (tmp_path / "viewer-url").read_text() == second.url
    assert (
        f"The file viewer's address is in {tmp_path}/viewer-url, not in {tmp_path}/url: "
        f"a box that runs already has it (process {os.getpid()})"
    ) in caplog.text
    await first.close()
    third = await started_viewer(tmp_path / "url")
    assert (tmp_path / "url").read_text() == third.url
    await second.close()
    assert (tmp_path / "url").read_text() == third.url
    await third.close()
    assert names(tmp_path) == []


def test_a_lock_that_a_killed_server_has_left_to_a_child_is_not_respected(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("http://localhost:1/old")
    (tmp_path / "url").chmod(0o600)
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "url.lock").write_text(str(ended.pid))
    with locked(tmp_path / "url.lock"):
        address = AddressFile(str(tmp_path / "url"), user_id=os.geteuid())
        address.write("http://localhost:1/new")
        assert (tmp_path / "url").read_text() == "http://localhost:1/new"
        assert (tmp_path / "url.lock").read_text() == str(os.getpid())
        address.remove()
    assert names(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"9" * 40, b"0", b"-1", b"\xff\xfe", "\u0663".encode()])
def test_a_server_starts_whatever_a_lock_that_is_held_says(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "url.lock").write_bytes(content)
    with locked(tmp_path / "url.lock"):
        address = AddressFile(str(tmp_path / "url"), user_id=os.geteuid(), state_dir=str(tmp_path))
        address.write("http://localhost:1/new")
        dead = content.startswith(b"9")
        assert names(tmp_path) == (["url", "url.lock"] if dead else ["url.lock", "viewer-url"])
        address.remove()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """A lock that another process holds."""
    code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.communicate()


async def test_closing_leaves_what_is_at_the_place_by_then(tmp_path: Path) -> None:
    viewer = await started_viewer(tmp_path / "url")
    (tmp_path / "other").write_text("mine")
    (tmp_path / "other").rename(tmp_path / "url")
    await viewer.close()
    assert (tmp_path / "url").read_text() == "mine"


def test_two_servers_at_once_and_one_that_is_killed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "oh-server-url"
    environment = {"GLOVEBOX_VIEWER_URL_FILE": str(shared)}
    first = serve(tmp_path / "first", environment)
    try:
        announced(first)
        url = shared.read_text()
        with running_box(
            tmp_path / "second", "--state-dir", str(tmp_path / "state"), environment=environment
        ) as second:
            assert shared.read_text() == url
            assert answers(url)
            own = tmp_path / "state" / "viewer-url"
            assert own_file(capfd.readouterr().err) == own
            assert own.stat().st_mode & 0o777 == 0o600
            assert own.read_text() != url
            assert answers(own.read_text())
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert shared.read_text() == url  # what a killed server leaves
            with running_box(tmp_path / "third", environment=environment):
                assert shared.read_text() not in (url, own.read_text())
                assert answers(shared.read_text())
            assert not shared.exists()
            assert second.run("echo well") == "well"
        assert not own.exists()
    finally:
        first.kill()
        first.wait()
        assert first.stdout is not None
        first.stdout.close()


def serve(workspace: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """A box that will be killed."""
    workspace.mkdir()
    inherited = {name: value for name, value in os.environ.items() if name != "SESSION_API_KEY"}
    return subprocess.Popen(
        [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(workspace)],
        stdout=subprocess.PIPE,
        text=True,
        env={**inherited, "HOME": str(workspace), **environment},
    )
