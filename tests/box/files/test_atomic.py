from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.files.disk import atomic
from tests.box.files.editing import leftovers

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


def replace(path: Path, data: bytes) -> None:
    """Replace a file as the editor does."""
    atomic.replace(
        str(path), data, real=os.path.realpath(path), status=path.stat(), previous=path.read_bytes()
    )


def create(path: Path, data: bytes, mode: int | None = None, *, exclusive: bool = False) -> None:
    real = os.path.realpath(path)
    assert atomic.create(str(path), data, real=real, mode=mode, owner=None, exclusive=exclusive) is None


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that other users can get at."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Work as an ordinary user for a while."""
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@settings(deadline=None)
@given(st.binary(), st.binary(), st.sampled_from([0o600, 0o644, 0o664, 0o755, 0o4755]))
def test_a_replaced_file_has_the_new_content_and_the_old_mode(old: bytes, new: bytes, mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "f"
        path.write_bytes(old)
        path.chmod(mode)
        replace(path, new)
        assert path.read_bytes() == new
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert os.listdir(name) == ["f"]


def test_a_reader_keeps_the_content_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old" * 1000)
    with path.open("rb", buffering=0) as reader:
        assert reader.read(3) == b"old"
        replace(path, b"new")
        assert reader.read() == b"old" * 999


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    target = tmp_path / "sub/target"
    target.write_bytes(b"old")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("sub/target")
    replace(tmp_path / "one", b"new")
    assert target.read_bytes() == b"new"
    assert (tmp_path / "one").is_symlink()
    assert (tmp_path / "two").is_symlink()


def test_hard_links_stay_linked(tmp_path: Path) -> None:
    path, other = tmp_path / "f", tmp_path / "other"
    path.write_bytes(b"old and long")
    other.hardlink_to(path)
    replace(path, b"new")
    assert other.read_bytes() == b"new"
    assert path.samefile(other)


def test_extended_attributes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes for users")
    replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.getxattr(path, "user.note") == b"mine"


def test_a_kernel_file_is_written_in_place() -> None:
    path = Path("/proc/self/comm")
    name = path.read_bytes()
    replace(path, b"gloved")
    try:
        assert path.read_bytes() == b"gloved\n"
    finally:
        path.write_bytes(name)


@AS_ROOT
def test_owner_and_group_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    os.chown(path, 1234, 2345)
    replace(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


@AS_ROOT
def test_a_file_in_a_directory_that_is_not_writable_is_overwritten(public: Path) -> None:
    path = public / "f"
    path.write_bytes(b"old and long")
    os.chown(path, NOBODY, NOBODY)
    before = path.stat().st_ino
    with as_nobody():
        replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino == before


@AS_ROOT
def test_a_file_of_somebody_else_stays_theirs(public: Path) -> None:
    public.chmod(0o777)
    path = public / "f"
    path.write_bytes(b"old")
    path.chmod(0o666)
    with as_nobody():
        replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_uid == 0
    assert leftovers(public) == []


@AS_ROOT
def test_a_file_without_write_permission_is_not_replaced(public: Path) -> None:
    os.chown(public, NOBODY, NOBODY)
    path = public / "f"
    path.write_bytes(b"old")
    path.chmod(0o444)
    os.chown(path, NOBODY, NOBODY)
    with as_nobody(), pytest.raises(PermissionError) as caught:
        replace(path, b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"


FAILING = """
import os, resource, sys
from glovebox.box.files.disk import atomic
path, mode = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    if mode == "replace":
        with open(path, "rb") as file:
            previous = file.read()
        atomic.replace(path, b"n" * 9000, real=path, status=os.stat(path), previous=previous)
    else:
        atomic.create(path, b"n" * 9000, real=path, mode=None, owner=None)
except OSError as error:
    print(error.errno == __import__("errno").EFBIG, error.filename == path)
"""


@pytest.mark.parametrize("linked", [False, True])
def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path: Path, linked: bool) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old" * 100)
    if linked:
        (tmp_path / "other").hardlink_to(path)
    names = sorted(os.listdir(tmp_path))
    command = [sys.executable, "-c", FAILING, str(path), "replace"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "True True\n"
    assert path.read_bytes() == b"old" * 100
    assert sorted(os.listdir(tmp_path)) == names


def test_a_new_file_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FAILING, str(tmp_path / "f"), "create"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "True True\n"
    assert os.listdir(tmp_path) == []


def test_a_new_file_gets_the_mode_it_is_given_or_that_of_the_umask(tmp_path: Path) -> None:
    create(tmp_path / "given", b"x", 0o751)
    create(tmp_path / "default", b"x")
    (tmp_path / "usual").touch()
    assert stat.S_IMODE((tmp_path / "given").stat().st_mode) == 0o751
    assert (tmp_path / "default").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_dangling_link_gets_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    create(tmp_path / "link", b"x", exclusive=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"


def test_an_exclusive_file_does_not_replace_what_has_appeared(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        create(tmp_path / "f", b"new", exclusive=True)
    assert (tmp_path / "f").read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_errors_name_the_path_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "no/such/f"
    with pytest.raises(FileNotFoundError) as caught:
        create(path, b"x")
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{path}'"
